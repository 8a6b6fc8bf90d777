// Functions behind mx.sym.Symbol: graphs without values.
#include <pybind11/stl.h>

#include <algorithm>

#include "dispatch/mode.h"
#include "gluon/block/absent_label.h"
#include "graph/interpret.h"
#include "graph/propagate_types.h"
#include "graph/trace.h"
#include "object.h"

namespace gluino::python {
namespace {

// An extent that is not known is 0 for MXNet's callers, -1 with np_shape(), where 0 is an extent.
py::list shapes_list(const std::vector<std::optional<Shape>>& shapes, int64_t unknown) {
  py::list out;
  for (const auto& s : shapes) {
    Shape shown = s.value_or(Shape());
    std::replace(shown.begin(), shown.end(), Shape::kUnknown, unknown);
    out.append(s ? py::object(from_shape(shown)) : py::none());
  }
  return out;
}
ShapeMap to_shapes(const py::dict& known, int64_t unknown) {
  ShapeMap shapes;
  for (const auto& [name, value] : known) {
    Shape s = to_shape(value);
    std::replace(s.begin(), s.end(), unknown, Shape::kUnknown);
    // A shape without extents is one that is not known, unless 0 is an extent.
    if (unknown != 0 || !s.empty()) shapes[py::cast<std::string>(name)] = s;
  }
  return shapes;
}
py::tuple infer_shape(const Symbol& s, const py::dict& known, int64_t unknown) {
  const InferredShapes r = s.infer_shape_partial(to_shapes(known, unknown));
  return py::make_tuple(shapes_list(r.arguments, unknown), shapes_list(r.outputs, unknown), shapes_list(r.auxiliary_states, unknown));
}
// What does not follow is None with `partial`, and float32 otherwise.
py::tuple infer_type(const Symbol& s, const py::dict& known, bool partial) {
  DTypeMap types;
  for (const auto& [name, value] : known) types[py::cast<std::string>(name)] = to_dtype(value);
  Graph graph = s.graph();
  (void)s.infer_type(types);  // raises where names or types do not fit
  if (partial) {
    start_types(graph, types);
    propagate_types(graph);
  } else {
    infer_graph_types(graph, types);
  }
  const auto name_of = [](const std::optional<DType>& t) -> py::object {
    return t ? py::str(std::string(dtype_name(*t))) : py::object(py::none());
  };
  py::list arguments, outputs, states;
  const std::vector<bool> is_state = find_states(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].is_variable()) (is_state[i] ? states : arguments).append(name_of(graph.nodes[i].outputs[0].dtype));
  for (const ValueId v : graph.outputs) outputs.append(name_of(graph.info(v).dtype));
  return py::make_tuple(arguments, outputs, states);
}

TensorMap to_tensors(const py::dict& d) {
  TensorMap map;
  for (const auto& [name, value] : d)
    if (!value.is_none()) map[py::cast<std::string>(name)] = unwrap(value.ptr());
  return map;
}
// A graph as a function of named tensors: what SymbolBlock, and strict tracing, run. Labels that are absent follow from the named inputs.
class GraphFunction {
 public:
  explicit GraphFunction(const Symbol& s, std::vector<std::string> inputs) : graph_(s.graph()), inputs_(std::move(inputs)) {}
  py::object call(const py::dict& tensors, bool numpy) const {
    TensorMap named = to_tensors(tensors);
    Graph graph = graph_;
    ShapeMap shapes;
    DTypeMap types;
    bool known = true;
    for (const auto& [name, t] : named) {
      known &= !impl_of(t).symbolic || impl_of(t).symbolic->has_shape;
      shapes[name] = impl_of(t).shape;
      types[name] = impl_of(t).dtype;
    }
    Tensors results;
    {
      const ReleaseLock release(!is_tracing());
      if (known) infer_graph(graph, shapes, types);
      Tensors inputs;
      for (const std::string& name : inputs_) inputs.push_back(named.at(name));
      if (!inputs.empty()) add_absent_labels(graph, inputs, named);
      results = interpret(graph, bind_variables(graph, named, "SymbolBlock"));
    }
    return wrap_all(results, numpy ? kNumpy : kLegacy);
  }

 private:
  Graph graph_;
  std::vector<std::string> inputs_;
};

// `name`: the new one of the last node, which keeps its own without.
Symbol compose(const Symbol& s, const std::map<std::string, Symbol>& inputs, const std::string& name) {
  Symbol made = s.compose(inputs);
  if (name.empty()) return made;
  if (made.name().empty()) throw py::value_error("the name '" + name + "' was given to a group of symbols");
  const auto& head = made.outputs()[0].node;
  for (const auto& [input, given] : inputs)
    if (given.outputs()[0].node == head) return made;  // a variable took its place, and keeps its own name
  head->name = name;
  return made;
}

py::dict attr_dict(const Symbol& s) {
  py::dict d;
  for (const auto& [name, attrs] : s.attr_dict()) d[name.c_str()] = py::cast(attrs);
  return d;
}

}  // namespace

void add_symbols(py::module_& m) {
  m.def("sym_var", [](const std::string& name, py::object shape, py::object dtype, const StringMap& attrs) {
    sym::VarOptions options;
    if (!shape.is_none()) options.shape = to_shape(shape);
    if (!dtype.is_none()) options.dtype = to_dtype(dtype);
    options.attrs = attrs;
    return sym::var(name, options);
  });
  m.def("sym_group", [](const std::vector<Symbol>& symbols) { return sym::group(symbols); });
  m.def("sym_as_flavour", [](const Symbol& s, bool numpy) { return py::reinterpret_steal<py::object>(wrap(s, numpy ? kNumpy : kLegacy)); });
  m.def("sym_from_json", [](const std::string& json, const std::string& what) { return Symbol::from_json(json, what); });
  m.def("sym_load", [](const std::string& path) { return Symbol::load(path); });
  m.def("sym_save", [](const Symbol& s, const std::string& path) { s.save(path); });
  m.def("sym_tojson", [](const Symbol& s) { return s.to_json(); });
  m.def("sym_text", [](const Symbol& s) { return s.str(); });
  m.def("sym_to_dot", [](const Symbol& s) { return s.to_dot(); });
  m.def("sym_to_svg", [](const Symbol& s, const py::dict& shapes) { return s.to_svg(to_shapes(shapes, 0)); });
  m.def("sym_name", [](const Symbol& s) { return s.name(); });
  m.def("sym_num_outputs", [](const Symbol& s) { return s.num_outputs(); });
  m.def("sym_list_arguments", [](const Symbol& s) { return s.list_arguments(); });
  m.def("sym_list_outputs", [](const Symbol& s) { return s.list_outputs(); });
  m.def("sym_list_auxiliary_states", [](const Symbol& s) { return s.list_auxiliary_states(); });
  m.def("sym_list_inputs", [](const Symbol& s) { return s.list_inputs(); });
  m.def("sym_get_internals", [](const Symbol& s) { return s.get_internals(); });
  m.def("sym_get_children", [](const Symbol& s) { return s.get_children(); });
  m.def("sym_attr", [](const Symbol& s, const std::string& key) { return s.attr(key); });
  m.def("sym_list_attr", [](const Symbol& s) { return s.list_attr(); });
  m.def("sym_attr_dict", &attr_dict);
  m.def("sym_set_attr", [](Symbol s, const std::string& key, const std::string& value) { s.set_attr(key, value); });
  m.def("sym_compose", &compose);
  m.def("sym_become", [](py::handle o, const Symbol& other) { as_symbol(o.ptr())->symbol = other; });
  m.def("sym_infer_shape", &infer_shape);
  m.def("sym_infer_type", &infer_type);
  m.def("sym_wide_variables", [](const Symbol& s) { return wide_variables(s.graph()); });

  py::class_<GraphFunction>(m, "GraphFunction")
      .def(py::init<const Symbol&, std::vector<std::string>>(), py::arg("symbol"), py::arg("inputs") = std::vector<std::string>())
      .def("__call__", &GraphFunction::call);
  py::class_<Executor>(m, "Executor")
      .def("forward",
           [](Executor& e, bool is_train) {
             const ReleaseLock release;
             e.forward(is_train);
           })
      .def("backward",
           [](Executor& e, const Tensors& heads) {
             const ReleaseLock release;
             e.backward(heads);
           })
      .def("outputs", [](const Executor& e, bool numpy) {
        py::list all;
        for (const Tensor& t : e.outputs()) all.append(py::reinterpret_steal<py::object>(wrap(t, numpy ? kNumpy : kLegacy)));
        return all;
      });
  m.def("sym_bind", [](const Symbol& s, const py::dict& args, const py::dict& grads, const std::map<std::string, std::string>& req,
                       const py::dict& aux) {
    std::map<std::string, GradReq> grad_req;
    for (const auto& [name, text] : req) grad_req[name] = to_grad_req(text);
    return s.bind(to_tensors(args), to_tensors(grads), grad_req, to_tensors(aux));
  });

  m.def("set_attr_scope", [](const StringMap& attrs) {
    // Held until the next call: Python's with statement opens and closes scopes in order.
    static thread_local std::optional<AttrScope> scope;
    scope.reset();
    if (!attrs.empty()) scope.emplace(attrs);
  });
}

}  // namespace gluino::python
