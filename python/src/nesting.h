// Arguments and results as nested Python objects with arrays in them.
#pragma once
#include <unordered_map>

#include "object.h"

namespace gluino::python {

// Arrays and containers in arguments or results, each as often as it stands there.
void list_objects(PyObject* o, std::vector<PyObject*>& all);

// Which object is which: one that stands in two places is one object in what is made, too.
struct SameObjects {
  struct Made {
    py::object object;
    size_t tensors;  // how many stand in it
  };
  std::unordered_map<PyObject*, Made> made;  // for each object that was met, what stands for it
  std::vector<PyObject*> given;              // arguments of the call, as list_objects() gives them
  bool matters = false;                      // one was met twice, or is the caller's
  py::dict found;                            // by id(): what was there before a trace, in variables and attributes
  bool is_from_outside(PyObject* o) const;   // and is no argument
};

// The same nesting with the tensors put where arrays stood, in the order in which KeyWriter meets them. What could be changed is new.
py::object restore(PyObject* like, const Tensors& tensors, size_t& at, SameObjects* same = nullptr);

// A result that a program gives at each call: its arrays, and the rest, which holds none of their values.
class Nesting {
 public:
  // Adds the arrays to `tensors`. Raises Unrepeatable when something in it is no value. `same` knows the arguments, and what was met
  // in other results of the call.
  Nesting(PyObject* result, Tensors& tensors, SameObjects& same);
  py::object make(const Tensors& tensors, size_t& at, SameObjects* same) const { return restore(like_->ptr(), tensors, at, same); }

 private:
  std::shared_ptr<py::object> like_;
};
// What a trace was given as arguments: results that are such an object become the caller's.
void know_arguments(const std::vector<PyObject*>& given, SameObjects& same);

struct Unrepeatable {
  std::string why;
};

}  // namespace gluino::python
