// The base of mx.nd.NDArray and mx.np.ndarray: what has to be fast, or needs the engine's handle. The rest is Python.
#include <algorithm>

#include "autograd/row_gradient.h"
#include "dispatch/mode.h"
#include "dispatch/overwrite.h"
#include "dispatch/untraceable.h"
#include "gluino/autograd.h"
#include "gluino/dlpack.h"
#include "gluino/random.h"
#include "graph/trace.h"
#include "object.h"
#include "tensor/impl.h"

namespace gluino::python {
namespace {

PyObject* steal(py::object o) { return o.release().ptr(); }

// NDArray(x): another handle on the same array.
PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* source = nullptr;
    if (!PyArg_ParseTuple(args, "O", &source)) return nullptr;
    const Tensor t = unwrap(source);
    PyObject* o = type->tp_alloc(type, 0);
    if (!o) return nullptr;
    new (&as_array(o)->tensor) Tensor(t);
    return o;
  });
}
void deallocate_array(PyObject* o) {
  if (as_array(o)->weakrefs) PyObject_ClearWeakRefs(o);
  as_array(o)->tensor.~Tensor();
  Py_TYPE(o)->tp_free(o);
}
void deallocate_symbol(PyObject* o) {
  if (as_symbol(o)->weakrefs) PyObject_ClearWeakRefs(o);
  as_symbol(o)->symbol.~Symbol();
  as_symbol(o)->traced.~Tensor();
  Py_TYPE(o)->tp_free(o);
}

// ---- properties; a Symbol outside of a trace has none of them, and says so as Python does

PyObject* no_attribute(PyObject* o, const char* name) {
  return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%s'", Py_TYPE(o)->tp_name, name);
}
template <class F>
PyObject* property(PyObject* o, const char* name, F f) {
  if (is_symbol(o) && !as_symbol(o)->traced.defined()) return no_attribute(o, name);
  return guarded([&] { return f(unwrap_as_is(o)); });
}
PyObject* get_shape(PyObject* o, void*) {
  return property(o, "shape", [](const Tensor& t) { return steal(from_shape(t.shape())); });
}
PyObject* get_ndim(PyObject* o, void*) {
  return property(o, "ndim", [](const Tensor& t) { return PyLong_FromLong(t.ndim()); });
}
PyObject* get_size(PyObject* o, void*) {
  return property(o, "size", [](const Tensor& t) { return PyLong_FromLongLong(t.size()); });
}
PyObject* get_dtype_name(PyObject* o, void*) {
  return property(o, "dtype", [](const Tensor& t) { return PyUnicode_FromString(std::string(dtype_name(t.dtype())).c_str()); });
}
PyObject* get_device_id(PyObject* o, void*) {
  return property(o, "context", [](const Tensor& t) { return PyLong_FromLong(t.device().id()); });
}
// Identity of the value, for finding a parameter by the array a trace met.
PyObject* get_handle(PyObject* o, void*) {
  return property(o, "handle", [](const Tensor& t) { return PyLong_FromVoidPtr(t.impl().get()); });
}
PyObject* get_grad(PyObject* o, void*) {
  return property(o, "grad", [&](const Tensor& t) {
    if (autograd::keeps_rows(t)) return steal(py::module_::import("gluino.ndarray.sparse").attr("gradient_of")(py::handle(o)));
    const Tensor g = t.grad();
    return g.defined() ? wrap(g, flavour_of(o)) : Py_NewRef(Py_None);
  });
}
PyObject* get_grad_req(PyObject* o, void*) {
  return property(o, "grad_req", [](const Tensor& t) {
    static constexpr const char* names[] = {"null", "write", "add"};
    return PyUnicode_FromString(names[static_cast<int>(t.grad_req())]);
  });
}

PyGetSetDef array_properties[] = {{"shape", get_shape, nullptr, "Tuple of extents.", nullptr},
                                  {"ndim", get_ndim, nullptr, "Number of axes.", nullptr},
                                  {"size", get_size, nullptr, "Number of elements.", nullptr},
                                  {"_dtype_name", get_dtype_name, nullptr, nullptr, nullptr},
                                  {"_device_id", get_device_id, nullptr, nullptr, nullptr},
                                  {"_handle", get_handle, nullptr, nullptr, nullptr},
                                  {"grad", get_grad, nullptr, "The gradient that attach_grad() made room for, or None.", nullptr},
                                  {"_grad_req", get_grad_req, nullptr, nullptr, nullptr},
                                  {}};

// ---- indexing

// An output by its name; another kind of mistake than a number out of range, as MXNet has it.
Symbol output_named(const Symbol& s, const std::string& name) {
  const std::vector<std::string> names = s.list_outputs();
  const auto count = std::count(names.begin(), names.end(), name);
  if (count > 1) throw py::value_error("There are multiple outputs with name \"" + name + "\"");
  if (count == 0) throw py::value_error("Cannot find output that matches name \"" + name + "\"");
  return s[name];
}

// mx.nd has no arrays without axes, and a program's graph, which may be exported, has none either: of the last number that picks a single
// element a slice is made. False: the index picks no single element.
bool keep_an_axis(std::vector<Index>& index, const Shape& shape) {
  std::vector<Index*> numbers;
  for (Index& part : index)
    if (std::holds_alternative<int64_t>(part.value()))
      numbers.push_back(&part);
    else if (!std::holds_alternative<Ellipsis>(part.value()))
      return false;
  if (numbers.empty() || static_cast<int>(numbers.size()) != shape.ndim()) return false;
  const int64_t last = std::get<int64_t>(numbers.back()->value()), extent = shape[shape.ndim() - 1];
  if (last < -extent || last >= extent) return false;  // which is said elsewhere
  *numbers.back() = Index(Slice(last, last == -1 ? std::optional<int64_t>() : last + 1));
  return true;
}

PyObject* get_item(PyObject* o, PyObject* key) {
  return guarded([&]() -> PyObject* {
    if (is_graph_symbol(o)) {  // [] of a symbol picks outputs
      const Symbol s = unwrap_symbol(o);
      if (PyUnicode_Check(key)) return wrap(output_named(s, py::cast<std::string>(py::handle(key))), flavour_of(o));
      if (PyIndex_Check(key)) return wrap(s[py::cast<int>(py::handle(key))], flavour_of(o));
      if (!PySlice_Check(key))
        throw py::type_error("[] of a Symbol takes the number or name of an output; slices of values need mx.sym.slice");
      Py_ssize_t start, stop, step;
      if (PySlice_Unpack(key, &start, &stop, &step) < 0) return nullptr;
      const Py_ssize_t n = PySlice_AdjustIndices(s.num_outputs(), &start, &stop, step);
      std::vector<Symbol> picked;
      for (Py_ssize_t i = 0; i < n; ++i) picked.push_back(s[static_cast<int>(start + i * step)]);
      return wrap(sym::group(picked), flavour_of(o));
    }
    const Tensor t = unwrap(o);
    if (!PyTuple_Check(key) && PyIndex_Check(key) && !PyBool_Check(key) && !is_array(key) && !is_symbol(key) && t.ndim() == 0)
      throw py::index_error("an array without axes cannot be indexed by a number");
    std::vector<Index> index = to_index(key);
    if (flavour_of(o) == kLegacy && mode().tracing && keep_an_axis(index, impl_of(t).shape))
      return wrap(t.index(index).reshape({1}), kLegacy);  // there must be one, whatever the extents are
    return wrap(t.index(index), flavour_of(o));
  });
}

int set_item(PyObject* o, PyObject* key, PyObject* value) {
  const auto done = py::reinterpret_steal<py::object>(guarded([&]() -> PyObject* {
    if (!value) throw py::type_error("elements of an array cannot be deleted");
    if (is_graph_symbol(o)) return PyErr_SetString(PyExc_TypeError, "'Symbol' object does not support item assignment"), nullptr;
    Tensor t = unwrap(o);
    const bool whole = PySlice_Check(key) && PyObject_RichCompareBool(key, py::slice(py::none(), py::none(), py::none()).ptr(), Py_EQ) == 1;
    if (whole || key == Py_Ellipsis)
      t.assign(to_tensor(value, t.dtype()));
    else
      t.assign(to_index(key), to_tensor(value, t.dtype()));
    return Py_NewRef(Py_None);
  }));
  return done ? 0 : -1;
}

Py_ssize_t length(PyObject* o) {
  try {
    if (is_graph_symbol(o)) return unwrap_symbol(o).num_outputs();
    const Tensor t = unwrap_as_is(o);
    if (t.ndim() > 0) return t.extent(0);
    PyErr_SetString(PyExc_TypeError, "len() of an array without axes");
  } catch (...) {
    set_python_error();
  }
  return -1;
}

PyMappingMethods mapping{length, get_item, set_item};

// By these NumPy knows what it may put together from a list of arrays; Python itself asks for the mapping's.
PyObject* item(PyObject* o, Py_ssize_t i) {
  const auto number = py::reinterpret_steal<py::object>(PyLong_FromSsize_t(i));
  return number ? get_item(o, number.ptr()) : nullptr;
}
PySequenceMethods sequence = [] {
  PySequenceMethods s{};
  s.sq_length = length;
  s.sq_item = item;
  return s;
}();

// Arrays are keys by identity. What stands for one in a trace is another object than that which the code would see.
Py_hash_t hash(PyObject* o) {
  const bool refused = is_symbol(o) && as_symbol(o)->traced.defined() && is_tracing() && !guarded([]() -> PyObject* {
                         throw Untraceable("it takes an array as a key, of a dictionary, a set or a function that remembers results");
                       });
  return refused ? -1 : _Py_HashPointer(o);
}

PyTypeObject make_type(const char* name, size_t size, destructor dealloc, newfunc create_function, size_t weakrefs,
                       PyGetSetDef* properties) {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = name;
  t.tp_basicsize = static_cast<Py_ssize_t>(size);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  t.tp_dealloc = dealloc;
  t.tp_new = create_function;
  t.tp_weaklistoffset = static_cast<Py_ssize_t>(weakrefs);
  t.tp_getset = properties;
  t.tp_as_number = number_methods();
  t.tp_as_mapping = &mapping;
  t.tp_as_sequence = &sequence;
  t.tp_richcompare = compare;
  t.tp_hash = hash;
  return t;
}

// ---- functions over arrays

py::object array_from(py::object data, int device, bool numpy) {
  return py::reinterpret_steal<py::object>(wrap(from_numpy(std::move(data), cpu(device)), numpy ? kNumpy : kLegacy));
}

void delete_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // taken over by another framework
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

}  // namespace

PyTypeObject array_base =
    make_type("gluino._core.Array", sizeof(ArrayObject), deallocate_array, create, offsetof(ArrayObject, weakrefs), array_properties);
PyTypeObject symbol_base = make_type("gluino._core.SymbolBase", sizeof(SymbolObject), deallocate_symbol, nullptr,
                                     offsetof(SymbolObject, weakrefs), array_properties);

void add_arrays(py::module_& m) {
  for (PyTypeObject* t : {&array_base, &symbol_base})
    if (PyType_Ready(t) < 0) throw py::error_already_set();
  m.attr("Array") = py::handle(reinterpret_cast<PyObject*>(&array_base));
  m.attr("SymbolBase") = py::handle(reinterpret_cast<PyObject*>(&symbol_base));

  m.def("array", &array_from, py::arg("data"), py::arg("device"), py::arg("numpy"), "A new array with the values of a NumPy array.");
  m.def("asnumpy", &to_numpy);
  m.def("as_flavour", [](const Tensor& t, bool numpy) { return py::reinterpret_steal<py::object>(wrap(t, numpy ? kNumpy : kLegacy)); });
  m.def("overwrite", [](Tensor target, const Tensor& value) { overwrite(target, value); });
  m.def("copy_into", [](const Tensor& source, Tensor target) { target.assign(source); });
  m.def("to_device", [](const Tensor& t, int device) { return t.to(cpu(device)); });
  m.def(
      "peek_shape", [](const Tensor& t) { return from_shape(impl_of(t).shape); }, "The shape, without making it a guard of a trace.");
  m.def("array_class", [](py::handle o) { return py::handle(reinterpret_cast<PyObject*>(registered.array[flavour_of(o.ptr())])); });
  m.def("is_traced", [](py::handle o) { return is_symbol(o.ptr()) && as_symbol(o.ptr())->traced.defined(); });
  m.def("attach_grad", [](Tensor t, const std::string& req) { t.attach_grad(to_grad_req(req)); });
  m.def("attach_row_grad", [](const Tensor& t, const std::string& req) { autograd::attach_row_grad(t, to_grad_req(req)); });
  m.def("row_gradient", [](const Tensor& t) {
    if (!t.defined() || !autograd::keeps_rows(t))
      throw py::value_error("an array is needed whose gradient keeps rows: attach_grad(stype='row_sparse')");
    const auto [rows, values] = autograd::row_gradient(t);
    return py::make_tuple(rows, values);
  });
  m.def("set_row_gradient", [](const Tensor& leaf, const Tensor& rows, const Tensor& values) {
    autograd::set_rows(*autograd::entry_of(leaf), {{rows, values, "clip"}});
  });
  m.def(
      "new_sparse",
      [](py::handle type, py::handle shape, py::handle dtype, int device) {
        auto* python_type = reinterpret_cast<PyTypeObject*>(type.ptr());
        PyObject* o = python_type->tp_alloc(python_type, 0);
        if (!o) throw py::error_already_set();
        new (&as_array(o)->tensor) Tensor(make_shape_only(to_shape(shape), to_dtype(dtype), cpu(device)));
        return py::reinterpret_steal<py::object>(o);
      },
      "An array of a class of sparse ones, with a shape and no memory.");
  m.def(
      "dense_writes",
      [](py::handle o) {
        const detail::TensorImpl& t = impl_of(unwrap_as_is(o.ptr()));
        return t.storage ? static_cast<int64_t>(t.storage->writes()) : int64_t{-1};
      },
      "How often the memory of an array was written; -1: it has none.");
  m.def("forget_dense", [](py::handle o) {
    const detail::TensorImpl& t = impl_of(unwrap_as_is(o.ptr()));
    as_array(o.ptr())->tensor = make_shape_only(t.shape, t.dtype, t.device);
  });
  m.def("mark_variable",
        [](const Tensor& t, const Tensor& gradient, const std::string& req) { autograd::mark_variable(t, gradient, to_grad_req(req)); });
  m.def("zero_grad", [](Tensor t) { t.zero_grad(); });
  m.def("detach", [](const Tensor& t) { return t.detach(); });
  m.def("to_dlpack",
        [](const Tensor& t) { return py::reinterpret_steal<py::object>(PyCapsule_New(t.to_dlpack(), "dltensor", delete_capsule)); });
  m.def("from_dlpack", [](const py::capsule& capsule) {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (!managed) throw py::error_already_set();
    const Tensor t = Tensor::from_dlpack(managed);
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    return t;
  });

  m.def("seed", [](uint64_t s, py::object device) { seed(s, device.is_none() ? std::optional<Device>() : cpu(py::cast<int>(device))); });
  m.def("set_num_threads", &set_num_threads);
  m.def("num_threads", &num_threads);
  m.def("set_device", [](int id) {
    // The scope that stays open: Python's with statement restores the previous device by another call.
    static thread_local std::optional<DeviceScope> scope;
    scope.reset();
    scope.emplace(cpu(id));
  });
  m.def("reset_peak", [](int device) { reset_peak(cpu(device)); });
  m.def("memory_stats", [](int device) {
    const MemoryStats s = memory_stats(cpu(device));
    return py::dict(py::arg("live") = s.live, py::arg("peak") = s.peak, py::arg("cached") = s.cached,
                    py::arg("allocations") = s.allocations);
  });
}

}  // namespace gluino::python
