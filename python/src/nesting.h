// Arguments and results as nested Python objects with arrays in them.
#pragma once
#include "object.h"

namespace gluino::python {

// The same nesting with the tensors put where arrays stood, in the order in which KeyWriter meets them. What could be changed is new.
py::object restore(PyObject* like, const Tensors& tensors, size_t& at);

// A result that a program gives at each call: its arrays, and the rest, which holds none of their values.
class Nesting {
 public:
  // Adds the arrays to `tensors`. Raises Unrepeatable when something in it is no value.
  Nesting(PyObject* result, Tensors& tensors);
  py::object make(const Tensors& tensors, size_t& at) const { return restore(like_->ptr(), tensors, at); }

 private:
  std::shared_ptr<py::object> like_;
};
struct Unrepeatable {
  std::string why;
};

}  // namespace gluino::python
