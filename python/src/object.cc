#include "object.h"

#include <unistd.h>

#include "dispatch/mode.h"
#include "exec/trace_program.h"
#include "graph/graph.h"
#include "graph/trace.h"
#include "tensor/impl.h"

namespace gluino::python {

Registered registered;

bool is_tracing() { return Tracer::current() != nullptr; }
bool is_graph_symbol(PyObject* o) { return is_symbol(o) && !as_symbol(o)->traced.defined() && !is_tracing(); }

Flavour flavour_of(PyObject* o) {
  const Registered& r = registered;
  PyTypeObject* type = Py_TYPE(o);
  if (type == r.array[kLegacy] || type == r.symbol[kLegacy]) return kLegacy;
  return PyType_IsSubtype(type, r.array[kNumpy]) || PyType_IsSubtype(type, r.symbol[kNumpy]) ? kNumpy : kLegacy;
}

void refuse_mixed(const std::string& call) {
  throw py::type_error(
      call + ": arrays of mx.nd and of mx.np are mixed; convert one with as_np_ndarray() or as_nd_ndarray(), which share its memory");
}

static PyObject* new_symbol(Flavour flavour) {
  PyObject* o = registered.symbol[flavour]->tp_alloc(registered.symbol[flavour], 0);
  if (!o) throw py::error_already_set();
  new (&as_symbol(o)->symbol) Symbol();
  new (&as_symbol(o)->traced) Tensor();
  return o;
}

// "script.py:12": the innermost line that is not of this package, because that is the one to mend.
std::string user_line() {
  static const std::string package = [] {
    const auto file = py::cast<std::string>(py::module_::import("gluino").attr("__file__"));
    return file.substr(0, file.rfind('/') + 1);
  }();
  py::object frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame && !frame.is_none()) {
    const auto file = py::cast<std::string>(frame.attr("f_code").attr("co_filename"));
    if (!file.starts_with(package)) return file.substr(file.rfind('/') + 1) + ':' + std::to_string(py::cast<int>(frame.attr("f_lineno")));
    frame = frame.attr("f_back");
  }
  return "";
}

PyObject* wrap(Tensor t, Flavour flavour) {
  if (!t.defined()) return Py_NewRef(Py_None);
  if (flavour == kLegacy && impl_of(t).shape.ndim() == 0 && (!impl_of(t).symbolic || impl_of(t).symbolic->has_shape)) t = t.reshape({1});
  if (impl_of(t).symbolic) {
    if (!is_tracing()) return wrap_call(Symbol(t), flavour);
    PyObject* o = new_symbol(flavour);
    as_symbol(o)->traced = std::move(t);
    return o;
  }
  PyObject* o = registered.array[flavour]->tp_alloc(registered.array[flavour], 0);
  if (!o) throw py::error_already_set();
  new (&as_array(o)->tensor) Tensor(std::move(t));
  return o;
}

PyObject* wrap(Symbol s, Flavour flavour) {
  PyObject* o = new_symbol(flavour);
  as_symbol(o)->symbol = std::move(s);
  return o;
}

PyObject* wrap_call(Symbol s, Flavour flavour) {
  std::string& origin = s.outputs().at(0).node->origin;
  if (origin.empty()) origin = user_line();
  return wrap(std::move(s), flavour);
}

py::object wrap_all(const Tensors& tensors, Flavour flavour) {
  if (tensors.size() == 1) return py::reinterpret_steal<py::object>(wrap(tensors[0], flavour));
  py::list all;
  for (const Tensor& t : tensors) all.append(t.defined() ? py::reinterpret_steal<py::object>(wrap(t, flavour)) : py::none());
  return all;
}

Tensor unwrap(PyObject* o) {
  if (is_array(o)) {
    // Which storage its results have is told by eager code alone.
    if (is_sparse(o) && is_tracing()) throw Untraceable("it computes with a sparse array");
    Tensor& t = as_array(o)->tensor;
    if (!impl_of(t).storage && !impl_of(t).symbolic) [[unlikely]]
      t = as_array(py::object(py::handle(o).attr("_as_dense")()).ptr())->tensor;
    return t;
  }
  return unwrap_as_is(o);
}
Tensor unwrap_as_is(PyObject* o) {
  if (is_array(o)) return as_array(o)->tensor;
  if (is_symbol(o)) return as_symbol(o)->traced.defined() ? as_symbol(o)->traced : as_symbol(o)->symbol.tensor();
  throw py::type_error(std::string("an NDArray or a Symbol is needed, not ") + Py_TYPE(o)->tp_name);
}

Symbol unwrap_symbol(PyObject* o) {
  if (!is_symbol(o)) throw py::type_error(std::string("a Symbol is needed, not ") + Py_TYPE(o)->tp_name);
  return as_symbol(o)->traced.defined() ? Symbol(as_symbol(o)->traced) : as_symbol(o)->symbol;
}

std::shared_ptr<py::object> keep(py::object o) {
  return {new py::object(std::move(o)), [](py::object* p) {
            if (!Py_IsInitialized()) return;  // the interpreter took its objects along
            const py::gil_scoped_acquire lock;
            delete p;
          }};
}

// When the interpreter ends, Python makes daemon threads that come back for its lock end by unwinding their stack, which
// must not pass through destructors. Such a thread sleeps instead; the process is about to exit.
void ReleaseLock::restore(PyThreadState* state) noexcept {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    while (true) ::pause();
  }
}

static void set_error(const char* kind, const std::string& message, bool is_located = false) {
  PyObject* type = PyDict_GetItemString(registered.errors, kind);
  const std::string line = user_line();
  const py::object error =
      py::reinterpret_borrow<py::object>(type ? type : PyExc_RuntimeError)(line.empty() ? message : message + " [" + line + "]");
  if (is_located) error.attr("is_located") = true;  // it names a block already
  PyErr_SetObject(py::type::of(error).ptr(), error.ptr());
}

std::string& refusal() {
  static thread_local std::string why;
  return why;
}

void set_python_error() {
  try {
    throw;
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const py::builtin_exception& e) {
    e.set_error();
  } catch (const PythonError& e) {
    e.restore();
  } catch (const Error& e) {
    if (dynamic_cast<const Untraceable*>(&e)) refusal() = e.what();
    // The pool and the dispatcher raise SystemError for want of memory, as files do for want of a disk; Python tells them apart.
    const bool is_memory =
        dynamic_cast<const SystemError*>(&e) && std::string_view(e.what()).find("out of memory") != std::string_view::npos;
    const char* kind = is_memory                                ? "OutOfMemory"
                       : dynamic_cast<const ShapeError*>(&e)    ? "ShapeError"
                       : dynamic_cast<const DTypeError*>(&e)    ? "DTypeError"
                       : dynamic_cast<const AttrError*>(&e)     ? "AttrError"
                       : dynamic_cast<const IndexError*>(&e)    ? "IndexError"
                       : dynamic_cast<const SystemError*>(&e)   ? "SystemError"
                       : dynamic_cast<const InternalError*>(&e) ? "InternalError"
                                                                : "UserError";
    set_error(kind, e.what(), e.located() == Located::in_network);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    set_error("UserError", e.what());
  }
}

}  // namespace gluino::python
