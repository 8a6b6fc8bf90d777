// The two Python objects of the extension, NDArray and Symbol, and the bridges that every file here needs: to and from
// engine handles, C++ exceptions, and the interpreter's lock.
#pragma once
#include <pybind11/pybind11.h>

#include "gluino/hybrid.h"
#include "gluino/op.h"
#include "gluino/symbol.h"

namespace gluino::python {

namespace py = pybind11;

// Which of the two interfaces a value belongs to: mx.nd (no zero-dimensional arrays, comparisons give numbers) or mx.np.
enum Flavour : int { kLegacy = 0, kNumpy = 1 };

struct ArrayObject {
  PyObject_HEAD;
  PyObject* weakrefs;
  Tensor tensor;
};
// A value of a graph. While a trace runs `traced` is the value itself, which knows its shape and can be updated in place.
struct SymbolObject {
  PyObject_HEAD;
  PyObject* weakrefs;
  Symbol symbol;
  Tensor traced;
};

extern PyTypeObject array_base, symbol_base;
// What the package registers at import: the classes results get, by flavour, and Python functions that C++ calls.
struct Registered {
  PyTypeObject* array[2];
  PyTypeObject* symbol[2];
  PyObject* name_of_call;   // (name or None, hint) -> name, by the rules of mx.name and block scopes
  PyObject* to_dtype_name;  // numpy types and dtypes -> "float32"
  PyObject* errors;         // dict: name of the C++ class -> exception class
  PyTypeObject* traced_number;
};
extern Registered registered;

inline bool is_array(PyObject* o) { return PyObject_TypeCheck(o, &array_base); }
inline bool is_symbol(PyObject* o) { return PyObject_TypeCheck(o, &symbol_base); }
// An array of one of the sparse classes.
inline bool is_sparse(PyObject* o) {
  if (Py_TYPE(o) == registered.array[kLegacy] || Py_TYPE(o) == registered.array[kNumpy] || !is_array(o)) return false;
  static PyObject* const kind = PyUnicode_InternFromString("_STYPE");
  return _PyType_Lookup(Py_TYPE(o), kind) != nullptr;
}
inline ArrayObject* as_array(PyObject* o) { return reinterpret_cast<ArrayObject*>(o); }
inline SymbolObject* as_symbol(PyObject* o) { return reinterpret_cast<SymbolObject*>(o); }
bool is_tracing();
bool is_numpy_mode();               // whether new arrays are those of mx.np
char numpy_mode_key();              // npx.set_np and its like, of this thread
std::string user_line();            // "script.py:12", or ""
std::string& refusal();             // why the trace of this thread was given up by an operator; "": it was not
bool is_graph_symbol(PyObject* o);  // a Symbol outside of any trace
Flavour flavour_of(PyObject* array_or_symbol);
// Raises TypeError: one call is given arrays of mx.nd and of mx.np.
[[noreturn]] void refuse_mixed(const std::string& call);

// New references. A symbolic tensor becomes a Symbol, any other an NDArray.
PyObject* wrap(Tensor t, Flavour flavour);
PyObject* wrap(Symbol s, Flavour flavour);
// The same for what a call has just made: its node remembers the user's line, for errors when it is bound.
PyObject* wrap_call(Symbol s, Flavour flavour);
py::object wrap_all(const Tensors& tensors, Flavour flavour);  // one: itself, several: a list
// Raises TypeError when the object is neither. A sparse array becomes dense, and stays so.
Tensor unwrap(PyObject* o);
Tensor unwrap_as_is(PyObject* o);  // a sparse array may have a shape and no memory
Symbol unwrap_symbol(PyObject* o);

// Inside a catch block: turns the C++ exception into the Python exception of the same meaning.
// What Python code raised inside an operator: an error of the user's like any other, which Python gets back as it was.
class PythonError final : public UserError {
 public:
  explicit PythonError(const py::error_already_set& e) : UserError(e.what(), Located::in_network), error_(e) {}
  void restore() const { PyErr_Restore(copy(error_.type()), copy(error_.value()), copy(error_.trace())); }

 private:
  static PyObject* copy(const py::object& o) { return py::object(o).release().ptr(); }
  py::error_already_set error_;
};

void set_python_error();
template <class F>
PyObject* guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// Lets other Python threads run while it lives, if `worthwhile`: switching costs more than a tiny operator.
class ReleaseLock {
 public:
  explicit ReleaseLock(bool worthwhile = true) : state_(worthwhile ? PyEval_SaveThread() : nullptr) {}
  ~ReleaseLock() {
    if (state_) restore(state_);
  }
  ReleaseLock(const ReleaseLock&) = delete;
  ReleaseLock& operator=(const ReleaseLock&) = delete;

 private:
  static void restore(PyThreadState* state) noexcept;
  PyThreadState* state_;
};

// A Python object that C++ keeps and may let go of in any thread, also when the interpreter is gone.
std::shared_ptr<py::object> keep(py::object o);

// ---- conversions (convert.cc)
AttrValue to_attr(PyObject* o, std::string_view attr);
Shape to_shape(py::handle o);  // an int is a shape of one axis
py::tuple from_shape(const Shape& shape);
DType to_dtype(py::handle o);
GradReq to_grad_req(const std::string& text);  // "write", "add" or "null"
std::vector<Index> to_index(PyObject* key);
Tensor to_tensor(PyObject* o, DType like);  // an NDArray, a number, or whatever numpy.array takes
py::object to_numpy(const Tensor& t);
Tensor from_numpy(py::object array, Device device);

// ---- what each file adds to the module
void add_arithmetic(py::module_& m);
void add_operators(py::module_& m);
void add_arrays(py::module_& m);
void add_symbols(py::module_& m);
void add_autograd(py::module_& m);
void add_hybrid(py::module_& m);
void add_io(py::module_& m);

// ---- arithmetic of both objects (arithmetic.cc)
PyNumberMethods* number_methods();
PyObject* compare(PyObject* a, PyObject* b, int op);

// ---- what mx.profiler asked for (operator.cc): under the interpreter's lock
struct Timed {
  std::string name;    // of an operator, or of what is made of several
  int64_t begin, end;  // nanoseconds of the steady clock
};
class ProfileScope {
 public:
  explicit ProfileScope(std::string_view name);
  ~ProfileScope();
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  std::string_view name_;
  int64_t begin_;
};
int64_t clock_now();
bool is_profiling();
void add_to_profile(std::vector<Timed> calls);

// One call of an operator on tensors (operator.cc).
PyObject* call_operator(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, Flavour flavour);

}  // namespace gluino::python

namespace pybind11::detail {

// Arguments and results of bound functions may be Tensors and Symbols.
template <>
struct type_caster<gluino::Tensor> {
  PYBIND11_TYPE_CASTER(gluino::Tensor, const_name("NDArray"));
  bool load(handle src, bool) {
    if (src.is_none()) return true;
    if (!gluino::python::is_array(src.ptr()) && !gluino::python::is_symbol(src.ptr())) return false;
    value = gluino::python::unwrap(src.ptr());
    return true;
  }
  static handle cast(const gluino::Tensor& t, return_value_policy, handle) {
    return t.defined() ? handle(gluino::python::wrap(t, gluino::python::kLegacy)) : none().release();
  }
};
template <>
struct type_caster<gluino::Symbol> {
  PYBIND11_TYPE_CASTER(gluino::Symbol, const_name("Symbol"));
  bool load(handle src, bool) {
    if (!gluino::python::is_symbol(src.ptr())) return false;
    value = gluino::python::unwrap_symbol(src.ptr());
    return true;
  }
  static handle cast(const gluino::Symbol& s, return_value_policy, handle) { return gluino::python::wrap(s, gluino::python::kLegacy); }
};

}  // namespace pybind11::detail
