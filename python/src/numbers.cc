#include "numbers.h"

#include <cmath>

#include "tensor/impl.h"

namespace gluino::python {
namespace {

std::pair<Py_ssize_t, std::string> place(Py_ssize_t position, PyObject* keyword) {
  return keyword ? std::pair(Py_ssize_t{-1}, py::cast<std::string>(py::handle(keyword))) : std::pair(position, std::string());
}
constexpr double kExactIntegers = 9007199254740992;  // 2^53

// The number, when float64 has it exactly. What is not a number is an object that code may know by its identity.
std::optional<double> exact(PyObject* o) {
  const double d = PyFloat_CheckExact(o) ? PyFloat_AS_DOUBLE(o) : PyLong_AsDouble(o);
  if (std::isnan(d)) return std::nullopt;
  if (PyFloat_CheckExact(o)) return d;
  if (d == -1 && PyErr_Occurred()) PyErr_Clear();
  return std::abs(d) < kExactIntegers ? std::optional(d) : std::nullopt;
}

}  // namespace

std::shared_ptr<NumberArguments::Use>& NumberArguments::use_of(Py_ssize_t position, PyObject* keyword) {
  auto& use = uses_[place(position, keyword)];
  if (!use) use = std::make_shared<Use>();
  return use;
}
bool NumberArguments::varies(PyObject* argument, Py_ssize_t position, PyObject* keyword) const {
  const auto it = uses_.find(place(position, keyword));
  return it != uses_.end() && it->second->varies && !it->second->is_read && exact(argument);
}

void NumberArguments::note(PyObject* argument, Py_ssize_t position, PyObject* keyword) {
  if (!is_number(argument)) return;
  Use& use = *use_of(position, keyword);
  const std::optional<double> now = exact(argument);
  if (!now) use.is_read = true;  // never an input
  if (use.is_read) return;
  if (use.seen && *use.seen != *now) use.varies = has_varying_ = true;
  use.seen = now;
}

py::object NumberArguments::traced(PyObject* argument, const Tensor& value, Py_ssize_t position, PyObject* keyword) {
  const auto on_read = py::cpp_function([use = use_of(position, keyword)] { use->is_read = true; });
  return py::handle(reinterpret_cast<PyObject*>(registered.traced_number))(py::reinterpret_steal<py::object>(wrap(value, kNumpy)),
                                                                           py::type::of(py::handle(argument)), on_read);
}

Tensor NumberArguments::value_of(PyObject* number, Device device) {
  Tensor t = make_tensor({}, DType::float64, device);
  *t.mutable_data<double>() = PyFloat_CheckExact(number) ? PyFloat_AS_DOUBLE(number) : PyLong_AsDouble(number);
  return t;
}

bool is_traced_number(PyObject* o) { return Py_TYPE(o) == registered.traced_number; }
Tensor traced_value(PyObject* traced_number) { return unwrap(py::object(py::handle(traced_number).attr("_traced")).ptr()); }
py::object plain_number(PyObject* o) {
  return is_traced_number(o) ? py::object(py::handle(o).attr("_read")()) : py::reinterpret_borrow<py::object>(o);
}

}  // namespace gluino::python
