#include "nesting.h"

#include <pybind11/numpy.h>

#include <algorithm>

#include "graph/trace.h"
#include "keys.h"
#include "numbers.h"
#include "tensor/impl.h"

namespace gluino::python {
namespace {

py::object copy_of(PyObject* o) {
  static const auto* copy = new py::object(py::module_::import("copy").attr("copy"));
  return (*copy)(py::handle(o));
}

py::object restore_sequence(PyObject* like, const Tensors& tensors, size_t& at, SameObjects* same) {
  py::list items;
  for (py::handle item : py::handle(like)) items.append(restore(item.ptr(), tensors, at, same));
  if (PyList_CheckExact(like)) return items;
  if (PyTuple_CheckExact(like)) return py::tuple(items);
  if (PyTuple_Check(like))
    return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyTuple_Type)).attr("__new__")(py::type::of(like), items);
  py::object made = copy_of(like);
  made[py::slice(py::none(), py::none(), py::none())] = items;
  return made;
}

// What is shared by all calls of a program must not be changeable, and a call must not need anything of the object but what it is.
bool is_constant(PyObject* o) {
  static const auto *number = new py::object(py::module_::import("numbers").attr("Number")),
                    *enumeration = new py::object(py::module_::import("enum").attr("Enum")),
                    *context = new py::object(py::module_::import("gluino.context").attr("Context")),
                    *dtype = new py::object(py::module_::import("numpy").attr("dtype")),
                    *generic = new py::object(py::module_::import("numpy").attr("generic"));
  if (o == Py_None || o == Py_Ellipsis || PyUnicode_Check(o) || PyBytes_Check(o) || PyLong_Check(o) || PyFloat_Check(o) ||
      PyComplex_Check(o) || PySlice_Check(o) || Py_TYPE(o) == &PyRange_Type || PyFunction_Check(o) || PyCFunction_Check(o) ||
      PyType_Check(o) || PyModule_Check(o))
    return true;
  for (const py::object* type : {number, enumeration, context, dtype, generic})
    if (PyObject_IsInstance(o, type->ptr()) == 1) return true;
  return false;
}

void collect(PyObject* o, Tensors& tensors, const SameObjects& same, int depth) {
  if (depth > 200) throw Unrepeatable{"it returns something nested deeper than 200 levels, or that contains itself"};
  const auto all = [&](py::handle items) {
    for (py::handle item : items) collect(item.ptr(), tensors, same, depth + 1);
  };
  if (is_sparse(o)) throw Unrepeatable{"it returns or keeps a sparse array"};
  if (is_array(o) || is_symbol(o)) return tensors.push_back(unwrap(o));
  if (is_traced_number(o)) throw Unrepeatable{"it returns or keeps a number that it was given"};
  // Who is given it may change it.
  if (same.is_from_outside(o)) throw Unrepeatable{std::string("it returns or keeps what it finds outside, a ") + Py_TYPE(o)->tp_name};
  if (PyTuple_Check(o) || PyList_Check(o)) return all(o);
  if (PyDict_Check(o)) {
    for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(o)) {
      if (!is_constant(name.ptr()) && !PyTuple_Check(name.ptr()))
        throw Unrepeatable{"it returns a dictionary with keys that are no values"};
      collect(value.ptr(), tensors, same, depth + 1);
    }
    return;
  }
  if (is_dataclass(o)) {
    for (const auto& field : py::dict(py::handle(o).attr("__dataclass_fields__")))
      collect(py::object(py::getattr(py::handle(o), field.first, py::none())).ptr(), tensors, same, depth + 1);
    return;
  }
  if (PyAnySet_Check(o)) {
    for (py::handle item : py::handle(o))
      if (!is_constant(item.ptr())) throw Unrepeatable{"it returns a set of what is no value"};
    return;
  }
  if (is_constant(o) || PyByteArray_Check(o) || py::isinstance<py::array>(py::handle(o))) return;
  throw Unrepeatable{std::string("it returns or keeps an object of type ") + Py_TYPE(o)->tp_name +
                     ", which a program could not make again"};
}

// In the place of an object that is the caller's: an argument by its number, or an array from outside, as long as it is there.
struct TheCallers {
  size_t tensors;  // in it
  std::optional<size_t> argument;
  py::object outside;  // a weak reference
  Flavour flavour = kLegacy;
};
constexpr const char* kTheCallers = "gluino.the_callers";

SameObjects::Made the_callers(PyObject* o, TheCallers which) {
  std::vector<PyObject*> inside;
  list_objects(o, inside);
  which.tensors = static_cast<size_t>(std::ranges::count_if(inside, [](PyObject* p) { return is_array(p) || is_symbol(p); }));
  const size_t tensors = which.tensors;
  const auto forget = [](PyObject* capsule) { delete static_cast<TheCallers*>(PyCapsule_GetPointer(capsule, kTheCallers)); };
  return {py::capsule(new TheCallers(std::move(which)), kTheCallers, forget), tensors};
}
py::object find_the_callers(PyObject* capsule, const Tensors& tensors, size_t& at, const SameObjects& same) {
  const auto& which = *static_cast<const TheCallers*>(PyCapsule_GetPointer(capsule, kTheCallers));
  const size_t first = std::exchange(at, at + which.tensors);
  if (which.argument) return py::reinterpret_borrow<py::object>(same.given.at(*which.argument));
  PyObject* o = PyWeakref_GetObject(which.outside.ptr());
  if (o != Py_None && as_array(o)->tensor.is_same(tensors[first])) return py::reinterpret_borrow<py::object>(o);
  return py::reinterpret_steal<py::object>(wrap(tensors[first], which.flavour));  // it is gone, or another by now
}

py::object restore_new(PyObject* like, const Tensors& tensors, size_t& at, SameObjects* same) {
  if (is_array(like) || is_symbol(like)) {
    const Tensor& t = tensors[at++];
    return t.defined() ? py::reinterpret_steal<py::object>(wrap(t, flavour_of(like))) : py::none();
  }
  if (PyTuple_Check(like) || PyList_Check(like)) return restore_sequence(like, tensors, at, same);
  if (PyDict_Check(like)) {
    py::object made = PyDict_CheckExact(like) ? py::object(py::dict()) : copy_of(like);
    for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(like)) made[name] = restore(value.ptr(), tensors, at, same);
    return made;
  }
  if (is_dataclass(like)) {
    py::object made = copy_of(like);
    const py::object set = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyBaseObject_Type)).attr("__setattr__");
    for (const auto& field : py::dict(py::handle(like).attr("__dataclass_fields__")))
      if (py::hasattr(py::handle(like), field.first))
        set(made, field.first, restore(py::object(py::handle(like).attr(field.first)).ptr(), tensors, at, same));
    return made;
  }
  if (PySet_Check(like) || PyByteArray_Check(like) || py::isinstance<py::array>(py::handle(like))) return copy_of(like);
  return py::reinterpret_borrow<py::object>(like);
}

}  // namespace

void list_objects(PyObject* o, std::vector<PyObject*>& all) {
  const bool is_dict = PyDict_Check(o), is_sequence = PyTuple_Check(o) || PyList_Check(o);
  if (is_array(o) || is_symbol(o)) return all.push_back(o);
  if (!is_dict && !is_sequence && !is_dataclass(o)) return;
  all.push_back(o);
  if (is_sequence) {
    for (py::handle item : py::handle(o)) list_objects(item.ptr(), all);
  } else if (is_dict) {
    for (const auto& item : py::reinterpret_borrow<py::dict>(o)) list_objects(item.second.ptr(), all);
  } else {
    for (const auto& field : py::dict(py::handle(o).attr("__dataclass_fields__")))
      if (const py::object value = py::getattr(py::handle(o), field.first, py::none())) list_objects(value.ptr(), all);
  }
}

bool SameObjects::is_from_outside(PyObject* o) const {
  if (found.empty() || made.contains(o) || is_constant(o)) return false;
  const auto number = py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(o));
  return found.contains(number);
}

void know_arguments(const std::vector<PyObject*>& given, SameObjects& same) {
  for (size_t i = 0; i < given.size(); ++i)
    if (!same.made.contains(given[i])) same.made.emplace(given[i], the_callers(given[i], {.tensors = 0, .argument = i, .outside = {}}));
}

py::object restore(PyObject* like, const Tensors& tensors, size_t& at, SameObjects* same) {
  if (!same) return restore_new(like, tensors, at, nullptr);
  const size_t first = at;
  if (const auto known = same->made.find(like); known != same->made.end()) {
    same->matters = true;
    at += known->second.tensors;
    return known->second.object;
  }
  py::object made =
      PyCapsule_IsValid(like, kTheCallers) ? find_the_callers(like, tensors, at, *same) : restore_new(like, tensors, at, same);
  if (!made.is(py::handle(like))) same->made.emplace(like, SameObjects::Made{made, at - first});
  return made;
}

Nesting::Nesting(PyObject* result, Tensors& tensors, SameObjects& same) {
  const size_t first = tensors.size();
  collect(result, tensors, same, 0);
  std::vector<PyObject*> inside;
  list_objects(result, inside);
  for (PyObject* o : inside)
    if (is_array(o) && !same.made.contains(o)) {  // not made by this call
      auto weak = py::reinterpret_steal<py::object>(PyWeakref_NewRef(o, nullptr));
      if (!weak) throw py::error_already_set();
      same.made.emplace(o, the_callers(o, {.tensors = 1, .outside = std::move(weak), .flavour = flavour_of(o)}));
    }
  // Empty arrays stand for the values, which would keep graphs and memory alive.
  const PauseTracing pause;
  const Tensors empty_ones(tensors.size() - first, empty({1}));
  size_t at = 0;
  like_ = keep(restore(result, empty_ones, at, &same));
}

}  // namespace gluino::python
