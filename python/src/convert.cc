// Between Python's values and the engine's: attributes, shapes, dtypes, indices, NumPy arrays.
#include <pybind11/numpy.h>

#include "numbers.h"
#include "object.h"
#include "tensor/impl.h"

namespace gluino::python {
namespace {

int64_t to_int(PyObject* o) {
  const Py_ssize_t i = PyNumber_AsSsize_t(o, PyExc_OverflowError);
  if (i == -1 && PyErr_Occurred()) throw py::error_already_set();
  return i;
}

bool is_numpy_bool(PyObject* o) { return std::string_view(Py_TYPE(o)->tp_name) == "numpy.bool_"; }

// (1, 2), (1, None), (0.5, 1): the narrowest list type that holds all elements.
AttrValue list_attr(PyObject* o, std::string_view attr) {
  const auto items = py::reinterpret_steal<py::object>(PySequence_Fast(o, "a sequence is needed"));
  if (!items) throw py::error_already_set();
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.ptr());
  Shape ints;
  OptionalInts optional;
  Floats floats;
  bool all_ints = true, none = false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.ptr(), i);
    none |= item == Py_None;
    all_ints &= item == Py_None || (PyIndex_Check(item) && !is_array(item) && !is_symbol(item));
    if (item != Py_None && !PyNumber_Check(item))
      throw py::type_error("attribute '" + std::string(attr) + "' is a sequence that holds a " + Py_TYPE(item)->tp_name + ", not numbers");
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.ptr(), i);
    if (!all_ints) {
      floats.push_back(item == Py_None ? 0 : PyFloat_AsDouble(item));
      if (PyErr_Occurred()) throw py::error_already_set();
    } else if (none) {
      optional.push_back(item == Py_None ? std::nullopt : std::optional(to_int(item)));
    } else {
      ints.push_back(to_int(item));
    }
  }
  if (!all_ints) return floats;
  if (none) return optional;
  return ints;
}

}  // namespace

AttrValue to_attr(PyObject* o, std::string_view attr) {
  if (is_traced_number(o)) return to_attr(plain_number(o).ptr(), attr);
  if (o == Py_None) return {};
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_CheckExact(o)) return to_int(o);
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (PyUnicode_Check(o)) return py::cast<std::string>(py::handle(o));
  if (is_numpy_bool(o)) return PyObject_IsTrue(o) == 1;
  if (PyTuple_Check(o) || PyList_Check(o)) return list_attr(o, attr);
  if (PyType_Check(o) || PyObject_HasAttrString(o, "itemsize")) {
    if (!PyType_Check(o) && PySequence_Check(o) && !is_array(o) && PyObject_Length(o) >= 0) return list_attr(o, attr);  // a NumPy array
    PyErr_Clear();
    if (!PyType_Check(o) && PyIndex_Check(o)) return to_int(o);  // a NumPy integer
    if (!PyType_Check(o) && PyNumber_Check(o) && !PyObject_HasAttrString(o, "names")) return PyFloat_AsDouble(o);
    return to_dtype(o);
  }
  if (PyObject_HasAttrString(o, "device_typeid")) return py::cast<std::string>(py::str(py::handle(o)));
  if (PyIndex_Check(o)) return to_int(o);
  if (PyNumber_Check(o)) {
    const double v = PyFloat_AsDouble(o);
    if (v == -1 && PyErr_Occurred()) throw py::error_already_set();
    return v;
  }
  throw py::type_error("attribute '" + std::string(attr) + "' cannot be a " + Py_TYPE(o)->tp_name);
}

Shape to_shape(py::handle o) {
  if (PyIndex_Check(o.ptr()) && (!PySequence_Check(o.ptr()) || is_array(o.ptr()))) return {to_int(o.ptr())};
  Shape s;
  for (py::handle item : o) s.push_back(to_int(item.ptr()));
  return s;
}

py::tuple from_shape(const Shape& shape) {
  py::tuple t(static_cast<size_t>(shape.ndim()));
  for (int i = 0; i < shape.ndim(); ++i) t[i] = shape[i];
  return t;
}

DType to_dtype(py::handle o) {
  if (PyUnicode_Check(o.ptr())) return parse_dtype(py::cast<std::string>(o));
  return parse_dtype(py::cast<std::string>(py::handle(registered.to_dtype_name)(o)));
}

GradReq to_grad_req(const std::string& text) {
  if (text == "write") return GradReq::write;
  if (text == "add") return GradReq::add;
  if (text == "null") return GradReq::null;
  throw py::value_error("grad_req is 'write', 'add' or 'null', not '" + text + "'");
}

// ---- indices

static Index index_part(PyObject* o) {
  if (o == Py_Ellipsis) return kEllipsis;
  if (o == Py_None) return kNewAxis;
  if (PySlice_Check(o)) {
    auto part = [](PyObject* p) { return p == Py_None ? std::nullopt : std::optional(to_int(p)); };
    const auto* s = reinterpret_cast<PySliceObject*>(o);
    return Slice(part(s->start), part(s->stop), part(s->step).value_or(1));
  }
  if (is_array(o) || is_symbol(o)) {
    // Arrays are float32 unless told otherwise, and MXNet takes them as indices.
    const Tensor t = unwrap(o);
    return Index(is_floating(t.dtype()) ? t.astype(DType::int64) : t);
  }
  if (PyBool_Check(o)) return Index(full({}, o == Py_True, DType::boolean));
  if (PyFloat_Check(o)) throw py::index_error(std::string("an index cannot be a ") + Py_TYPE(o)->tp_name);
  if (PyIndex_Check(o) && !PySequence_Check(o)) return Index(to_int(o));
  py::object numpy = py::module_::import("numpy").attr("asarray")(py::handle(o));
  const std::string kind = py::cast<std::string>(numpy.attr("dtype").attr("kind"));
  const bool is_index = kind == "b" || kind == "i" || kind == "u";
  if (!is_index && PyList_Check(o) && py::cast<int64_t>(numpy.attr("size")) == 0)  // a list of nothing has no kind
    numpy = numpy.attr("astype")("int64");
  else if (!is_index)
    throw py::index_error("an index is made of integers, slices, ..., None, and arrays of integers or booleans");
  return Index(from_numpy(numpy, current_device()));
}

std::vector<Index> to_index(PyObject* key) {
  std::vector<Index> index;
  if (!PyTuple_Check(key)) return {index_part(key)};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) index.push_back(index_part(PyTuple_GET_ITEM(key, i)));
  return index;
}

// ---- NumPy

Tensor to_tensor(PyObject* o, DType like) {
  if (is_array(o) || is_symbol(o)) return unwrap(o);
  if (is_traced_number(o)) return to_tensor(plain_number(o).ptr(), like);
  if (PyFloat_Check(o) || (PyLong_Check(o))) {
    const double v = PyFloat_AsDouble(o);
    if (v == -1 && PyErr_Occurred()) throw py::error_already_set();
    return full({}, v, {like});
  }
  return from_numpy(py::module_::import("numpy").attr("asarray")(py::handle(o)), current_device());
}

py::object to_numpy(const Tensor& t) {
  const Tensor source = t.dtype() == DType::bfloat16 ? t.astype(DType::float32) : t;
  const Shape shape = source.is_symbolic() ? impl_of(source).shape : source.shape();
  py::array array(py::dtype(std::string(dtype_name(source.dtype()))), std::vector<py::ssize_t>(shape.begin(), shape.end()));
  void* destination = array.mutable_data();
  {
    const ReleaseLock release(!is_tracing() && shape.elements() > 4096);
    source.copy_to(destination);
  }
  return array;
}

Tensor from_numpy(py::object object, Device device) {
  py::array array = py::module_::import("numpy").attr("ascontiguousarray")(object);
  const py::buffer_info info = array.request();
  Shape shape;
  for (py::ssize_t e : py::cast<py::array>(object).request().shape) shape.push_back(e);
  const auto dtype = find_dtype(py::cast<std::string>(array.dtype().attr("name")));
  if (!dtype) throw py::type_error("numpy's " + py::cast<std::string>(py::str(array.dtype())) + " has no counterpart; call astype first");
  return visit_dtype(*dtype, [&]<class T>(T*) { return from_data(static_cast<const T*>(info.ptr), shape, {*dtype, device}); });
}

}  // namespace gluino::python
