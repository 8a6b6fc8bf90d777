// Numbers among the arguments of hybridized calls. One that has been another before becomes an input of the program, as long as traced code
// does nothing but compute with it (gluino/_number.py stands for it meanwhile); else its value decides which program serves.
#pragma once
#include <map>
#include <memory>
#include <optional>

#include "object.h"

namespace gluino::python {

class NumberArguments {
 public:
  // What is known of the argument at position `position`, or of the one named `keyword`.
  struct Use {
    std::optional<double> seen;  // at the last trace
    bool varies = false;
    bool is_read = false;  // traced code wants to know it
  };

  // Whether this argument is a number that is an input; on the way of every call.
  bool is_input(PyObject* argument, Py_ssize_t position, PyObject* keyword) const {
    return has_varying_ && is_number(argument) && varies(argument, position, keyword);
  }
  // A trace is made for this value of an argument.
  void note(PyObject* argument, Py_ssize_t position, PyObject* keyword);
  // Stands for the argument in a trace.
  py::object traced(PyObject* argument, const Tensor& value, Py_ssize_t position, PyObject* keyword);
  // A trace with such numbers has failed: perhaps because of them.
  void give_up(Py_ssize_t position, PyObject* keyword) { *use_of(position, keyword) = {.is_read = true}; }

  static bool is_number(PyObject* o) { return PyFloat_CheckExact(o) || PyLong_CheckExact(o); }
  static Tensor value_of(PyObject* number, Device device);  // one element of float64

 private:
  std::shared_ptr<Use>& use_of(Py_ssize_t position, PyObject* keyword);
  bool varies(PyObject* argument, Py_ssize_t position, PyObject* keyword) const;

  std::map<std::pair<Py_ssize_t, std::string>, std::shared_ptr<Use>> uses_;
  bool has_varying_ = false;
};

bool is_traced_number(PyObject* o);
Tensor traced_value(PyObject* traced_number);
// The number that a traced one stands for, which is a read; anything else as it is.
py::object plain_number(PyObject* o);

}  // namespace gluino::python
