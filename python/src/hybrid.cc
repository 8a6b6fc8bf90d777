// hybridize() for Python: the engine's HybridCache with a Python callable as the function that is traced.
#include <pybind11/stl.h>

#include "dispatch/mode.h"
#include "graph/trace.h"
#include "object.h"
#include "tensor/impl.h"

namespace gluino::python {
namespace {

// Arguments and results may be nested lists, tuples, dictionaries, None, numbers and texts. `key` says all of it but the
// tensors, so that equal keys mean equal structure.
void flatten(PyObject* o, Tensors& tensors, std::string& key, bool& numpy) {
  if (is_array(o) || is_symbol(o)) {
    key += flavour_of(o) == kNumpy ? 'p' : 't';
    numpy |= flavour_of(o) == kNumpy;
    return tensors.push_back(unwrap(o));
  }
  if (o == Py_None) return key += 'n', void();
  if (PyTuple_Check(o) || PyList_Check(o)) {
    key += PyTuple_Check(o) ? '(' : '[';
    for (py::handle item : py::handle(o)) flatten(item.ptr(), tensors, key, numpy);
    return key += ')', void();
  }
  if (PyDict_Check(o)) {
    key += '{';
    for (const auto& [name, value] : py::cast<py::dict>(py::handle(o))) {
      key += py::cast<std::string>(py::repr(name)) + ':';
      flatten(value.ptr(), tensors, key, numpy);
    }
    return key += '}', void();
  }
  // Other values are part of the signature by what they show: numbers and texts by value, objects by identity.
  key += '#' + py::cast<std::string>(py::repr(py::handle(o))) + ';';
}

// The same nesting with the tensors put back.
py::object restore(PyObject* like, const Tensors& tensors, size_t& at) {
  if (is_array(like) || is_symbol(like)) return py::reinterpret_steal<py::object>(wrap(tensors[at++], flavour_of(like)));
  if (PyTuple_Check(like) || PyList_Check(like)) {
    py::list items;
    for (py::handle item : py::handle(like)) items.append(restore(item.ptr(), tensors, at));
    if (!PyTuple_Check(like)) return items;
    const py::object type = py::type::of(like);
    return py::hasattr(type, "_fields") ? type(*items) : py::object(py::tuple(items));
  }
  if (PyDict_Check(like)) {
    py::dict d;
    for (const auto& [name, value] : py::cast<py::dict>(py::handle(like))) d[name] = restore(value.ptr(), tensors, at);
    return d;
  }
  return py::reinterpret_borrow<py::object>(like);
}

HybridOptions to_options(const py::dict& flags) {
  HybridOptions o;
  for (const auto& [name, value] : flags) {
    const auto key = py::cast<std::string>(name);
    if (key == "static_alloc")
      o.static_alloc = py::cast<bool>(value);
    else if (key == "static_shape")
      o.static_shape = py::cast<bool>(value);
    else if (key == "inline_limit")
      o.inline_limit = py::cast<int>(value);
    else if (key == "forward_bulk_size")
      o.forward_bulk_size = py::cast<int>(value);
    else if (key == "backward_bulk_size")
      o.backward_bulk_size = py::cast<int>(value);
    else if (key == "verify")
      o.verify = py::cast<bool>(value);
    else if (key == "strict")
      o.strict = py::cast<bool>(value);
    else if (key == "max_plans")
      o.max_plans = py::cast<int>(value);
    else
      throw py::type_error("hybridize: no option is named '" + key +
                           "'; there are static_alloc, static_shape, inline_limit, "
                           "forward_bulk_size, backward_bulk_size, verify, strict and max_plans");
  }
  return o;
}

class PythonCache {
 public:
  // function(*args) is what gets traced; name_of(handle) names a parameter by the identity of its array, or gives "".
  PythonCache(py::object function, py::object name_of, const py::dict& flags)
      : function_(std::move(function)), name_of_(std::move(name_of)), cache_(to_options(flags), [this](const Tensor& t) {
          const py::gil_scoped_acquire lock;
          return py::cast<std::string>(name_of_(py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(t.impl().get()))));
        }) {}

  PyObject* call(PyObject* const* args, Py_ssize_t count) {
    Tensors flat;
    flat.reserve(count);
    std::string key;
    bool numpy = false;
    for (Py_ssize_t i = 0; i < count; ++i) flatten(args[i], flat, key, numpy);
    HybridCache::Result result;
    {
      const ReleaseLock release;
      result = cache_.call([&](const Tensors& traced) { return run_python(args, count, traced); }, flat, key);
    }
    size_t at = 0;
    return restore(static_cast<const Nesting*>(result.rest.get())->like.ptr(), result.tensors, at).release().ptr();
  }

  void clear() {
    const ReleaseLock release;
    cache_.clear();
  }
  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function_.ptr());
    Py_VISIT(name_of_.ptr());
    return 0;
  }
  HybridCache& cache() { return cache_; }

 private:
  // What a result looks like. It dies with the trace, on whatever thread that happens.
  struct Nesting {
    py::object like;
    ~Nesting() {
      const py::gil_scoped_acquire lock;
      like = py::object();
    }
  };
  HybridCache::Result run_python(PyObject* const* args, Py_ssize_t count, const Tensors& traced) {
    const py::gil_scoped_acquire lock;
    py::tuple restored(static_cast<size_t>(count));
    size_t at = 0;
    for (Py_ssize_t i = 0; i < count; ++i) restored[i] = restore(args[i], traced, at);
    const py::object result = function_(*restored);
    HybridCache::Result out;
    std::string ignored;
    bool numpy = false;
    flatten(result.ptr(), out.tensors, ignored, numpy);
    out.rest = std::make_shared<const Nesting>(shape_of(result.ptr()));
    return out;
  }
  // The result's nesting with empty arrays in place of values, which would keep graphs and memory alive.
  static py::object shape_of(PyObject* result) {
    Tensors tensors;
    std::string key;
    bool numpy = false;
    flatten(result, tensors, key, numpy);
    const PauseTracing pause;
    Tensors empty_ones(tensors.size(), empty({1}));
    size_t at = 0;
    return restore(result, empty_ones, at);
  }

  py::object function_, name_of_;
  HybridCache cache_;
};

// A raw type, because its call is on the hot path and its Python references take part in garbage collection.
struct CacheObject {
  PyObject_HEAD;
  vectorcallfunc call;
  PythonCache* cache;
};
PythonCache& cache_of(PyObject* o) { return *reinterpret_cast<CacheObject*>(o)->cache; }

PyObject* call_cache(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* keywords) {
  if (keywords && PyTuple_GET_SIZE(keywords) > 0)
    return PyErr_SetString(PyExc_TypeError, "a compiled call takes no keyword arguments"), nullptr;
  return guarded([&] { return cache_of(self).call(args, PyVectorcall_NARGS(static_cast<Py_ssize_t>(nargsf))); });
}
PyObject* new_cache(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject *function, *name_of, *flags;
    if (!PyArg_ParseTuple(args, "OOO!", &function, &name_of, &PyDict_Type, &flags)) return nullptr;
    auto made = std::make_unique<PythonCache>(py::reinterpret_borrow<py::object>(function), py::reinterpret_borrow<py::object>(name_of),
                                              py::reinterpret_borrow<py::dict>(flags));
    auto* o = reinterpret_cast<CacheObject*>(type->tp_alloc(type, 0));
    if (!o) return nullptr;
    o->call = call_cache;
    o->cache = made.release();
    return reinterpret_cast<PyObject*>(o);
  });
}
void delete_cache(PyObject* o) {
  PyObject_GC_UnTrack(o);
  delete reinterpret_cast<CacheObject*>(o)->cache;
  Py_TYPE(o)->tp_free(o);
}
int traverse_cache(PyObject* o, visitproc visit, void* arg) {
  return reinterpret_cast<CacheObject*>(o)->cache ? cache_of(o).traverse(visit, arg) : 0;
}
int clear_cache(PyObject* o) {
  delete std::exchange(reinterpret_cast<CacheObject*>(o)->cache, nullptr);
  return 0;
}
PyTypeObject cache_type = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "gluino._core.HybridCache";
  t.tp_basicsize = sizeof(CacheObject);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  t.tp_vectorcall_offset = offsetof(CacheObject, call);
  t.tp_call = PyVectorcall_Call;
  t.tp_new = new_cache;
  t.tp_dealloc = delete_cache;
  t.tp_traverse = traverse_cache;
  t.tp_clear = clear_cache;
  return t;
}();

// with pause_tracing(): operators run for real.
struct PauseContext {
  std::optional<PauseTracing> pause;
};

}  // namespace

void add_hybrid(py::module_& m) {
  if (PyType_Ready(&cache_type) < 0) throw py::error_already_set();
  m.attr("HybridCache") = py::handle(reinterpret_cast<PyObject*>(&cache_type));
  // A thread that traces holds the cache and wants the interpreter: whoever waits for the cache must not hold the latter.
  auto with = [](py::handle o, auto f) {
    HybridCache& cache = cache_of(o.ptr()).cache();
    const ReleaseLock release;
    return f(cache);
  };
  m.def("cache_clear", [](py::handle o) { cache_of(o.ptr()).clear(); });
  m.def("cache_symbol", [with](py::handle o) { return with(o, [](HybridCache& c) { return c.symbol(); }); });
  m.def("cache_captured",
        [with](py::handle o, const std::string& name) { return with(o, [&](HybridCache& c) { return c.captured(name); }); });
  m.def("cache_explain", [with](py::handle o) { return with(o, [](HybridCache& c) { return c.explain(); }); });
  m.def("cache_memory_plan", [with](py::handle o) { return with(o, [](HybridCache& c) { return c.memory_plan(); }); });
  m.def("cache_to_dot", [with](py::handle o, bool before) {
    return with(o, [&](HybridCache& c) { return (before ? c.graph_before() : c.graph_after()).to_dot(); });
  });
  m.def("cache_to_svg",
        [with](py::handle o, bool before) { return with(o, [&](HybridCache& c) { return before ? c.svg_before() : c.svg_after(); }); });
  m.def("cache_stats", [with](py::handle o) {
    const HybridStats s = with(o, [](HybridCache& c) { return c.stats(); });
    return py::dict(py::arg("calls") = s.calls, py::arg("traces") = s.traces, py::arg("plans") = s.plans, py::arg("segments") = s.segments);
  });
  py::class_<PauseContext>(m, "pause_tracing")
      .def(py::init<>())
      .def("__enter__", [](PauseContext& c) { c.pause.emplace(); })
      .def("__exit__", [](PauseContext& c, const py::args&) { c.pause.reset(); });
}

}  // namespace gluino::python
