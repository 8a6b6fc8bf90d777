// +, -, *, ==, += ... of NDArray and Symbol, and the functions of the same names (mx.nd.add, ...), which take numbers too.
#include <algorithm>
#include <cmath>
#include <optional>

#include "dispatch/mode.h"
#include "graph/trace.h"
#include "numbers.h"
#include "object.h"
#include "tensor/impl.h"

namespace gluino::python {
namespace {

// One kind of arithmetic: what it is between tensors, between symbols (which do not broadcast), and with a number.
struct Binary {
  const char *name, *broadcast, *elementwise, *scalar, *reverse;
  bool is_comparison = false;
};
constexpr Binary kBinaries[] = {
    {"add", "broadcast_add", "_Plus", "_plus_scalar", "_plus_scalar"},
    {"subtract", "broadcast_sub", "_Minus", "_minus_scalar", "_rminus_scalar"},
    {"multiply", "broadcast_mul", "_Mul", "_mul_scalar", "_mul_scalar"},
    {"divide", "broadcast_div", "_Div", "_div_scalar", "_rdiv_scalar"},
    {"modulo", "broadcast_mod", "_Mod", "_mod_scalar", "_rmod_scalar"},
    {"power", "broadcast_power", "_Power", "_power_scalar", "_rpower_scalar"},
    {"maximum", "broadcast_maximum", "_Maximum", "_maximum_scalar", "_maximum_scalar"},
    {"minimum", "broadcast_minimum", "_Minimum", "_minimum_scalar", "_minimum_scalar"},
    {"hypot", "broadcast_hypot", "_hypot", "_hypot_scalar", "_hypot_scalar"},
    {"lesser", "broadcast_lesser", "_Lesser", "_lesser_scalar", "_greater_scalar", true},
    {"lesser_equal", "broadcast_lesser_equal", "_Lesser_Equal", "_lesser_equal_scalar", "_greater_equal_scalar", true},
    {"equal", "broadcast_equal", "_Equal", "_equal_scalar", "_equal_scalar", true},
    {"not_equal", "broadcast_not_equal", "_Not_Equal", "_not_equal_scalar", "_not_equal_scalar", true},
    {"greater", "broadcast_greater", "_Greater", "_greater_scalar", "_lesser_scalar", true},
    {"greater_equal", "broadcast_greater_equal", "_Greater_Equal", "_greater_equal_scalar", "_lesser_equal_scalar", true},
    {"logical_and", "broadcast_logical_and", "_Logical_And", "_logical_and_scalar", "_logical_and_scalar", true},
    {"logical_or", "broadcast_logical_or", "_Logical_Or", "_logical_or_scalar", "_logical_or_scalar", true},
    {"logical_xor", "broadcast_logical_xor", "_Logical_Xor", "_logical_xor_scalar", "_logical_xor_scalar", true},
};
constexpr size_t kCount = std::size(kBinaries);
enum Kind { kAdd, kSubtract, kMultiply, kDivide, kModulo, kPower, kLesser = 9, kLesserEqual, kEqual, kNotEqual, kGreater, kGreaterEqual };

struct Resolved {
  const OpDef *broadcast, *scalar, *reverse;
};
const Resolved& resolved(size_t kind) {
  static const std::vector<Resolved> all = [] {
    std::vector<Resolved> r;
    const OpRegistry& ops = OpRegistry::global();
    for (const Binary& b : kBinaries) r.push_back({&ops.get(b.broadcast), &ops.get(b.scalar), &ops.get(b.reverse)});
    return r;
  }();
  return all[kind];
}

bool is_value(PyObject* o) { return is_array(o) || is_symbol(o); }
bool is_number(PyObject* o) {
  return PyFloat_Check(o) || PyLong_Check(o) || (!is_value(o) && !PySequence_Check(o) && PyNumber_Check(o) && !PyComplex_Check(o));
}
double number(PyObject* o) {
  const double v = PyFloat_AsDouble(o);
  if (v == -1 && PyErr_Occurred()) throw py::error_already_set();
  return v;
}

std::string call_name(const std::string& hint) { return py::cast<std::string>(py::handle(registered.name_of_call)(py::none(), hint)); }

// What calls are named after. MXNet's operators have other spellings for Symbol's: _MulScalar is _mul_scalar, and x * 2 is named
// _mulscalar0.
std::string hint_of(const Binary& b, const std::string& op, Flavour flavour) {
  if (flavour == kNumpy) return op;
  if (op == b.broadcast) return b.elementwise;
  std::string hint = op;
  hint.erase(std::remove(hint.begin() + 1, hint.end(), '_'), hint.end());
  return op == b.elementwise ? op : hint;
}

PyObject* symbolic(const Binary& b, PyObject* lhs, PyObject* rhs, Flavour flavour) {
  std::vector<Symbol> inputs;
  StringMap attrs;
  const char* op = flavour == kNumpy ? b.broadcast : b.elementwise;
  if (is_value(lhs) && is_value(rhs)) {
    inputs = {unwrap_symbol(lhs), unwrap_symbol(rhs)};
  } else {
    op = is_value(lhs) ? b.scalar : b.reverse;
    inputs = {unwrap_symbol(is_value(lhs) ? lhs : rhs)};
    attrs["scalar"] = AttrType<double>::print(number(is_value(lhs) ? rhs : lhs));
  }
  return wrap_call(sym::apply(op, inputs, attrs, call_name(hint_of(b, op, flavour))), flavour);
}

PyObject* finish(const Binary& b, Tensor result, Flavour flavour) {
  return wrap(b.is_comparison && flavour == kNumpy ? result.astype(DType::boolean) : std::move(result), flavour);
}

// A float beside integers gives floats in mx.np, and a whole number beside truth values whole numbers; mx.nd keeps the array's type.
Tensor promoted(const Binary& b, const Tensor& t, PyObject* scalar, Flavour flavour) {
  if (flavour != kNumpy || is_floating(t.dtype())) return t;
  if (&b == &kBinaries[kDivide] || PyFloat_Check(scalar)) return t.astype(DType::float32);
  if (t.dtype() != DType::boolean || PyBool_Check(scalar)) return t;
  const double value = number(scalar);
  return b.is_comparison && (value == 0 || value == 1) ? t : t.astype(DType::int64);
}

Tensor of_number(const OpDef& op, const Tensor& t, double number) {
  const std::pair<std::string_view, AttrValue> attrs[] = {{"scalar", number}};
  return apply_one(op, {&t, 1}, op.make_attrs(attrs));
}
Tensor of_two(const OpDef& op, const Tensor& a, const Tensor& b) {
  const Tensor inputs[] = {a, b};
  return apply_one(op, inputs, op.default_attrs);
}

PyObject* with_scalar(const Binary& b, const OpDef& op, PyObject* value, PyObject* scalar, Flavour flavour) {
  const Tensor t = promoted(b, unwrap(value), scalar, flavour);
  const std::pair<std::string_view, AttrValue> attrs[] = {{"scalar", number(scalar)}};
  const Attrs made = op.make_attrs(attrs);
  if (is_tracing()) name_next_call(call_name(hint_of(b, op.name, flavour)));
  Tensor result;
  {
    const ReleaseLock release(!is_tracing() && impl_of(t).shape.elements() > 4096);
    result = apply_one(op, {&t, 1}, made);
  }
  return finish(b, std::move(result), flavour);
}

PyObject* between(const Binary& b, const OpDef& op, PyObject* lhs, PyObject* rhs, Flavour flavour) {
  Tensor inputs[] = {unwrap(lhs), unwrap(rhs)};
  if (flavour == kNumpy && &b == &kBinaries[kDivide] && !is_floating(inputs[0].dtype()) && !is_floating(inputs[1].dtype()))
    for (Tensor& t : inputs) t = t.astype(DType::float32);
  if (is_tracing()) name_next_call(call_name(hint_of(b, op.name, flavour)));
  Tensor result;
  {
    const ReleaseLock release(!is_tracing() && impl_of(inputs[0]).shape.elements() > 4096);
    result = apply_one(op, inputs, op.default_attrs);
  }
  return finish(b, std::move(result), flavour);
}

// Sums, products and quotients with a number that is an input of the traced program: the same, bit by bit, as with the number itself.
std::optional<Tensor> as_operand(size_t kind, PyObject* value, PyObject* number, bool number_first) {
  if (!is_traced_number(number) || kind > kDivide || (kind == kDivide && number_first)) return {};
  const DType dtype = unwrap(value).dtype();
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  return traced_value(number).astype(dtype);
}

PyObject* not_implemented() { Py_RETURN_NOTIMPLEMENTED; }

PyObject* binary(size_t kind, PyObject* lhs, PyObject* rhs) {
  return guarded([&]() -> PyObject* {
    const Binary& b = kBinaries[kind];
    const Resolved& op = resolved(kind);
    const bool left = is_value(lhs), right = is_value(rhs);
    if (!(left || is_number(lhs)) || !(right || is_number(rhs)) || !(left || right)) return not_implemented();
    const Flavour flavour = (left && flavour_of(lhs) == kNumpy) || (right && flavour_of(rhs) == kNumpy) ? kNumpy : kLegacy;
    const bool graph = (left && is_graph_symbol(lhs)) || (right && is_graph_symbol(rhs));
    if (graph) {
      if ((left && is_array(lhs)) || (right && is_array(rhs)))
        throw py::type_error("a Symbol and an NDArray cannot be combined; make the array a variable with mx.sym.var, or trace the code");
      return symbolic(b, lhs, rhs, flavour);
    }
    if (left && right && flavour_of(lhs) != flavour_of(rhs)) refuse_mixed(b.broadcast);
    if (left && right) return between(b, *op.broadcast, lhs, rhs, flavour);
    if (const auto number = as_operand(kind, left ? lhs : rhs, left ? rhs : lhs, right)) {
      name_next_call(call_name(hint_of(b, op.broadcast->name, flavour)));
      return wrap(left ? of_two(*op.broadcast, unwrap(lhs), *number) : of_two(*op.broadcast, *number, unwrap(rhs)), flavour);
    }
    const py::object scalar = plain_number(left ? rhs : lhs);
    return with_scalar(b, left ? *op.scalar : *op.reverse, left ? lhs : rhs, scalar.ptr(), flavour);
  });
}

template <size_t kind>
PyObject* slot(PyObject* a, PyObject* b) {
  return binary(kind, a, b);
}
PyObject* power_slot(PyObject* a, PyObject* b, PyObject*) { return binary(kPower, a, b); }

template <size_t kind>
void update(Tensor& target, const auto& rhs) {
  if constexpr (kind == kAdd) target += rhs;
  if constexpr (kind == kSubtract) target -= rhs;
  if constexpr (kind == kMultiply) target *= rhs;
  if constexpr (kind == kDivide) target /= rhs;
  if constexpr (kind == kModulo) target.assign(target % rhs);
}

// x += y writes into x, as the engine does it: memory when it can, a new value when x is traced or on the tape.
template <size_t kind>
PyObject* inplace(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (is_graph_symbol(a))
      return PyErr_SetString(PyExc_NotImplementedError, "a Symbol has no in-place operators: write x = x + y instead of x += y"), nullptr;
    if (!is_value(b) && !is_number(b)) return not_implemented();
    const py::object plain = plain_number(b);
    b = plain.ptr();
    if (is_value(b) && flavour_of(a) != flavour_of(b)) refuse_mixed(kBinaries[kind].broadcast);
    Tensor target = unwrap(a);
    // Python's objects are read before its lock is released.
    const bool of_value = is_value(b), is_whole = PyIndex_Check(b);  // NumPy's whole numbers too
    const Tensor other = of_value ? unwrap(b) : Tensor();
    const double scalar = of_value ? 0 : number(b);
    {
      const ReleaseLock release(!is_tracing() && impl_of(target).shape.elements() > 4096);
      if (flavour_of(a) == kLegacy && !is_floating(target.dtype()))  // mx.nd stores what it gets as whole numbers
        target.assign(of_value ? of_two(*resolved(kind).broadcast, target, other) : of_number(*resolved(kind).scalar, target, scalar));
      else if (of_value)
        update<kind>(target, other);
      else if (is_whole)
        update<kind>(target, static_cast<int64_t>(scalar));
      else
        update<kind>(target, scalar);
    }
    return Py_NewRef(a);
  });
}

PyObject* negative(PyObject* a) {
  return guarded([&]() -> PyObject* {
    if (is_graph_symbol(a))
      return wrap_call(sym::apply("_mul_scalar", {unwrap_symbol(a)}, {{"scalar", "-1"}},
                                  call_name(flavour_of(a) == kNumpy ? "_mul_scalar" : "_mulscalar")),
                       flavour_of(a));
    return wrap(-unwrap(a), flavour_of(a));
  });
}
PyObject* absolute(PyObject* a) {
  return guarded([&]() -> PyObject* {
    if (is_graph_symbol(a)) return wrap_call(sym::apply("abs", {unwrap_symbol(a)}, {}, call_name("abs")), flavour_of(a));
    return wrap(call("abs", {unwrap(a)}), flavour_of(a));
  });
}
PyObject* positive(PyObject* a) {
  Py_INCREF(a);
  return a;
}

int truth(PyObject* a) {
  try {
    if (is_graph_symbol(a)) {
      PyErr_SetString(PyExc_NotImplementedError,
                      "the truth of a Symbol is not known before its graph runs; use mx.sym.where or contrib.cond");
      return -1;
    }
    const Tensor t = unwrap(a);
    const int64_t size = t.size();  // which makes a program one for these extents
    if (size == 0) return 0;
    if (size != 1) {
      PyErr_SetString(PyExc_ValueError, "The truth value of an NDArray with multiple elements is ambiguous.");
      return -1;
    }
    return static_cast<bool>(t);
  } catch (...) {
    set_python_error();
    return -1;
  }
}

Tensor only_element(PyObject* a, const char* what) {
  if (is_graph_symbol(a)) throw py::type_error(std::string(what) + ": the value of a Symbol is not known before its graph runs");
  const Tensor t = unwrap(a);
  if (t.size() != 1) throw py::type_error("only size-1 arrays can be converted to Python scalars");
  return t;
}
PyObject* to_float(PyObject* a) {
  return guarded([&] { return PyFloat_FromDouble(only_element(a, "float").item<double>()); });
}
PyObject* to_integer(PyObject* a) {
  return guarded([&]() -> PyObject* {
    const Tensor t = only_element(a, "int");
    return is_floating(t.dtype()) ? PyLong_FromDouble(t.item<double>()) : PyLong_FromLongLong(t.item<int64_t>());
  });
}
PyObject* to_subscript(PyObject* a) {
  return guarded([&]() -> PyObject* {
    const Tensor t = only_element(a, "index");
    if (is_floating(t.dtype())) throw py::type_error("only integer scalar arrays can be converted to a scalar index");
    return PyLong_FromLongLong(t.item<int64_t>());
  });
}

PyObject* matrix_product(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (!is_value(a) || !is_value(b)) return not_implemented();
    const bool graph = is_graph_symbol(a) || is_graph_symbol(b);  // without a shape, which mx.np's function asks for
    const py::object namespace_ = py::module_::import(graph ? "gluino.symbol.numpy_functions" : "gluino.numpy");
    return py::object(namespace_.attr("matmul")(py::handle(a), py::handle(b))).release().ptr();
  });
}

// mx.nd.add and its like: an object with a fast call.
struct BinaryFunction {
  PyObject_HEAD;
  vectorcallfunc call;
  size_t kind;
};
PyObject* call_binary(PyObject* self, PyObject* const* args, size_t nargs, PyObject* keywords) {
  const size_t kind = reinterpret_cast<BinaryFunction*>(self)->kind;
  PyObject* operands[2] = {nullptr, nullptr};
  const auto given = static_cast<size_t>(PyVectorcall_NARGS(static_cast<Py_ssize_t>(nargs)));
  const size_t named = keywords ? static_cast<size_t>(PyTuple_GET_SIZE(keywords)) : 0;
  bool fits = given <= 2;
  for (size_t i = 0; i < given && fits; ++i) operands[i] = args[i];
  for (size_t i = 0; i < named && fits; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keywords, static_cast<Py_ssize_t>(i));
    const bool lhs = PyUnicode_CompareWithASCIIString(key, "lhs") == 0;
    fits = lhs || PyUnicode_CompareWithASCIIString(key, "rhs") == 0;
    operands[lhs ? 0 : 1] = args[given + i];
  }
  if (!fits || !operands[0] || !operands[1])
    return PyErr_Format(PyExc_TypeError, "%s takes two arguments: lhs and rhs", kBinaries[kind].name);
  if (!is_value(operands[0]) && !is_value(operands[1]) && is_number(operands[0]) && is_number(operands[1])) {
    // Two plain numbers: as MXNet, the Python result.
    return guarded([&]() -> PyObject* {
      const py::object o =
          py::module_::import("gluino.base").attr("python_binary")(kBinaries[kind].name, py::handle(operands[0]), py::handle(operands[1]));
      return py::object(o).release().ptr();
    });
  }
  PyObject* result = binary(kind, operands[0], operands[1]);
  if (result != Py_NotImplemented) return result;
  Py_DECREF(result);
  return PyErr_Format(PyExc_TypeError, "%s: types %s and %s are not supported; make arrays with mx.nd.array first", kBinaries[kind].name,
                      Py_TYPE(operands[0])->tp_name, Py_TYPE(operands[1])->tp_name);
}
PyObject* binary_name(PyObject* self, void*) { return PyUnicode_FromString(kBinaries[reinterpret_cast<BinaryFunction*>(self)->kind].name); }
PyObject* binary_doc(PyObject* self, void*) {
  const Binary& b = kBinaries[reinterpret_cast<BinaryFunction*>(self)->kind];
  return PyUnicode_FromFormat("%s(lhs, rhs)\n\n%s Either may be a number; arrays broadcast.", b.name,
                              OpRegistry::global().get(b.broadcast).doc.c_str());
}
PyGetSetDef binary_properties[] = {
    {"__name__", binary_name, nullptr, nullptr, nullptr}, {"__doc__", binary_doc, nullptr, nullptr, nullptr}, {}};
PyTypeObject binary_type = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "gluino._core.BinaryFunction";
  t.tp_basicsize = sizeof(BinaryFunction);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  t.tp_vectorcall_offset = offsetof(BinaryFunction, call);
  t.tp_call = PyVectorcall_Call;
  t.tp_getset = binary_properties;
  return t;
}();

PyNumberMethods methods = [] {
  PyNumberMethods n{};
  n.nb_add = slot<kAdd>;
  n.nb_subtract = slot<kSubtract>;
  n.nb_multiply = slot<kMultiply>;
  n.nb_true_divide = slot<kDivide>;
  n.nb_remainder = slot<kModulo>;
  n.nb_power = power_slot;
  n.nb_inplace_add = inplace<kAdd>;
  n.nb_inplace_subtract = inplace<kSubtract>;
  n.nb_inplace_multiply = inplace<kMultiply>;
  n.nb_inplace_true_divide = inplace<kDivide>;
  n.nb_inplace_remainder = inplace<kModulo>;
  n.nb_matrix_multiply = matrix_product;
  n.nb_negative = negative;
  n.nb_positive = positive;
  n.nb_absolute = absolute;
  n.nb_bool = truth;
  n.nb_float = to_float;
  n.nb_int = to_integer;
  n.nb_index = to_subscript;
  return n;
}();

}  // namespace

PyNumberMethods* number_methods() { return &methods; }

PyObject* compare(PyObject* a, PyObject* b, int op) {
  static constexpr size_t kinds[] = {kLesser, kLesserEqual, kEqual, kNotEqual, kGreater, kGreaterEqual};  // Py_LT ... Py_GE
  if (b == Py_None && (op == Py_EQ || op == Py_NE)) return PyBool_FromLong(op == Py_NE);
  return binary(kinds[op], a, b);
}

void add_arithmetic(py::module_& m) {
  if (PyType_Ready(&binary_type) < 0) throw py::error_already_set();
  py::dict functions;
  for (size_t kind = 0; kind < kCount; ++kind) {
    auto* f = PyObject_New(BinaryFunction, &binary_type);
    f->call = call_binary;
    f->kind = kind;
    functions[kBinaries[kind].name] = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(f));
  }
  m.attr("binary_functions") = functions;
  m.def(
      "is_value", [](py::handle o) { return is_value(o.ptr()); }, "Whether it is an array or a symbol.");
}

}  // namespace gluino::python
