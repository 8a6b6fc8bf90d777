// Operator: a callable Python object for one operator of the registry. Inputs come first, then attributes in declared
// order; both may be given by keyword. out=, name= and attr= as in MXNet.
#include <array>
#include <chrono>

#include "cli/operators.h"
#include "dispatch/composition.h"
#include "dispatch/mode.h"
#include "graph/trace.h"
#include "object.h"
#include "tensor/impl.h"

namespace gluino::python {
namespace {

struct OperatorObject {
  PyObject_HEAD;
  vectorcallfunc call;
  const OpDef* op;
  PyObject* name;          // as its namespace spells it
  PyObject** input_names;  // interned, null-terminated
  PyObject** field_names;
  Flavour flavour;
  bool symbolic;   // belongs to mx.sym: without inputs it makes a Symbol
  bool is_public;  // a name of mx.nd or mx.sym: outside of NumPy mode arrays of mx.np are not meant for it
};
OperatorObject* as_operator(PyObject* o) { return reinterpret_cast<OperatorObject*>(o); }

// What one call was given, sorted into kinds.
struct Given {
  explicit Given(const OperatorObject& o) : self(o) {
    if (!o.op->is_variadic) inputs.resize(o.op->inputs.size(), nullptr);
  }
  const OperatorObject& self;
  std::vector<PyObject*> inputs;
  std::vector<std::pair<std::string_view, AttrValue>> attrs;
  PyObject *out = nullptr, *name = nullptr, *attr = nullptr;
  StringMap node_attrs;  // what belongs to the node of a graph, not to the operator
  size_t next_field = 0;

  const OpDef& op() const { return *self.op; }
  bool is_input(PyObject* o) const { return is_array(o) || is_symbol(o); }

  void positional(PyObject* o, size_t i) {
    if (op().is_variadic && next_field == 0) {
      if (is_input(o)) return inputs.push_back(o);
      if (i == 0 && (PyList_Check(o) || PyTuple_Check(o))) {  // concat([a, b]) as well as concat(a, b)
        for (py::handle item : py::handle(o)) inputs.push_back(item.ptr());
        return;
      }
    } else if (next_field == 0 && i < inputs.size()) {
      // A value that is no array where only an optional input could stand is the first attribute.
      const bool optional = static_cast<bool>(op().inputs[i].present);
      if (o == Py_None && (optional || self.symbolic)) return;  // absent
      if (is_input(o)) {
        inputs[i] = o;
        return;
      }
      if (!optional) wrong_input(op().inputs[i].name, o);
    }
    if (next_field >= op().fields.size()) throw py::type_error(op().name + ": too many arguments; " + signature());
    const AttrField& field = op().fields[next_field++];
    attrs.emplace_back(field.name, to_attr(o, field.name));
  }

  void keyword(PyObject* key, PyObject* o) {
    for (size_t i = 0; self.field_names[i]; ++i)
      if (self.field_names[i] == key) return attrs.emplace_back(op().fields[i].name, to_attr(o, op().fields[i].name)), void();
    for (size_t i = 0; self.input_names[i]; ++i)
      if (self.input_names[i] == key) return named_input(i, o);
    const std::string_view text = PyUnicode_AsUTF8(key);
    if (text == "out") {
      out = o == Py_None ? nullptr : o;
    } else if (text == "name") {
      name = o == Py_None ? nullptr : o;
    } else if (text == "attr" || text == "__layout__") {
      attr = o == Py_None || text != "attr" ? nullptr : o;
    } else {
      unusual(text, key, o);
    }
  }

  // A keyword that was not interned, is ignored here, or is wrong.
  void unusual(std::string_view text, PyObject* key, PyObject* o) {
    for (size_t i = 0; self.field_names[i]; ++i)
      if (PyUnicode_Compare(self.field_names[i], key) == 0) return attrs.emplace_back(op().fields[i].name, to_attr(o, text)), void();
    for (size_t i = 0; self.input_names[i]; ++i)
      if (PyUnicode_Compare(self.input_names[i], key) == 0) return named_input(i, o);
    if (op().is_variadic && is_input(o)) return inputs.push_back(o);  // Concat(arg0=x, arg1=y)
    const auto& ignored = op().ignored_attrs;
    if (std::find(ignored.begin(), ignored.end(), text) != ignored.end() || text == "ctx") return;
    static constexpr std::string_view kOfNodes[] = {"lr_mult", "wd_mult", "ctx_group", "force_mirroring", "mirror_stage"};
    if (std::find(std::begin(kOfNodes), std::end(kOfNodes), text) != std::end(kOfNodes)) {
      node_attrs["__" + std::string(text) + "__"] = py::cast<std::string>(py::str(py::handle(o)));
      return;
    }
    if (op().fields.empty() && !op().set_other_attr) return;  // MXNet does not look at what an operator without parameters is given
    // A copy of the name lives in the call's keyword tuple; make_attrs explains what is wrong, with the nearest name.
    attrs.emplace_back(text, to_attr(o, text));
  }

  void named_input(size_t i, PyObject* o) {
    if (o == Py_None && (op().inputs[i].present || op().is_variadic || self.symbolic)) return;
    if (op().is_variadic) {
      if (is_input(o)) return inputs.push_back(o);
      for (py::handle item : py::handle(o)) inputs.push_back(item.ptr());
      return;
    }
    if (!is_input(o)) wrong_input(op().inputs[i].name, o);
    if (inputs[i]) throw py::type_error(op().name + ": input '" + op().inputs[i].name + "' was given twice");
    inputs[i] = o;
  }

  [[noreturn]] void wrong_input(const std::string& input, PyObject* o) const {
    throw py::type_error(op().name + ": input '" + input + "' must be an " + (self.symbolic ? "Symbol" : "NDArray") + ", not " +
                         Py_TYPE(o)->tp_name + (self.symbolic ? "" : "; convert it with mx.nd.array"));
  }
  std::string signature() const {
    std::string text = "it takes (";
    for (const InputSpec& i : op().inputs) text += i.name + ", ";
    for (const AttrField& f : op().fields) text += f.name + ", ";
    if (text.ends_with(", ")) text.resize(text.size() - 2);
    return text + ")";
  }
};

bool has_field(const OpDef& op, std::string_view name) {
  return std::any_of(op.fields.begin(), op.fields.end(), [&](const AttrField& f) { return f.name == name; });
}

std::string call_name(PyObject* name, const OperatorObject& self) {
  const py::handle given(name ? name : Py_None);
  return py::cast<std::string>(py::handle(registered.name_of_call)(given, py::handle(self.name)));
}

// ---- symbols

PyObject* compose(const Given& g, Flavour flavour) {
  const OpDef& op = g.op();
  StringMap attrs;
  for (const auto& [key, value] : g.attrs) attrs.insert_or_assign(std::string(key), attr_text(value));
  std::vector<Symbol> inputs;
  std::map<std::string, Symbol> named;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    if (!g.inputs[i]) continue;
    if (!is_symbol(g.inputs[i])) g.wrong_input(op.inputs[std::min(i, op.inputs.size() - 1)].name, g.inputs[i]);
    if (op.is_variadic)
      inputs.push_back(unwrap_symbol(g.inputs[i]));
    else
      named[op.inputs[i].name] = unwrap_symbol(g.inputs[i]);
  }
  StringMap extra = g.node_attrs;
  if (g.attr)
    for (const auto& [key, value] : py::cast<py::dict>(py::handle(g.attr)))
      extra[py::cast<std::string>(key)] = py::cast<std::string>(py::str(value));
  const AttrScope scope(std::move(extra));
  return wrap_call(sym::apply(op.name, inputs, attrs, call_name(g.name, g.self), named), flavour);
}

thread_local bool makes_symbols = false;  // what has no inputs becomes part of a graph

bool profiling = false;  // guarded by the interpreter's lock, like the list
std::vector<Timed> timed;

// ---- tensors

bool is_heavy(std::span<const Tensor> inputs) {
  int64_t elements = 0;
  for (const Tensor& t : inputs) elements += impl_of(t).shape.elements();
  return inputs.empty() || elements > 4096;
}

Tensors output_targets(PyObject* out) {
  if (is_array(out) || is_symbol(out)) return {unwrap(out)};
  Tensors targets;
  for (py::handle item : py::handle(out)) targets.push_back(unwrap(item.ptr()));
  return targets;
}

// Writes results into existing arrays; directly where the operator may work in place.
PyObject* call_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, PyObject* out) {
  const ProfileScope profile(op.name);
  Tensors targets = output_targets(out);
  const bool direct = targets.size() == 1 && !mode().recording && !is_tracing() &&
                      std::any_of(op.inplace.begin(), op.inplace.end(),
                                  [&](auto pair) { return pair.second == 0 && inputs[pair.first].is_same(targets[0]); });
  {
    const ReleaseLock release(!is_tracing());
    if (direct && op.num_outputs(attrs) == 1) {
      apply_into(op, inputs, attrs, targets);
    } else {
      const Tensors results = apply(op, inputs, attrs);
      for (size_t i = 0; i < std::min(targets.size(), results.size()); ++i) targets[i].assign(results[i]);
    }
  }
  return Py_NewRef(out);
}

// A function of real numbers, of whole ones: NumPy answers in float32, mx.nd in the dtype that it was given.
PyObject* call_with_whole_numbers(const OpDef& op, const Tensor& x, const Attrs& attrs, Flavour flavour) {
  const bool numpy = flavour == kNumpy;
  const Tensor real = x.astype(numpy ? DType::float32 : DType::float64);
  const Tensor result = apply_one(op, {&real, 1}, attrs);
  return wrap(numpy ? result : result.astype(x.dtype()), flavour);
}

// What is given stands for the inputs that the attributes ask for, in order: RNN(data, parameters, state, sequence_length) of a GRU, whose
// cell has no second state.
void require_inputs(const Given& g, size_t given, const Attrs& attrs) {
  const InputSpec* missing = nullptr;
  size_t asked = 0;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const InputSpec& input = g.op().inputs[i];
    if (input.present && !input.present(attrs.get())) continue;
    ++asked;
    if (!g.inputs[i] && !missing) missing = &input;
  }
  if (given < asked) throw py::type_error(g.op().name + ": input '" + missing->name + "' is missing");
}

PyObject* run(const Given& g, Flavour flavour) {
  const OpDef& op = g.op();
  std::vector<std::pair<std::string_view, AttrValue>> given = g.attrs;
  if (op.is_variadic && has_field(op, "num_args") &&
      std::none_of(given.begin(), given.end(), [](const auto& a) { return a.first == "num_args"; }))
    given.emplace_back("num_args", static_cast<int64_t>(g.inputs.size()));
  const Attrs attrs = given.empty() && op.fields.empty() ? op.default_attrs : [&] {
    try {
      return op.make_attrs(given);
    } catch (const AttrError& e) {
      if (std::string_view(e.what()).starts_with(op.name)) throw;
      throw AttrError(op.name + ": " + e.what());
    }
  }();
  Tensors inputs;
  inputs.reserve(g.inputs.size());
  for (PyObject* o : g.inputs)
    if (o) inputs.push_back(unwrap(o));
  if (!op.is_variadic && inputs.size() < g.inputs.size()) require_inputs(g, inputs.size(), attrs);
  if (is_tracing()) name_next_call(call_name(g.name, g.self));
  if (g.out) return call_into(op, inputs, attrs, g.out);
  if (op.dtypes == DTypeSet::floating && op.is_elementwise() && inputs.size() == 1 && !is_floating(inputs[0].dtype()))
    return call_with_whole_numbers(op, inputs[0], attrs, flavour);
  return call_operator(op, inputs, attrs, flavour);
}

[[noreturn, gnu::cold]] void refuse_numpy(const OperatorObject& self) {
  throw py::type_error(self.op->name + ": an array of mx.np was given to an operator of " + (self.symbolic ? "mx.sym" : "mx.nd") +
                       "; convert it with as_nd_ndarray(), which shares its memory, or use mx.np and mx.npx");
}

// What an operator makes of sparse arrays by what they store; null where it takes the dense ones that they stand for. What is recorded
// was computed from those, and is only given the kind.
[[gnu::cold]] PyObject* call_of_stored(const OperatorObject& self, PyObject* const* args, size_t nargs, PyObject* keywords,
                                       const py::object& recorded) {
  py::tuple positional(nargs);
  for (size_t i = 0; i < nargs; ++i) positional[i] = py::handle(args[i]);
  py::dict named;
  for (size_t i = 0; keywords && i < static_cast<size_t>(PyTuple_GET_SIZE(keywords)); ++i)
    named[py::handle(PyTuple_GET_ITEM(keywords, static_cast<Py_ssize_t>(i)))] = py::handle(args[nargs + i]);
  py::object made = py::module_::import("gluino.ndarray._storage").attr("call")(self.op->name, positional, named, recorded);
  return made.is(py::handle(Py_NotImplemented)) ? nullptr : made.release().ptr();
}

PyObject* call_object(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* keywords) {
  return guarded([&] {
    const OperatorObject& self = *as_operator(callable);
    Given g(self);
    const auto nargs = static_cast<size_t>(PyVectorcall_NARGS(static_cast<Py_ssize_t>(nargsf)));
    for (size_t i = 0; i < nargs; ++i) g.positional(args[i], i);
    const size_t named = keywords ? static_cast<size_t>(PyTuple_GET_SIZE(keywords)) : 0;
    for (size_t i = 0; i < named; ++i) g.keyword(PyTuple_GET_ITEM(keywords, static_cast<Py_ssize_t>(i)), args[nargs + i]);

    Flavour flavour = self.flavour;
    bool graph = self.symbolic && !is_tracing(), any = false, sparse = false;
    std::array<bool, 2> has{};  // by flavour
    for (PyObject* o : g.inputs) {
      if (!o) continue;
      any = true;
      if (!g.is_input(o)) g.wrong_input(g.op().inputs.back().name, o);
      has[flavour_of(o)] = true;
      sparse |= is_array(o) && Py_TYPE(o) != registered.array[flavour_of(o)];
      if (flavour_of(o) == kNumpy) flavour = kNumpy;
      if (is_graph_symbol(o) && !self.symbolic) {
        if (self.flavour == kLegacy)
          throw py::type_error(g.op().name + ": a Symbol was given to an operator of mx.nd; use F, or the same operator of mx.sym");
        graph = true;  // mx.np serves both
      }
    }
    if (has[kLegacy] && has[kNumpy] && !graph) refuse_mixed(g.op().name);
    if (has[kNumpy] && self.is_public && !is_numpy_mode()) refuse_numpy(self);
    if (has[kLegacy] && self.flavour == kNumpy && !graph)
      throw py::type_error(
          g.op().name + ": an array of mx.nd was given to a function of mx.np; convert it with as_np_ndarray(), which shares its memory");
    if (makes_symbols && !any) graph = !is_tracing();
    if (graph && any)
      graph =
          std::any_of(g.inputs.begin(), g.inputs.end(), [](PyObject* o) { return o && !(is_symbol(o) && as_symbol(o)->traced.defined()); });
    if (sparse && !graph && !is_tracing()) {
      const py::object recorded = mode().recording ? py::reinterpret_steal<py::object>(run(g, flavour)) : py::none();
      PyObject* made = call_of_stored(self, args, nargs, keywords, recorded);
      if (made || !recorded.is_none()) return made ? made : recorded.inc_ref().ptr();
    }
    return graph ? compose(g, flavour) : run(g, flavour);
  });
}

void deallocate(PyObject* o) {
  OperatorObject* self = as_operator(o);
  for (PyObject** names : {self->input_names, self->field_names}) {
    for (size_t i = 0; names && names[i]; ++i) Py_DECREF(names[i]);
    delete[] names;
  }
  Py_XDECREF(self->name);
  PyObject_Free(o);
}
PyObject* represent(PyObject* o) { return PyUnicode_FromFormat("<operator %U>", as_operator(o)->name); }
PyObject* get_name(PyObject* o, void*) { return Py_NewRef(as_operator(o)->name); }
PyObject* get_op_name(PyObject* o, void*) { return PyUnicode_FromString(as_operator(o)->op->name.c_str()); }

PyObject* get_doc(PyObject* o, void*) {
  return PyUnicode_FromString(cli::operator_page(*as_operator(o)->op, PyUnicode_AsUTF8(as_operator(o)->name)).c_str());
}

PyObject* bind_method(PyObject* self, PyObject* instance, PyObject*) {
  return !instance || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

PyGetSetDef properties[] = {{"__name__", get_name, nullptr, nullptr, nullptr},
                            {"__doc__", get_doc, nullptr, nullptr, nullptr},
                            {"op_name", get_op_name, nullptr, "The name in the registry.", nullptr},
                            {}};
PyTypeObject operator_type = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "gluino._core.Operator";
  t.tp_basicsize = sizeof(OperatorObject);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  t.tp_vectorcall_offset = offsetof(OperatorObject, call);
  t.tp_call = PyVectorcall_Call;
  t.tp_dealloc = deallocate;
  t.tp_repr = represent;
  t.tp_getset = properties;
  t.tp_descr_get = bind_method;
  return t;
}();

PyObject** interned(const auto& things) {
  auto** names = new PyObject* [things.size() + 1] {};
  for (size_t i = 0; i < things.size(); ++i) names[i] = PyUnicode_InternFromString(things[i].name.c_str());
  return names;
}

py::object make_operator(const std::string& op_name, const std::string& name, bool numpy, bool symbolic, bool is_public) {
  const OpDef& op = OpRegistry::global().get(op_name);
  auto* o = PyObject_New(OperatorObject, &operator_type);
  o->call = call_object;
  o->op = &op;
  o->name = PyUnicode_InternFromString(name.c_str());
  o->input_names = interned(op.inputs);
  o->field_names = interned(op.fields);
  o->flavour = numpy ? kNumpy : kLegacy;
  o->symbolic = symbolic;
  o->is_public = is_public;
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(o));
}

// What Python needs to know to place operators into namespaces and to write stubs.
py::dict describe(const std::string& op_name) {
  const OpDef& op = OpRegistry::global().get(op_name);
  py::list inputs, fields;
  for (const InputSpec& i : op.inputs) inputs.append(py::make_tuple(i.name, static_cast<bool>(i.present), i.is_state));
  for (const AttrField& f : op.fields) fields.append(py::make_tuple(f.name, f.type, f.required, f.default_text, f.doc));
  py::dict d;
  d["name"] = op.name;
  d["doc"] = op.doc;
  d["inputs"] = inputs;
  d["fields"] = fields;
  d["variadic"] = op.is_variadic;
  d["composed"] = is_composed(op);
  d["dynamic_shape"] = op.is_dynamic_shape;
  d["random"] = op.is_random;
  d["mode_dependent"] = op.is_mode_dependent;
  d["not_differentiable"] = op.not_differentiable;
  py::list without_effect;
  for (const std::string& name : op.ignored_attrs) without_effect.append(name);
  d["without_effect"] = without_effect;
  return d;
}

}  // namespace

ProfileScope::ProfileScope(std::string_view name) : name_(profiling ? name : std::string_view()), begin_(profiling ? clock_now() : 0) {}
ProfileScope::~ProfileScope() {
  if (begin_) timed.push_back({std::string(name_), begin_, clock_now()});
}
int64_t clock_now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
bool is_profiling() { return profiling; }
void add_to_profile(std::vector<Timed> calls) {
  for (Timed& t : calls) timed.push_back(std::move(t));
}

PyObject* call_operator(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, Flavour flavour) {
  const ProfileScope profile(op.name);
  const int visible = op.num_visible_outputs(attrs);
  if (visible == 1) {
    Tensor result;
    {
      const ReleaseLock release(!is_tracing() && is_heavy(inputs));
      result = apply_one(op, inputs, attrs);
    }
    return wrap(std::move(result), flavour);
  }
  Tensors results;
  {
    const ReleaseLock release(!is_tracing() && is_heavy(inputs));
    results = apply(op, inputs, attrs);
  }
  results.resize(visible);
  py::list list;
  for (Tensor& t : results) list.append(py::reinterpret_steal<py::object>(wrap(std::move(t), flavour)));
  return list.release().ptr();
}

void add_operators(py::module_& m) {
  if (PyType_Ready(&operator_type) < 0) throw py::error_already_set();
  m.attr("Operator") = py::handle(reinterpret_cast<PyObject*>(&operator_type));
  m.def("operator_names", [] {
    py::list names;
    for (const auto& op : OpRegistry::global().all()) {
      names.append(py::make_tuple(op->name, op->name));
      for (const std::string& alias : op->aliases) names.append(py::make_tuple(alias, op->name));
    }
    return names;
  });
  m.def("make_operator", &make_operator, py::arg("op"), py::arg("name"), py::arg("numpy"), py::arg("symbolic"),
        py::arg("is_public") = false);
  m.def("describe_operator", &describe);
  m.def(
      "check_attributes",
      [](const std::string& name, const py::dict& values) {
        const OpDef& op = OpRegistry::global().get(name);
        std::vector<std::pair<std::string_view, AttrValue>> given;
        for (const auto& [key, value] : values) {
          const std::string_view attribute = py::cast<std::string_view>(key);
          given.emplace_back(attribute, to_attr(value.ptr(), attribute));
        }
        op.make_attrs(given);
      },
      "Raises where an operator would not take these attributes.");
  m.def("set_makes_symbols", [](bool on) { return std::exchange(makes_symbols, on); });
  m.def("set_profiling", [](bool on) { profiling = on; });
  m.def("take_profile", [] {
    py::list events;
    for (const Timed& t : std::exchange(timed, {})) events.append(py::make_tuple(t.name, t.begin, t.end));
    return events;
  });
}

}  // namespace gluino::python
