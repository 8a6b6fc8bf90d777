// Loops and branches: foreach as Scan, while_loop as Loop, cond as If. Their bodies are graphs within the node, which see the names around
// it.
#include "base/format.h"
#include "control_flow/loops.h"
#include "gluino/ops.h"
#include "onnx/export/exporter.h"

namespace gluino::onnx {
namespace {

using Outside = ExportCall::Outside;

Outside row_of(const Outside& v, const std::string& name) {
  Outside row{name, v.shape, v.other_shape, v.dtype};
  row.shape.erase(0);
  row.other_shape.erase(0);
  return row;
}

// A tensor of one element as the truth value that ONNX decides by.
std::string truth(const ExportCall& c, const std::string& value) {
  const std::string scalar = c.add("Reshape", {value, c.constant(empty({0}, {.dtype = DType::int64}))});
  return c.add("Cast", {scalar}, {{"to", attribute_of(static_cast<int64_t>(ElementType::boolean))}});
}

Attribute graph_attribute(GraphData graph) {
  return {.kind = Attribute::Kind::graph, .graph = std::make_shared<GraphData>(std::move(graph))};
}

std::vector<Outside> picked(const OptionalInts& locs, const std::vector<Outside>& values) {
  std::vector<Outside> out;
  for (const auto& loc : locs) out.push_back(values.at(static_cast<size_t>(loc.value())));
  return out;
}

void put_foreach(const ExportCall& c) {
  const auto& a = c.attrs<ForeachAttrs>();
  const size_t data = a.in_data_locs.size(), states = a.in_state_locs.size();
  const Symbol& body = a.bodies[0].symbol();
  // What each input of the body is: a row, a state, a value from outside.
  std::vector<Outside> of_body(static_cast<size_t>(a.bodies[0].num_inputs())), rows, now;
  const auto give = [&](const std::optional<int64_t>& place, const Outside& v) {
    if (place) of_body.at(static_cast<size_t>(*place)) = v;
  };
  for (size_t i = 0; i < data; ++i) {
    rows.push_back(row_of(c.input(static_cast<int>(i)), c.fresh(fmt::format("{}_row{}", c.name(), i))));
    give(a.in_data_locs[i], rows.back());
  }
  for (size_t i = 0; i < states; ++i) {
    now.push_back(c.input(static_cast<int>(data + i)));
    now.back().name = c.fresh(fmt::format("{}_state{}", c.name(), i));
    give(a.in_state_locs[i], now.back());
  }
  for (size_t i = 0; i < a.remain_locs.size(); ++i) give(a.remain_locs[i], c.input(static_cast<int>(data + states + i)));
  GraphData graph = c.part(body, of_body);
  for (const auto* list : {&now, &rows})
    for (const Outside& v : *list) graph.inputs.push_back(c.value_data(v));
  // ONNX has states first.
  std::rotate(graph.outputs.begin(), graph.outputs.begin() + a.num_out_data, graph.outputs.end());
  std::vector<std::string> inputs;
  for (size_t i = 0; i < states; ++i) inputs.push_back(c.in(static_cast<int>(data + i)));
  for (size_t i = 0; i < data; ++i) inputs.push_back(c.in(static_cast<int>(i)));
  const std::vector<std::string> results = c.add_all(
      "Scan", inputs, {{"body", graph_attribute(std::move(graph))}, {"num_scan_inputs", attribute_of(static_cast<int64_t>(data))}},
      static_cast<int>(a.num_outputs));
  for (int64_t i = 0; i < a.num_outputs; ++i) {
    const int64_t from = i < a.num_out_data ? static_cast<int64_t>(states) + i : i - a.num_out_data;
    c.put_as(results[static_cast<size_t>(from)], static_cast<int>(i));
  }
}

// Of a value that a loop collects, rows of 0 up to `most`, as the program has them.
std::string with_all_rows(const ExportCall& c, const std::string& rows, int rank, int64_t most, DType dtype) {
  const std::string there = c.add("Gather", {c.add("Shape", {rows}), c.whole_numbers({0})}, {{"axis", attribute_of(int64_t{0})}});
  std::vector<std::string> pads{c.whole_numbers(std::vector<int64_t>(static_cast<size_t>(rank), 0)),
                                c.add("Sub", {c.whole_numbers({most}), there})};
  if (rank > 1) pads.push_back(c.whole_numbers(std::vector<int64_t>(static_cast<size_t>(rank - 1), 0)));
  return c.add("Pad", {rows, c.add("Concat", pads, {{"axis", attribute_of(int64_t{0})}}), c.number_of(0, dtype)});
}

void put_while_loop(const ExportCall& c) {
  const auto& a = c.attrs<WhileLoopAttrs>();
  const auto variables = static_cast<size_t>(a.num_outputs - a.num_out_data);
  std::vector<Outside> before;
  for (int i = 0; i < c.num_inputs(); ++i) before.push_back(c.input(i));
  // Which input of the node each variable starts as.
  std::vector<size_t> start;
  for (size_t i = 0; i < variables; ++i) {
    const auto place = i < a.func_var_locs.size() ? a.func_var_locs[i] : std::nullopt;
    start.push_back(place ? static_cast<size_t>(a.func_input_locs.at(static_cast<size_t>(*place)).value()) : i);
  }
  std::vector<Outside> inside = before;
  for (size_t i = 0; i < variables; ++i) inside.at(start[i]).name = c.fresh(fmt::format("{}_variable{}", c.name(), i));
  const std::string goes_on = truth(c, c.inlined(a.bodies[0].symbol(), picked(a.cond_input_locs, before)).at(0));

  GraphData graph = c.part(a.bodies[1].symbol(), picked(a.func_input_locs, inside));
  std::vector<Outside> after = inside;
  for (size_t i = 0; i < variables; ++i) after.at(start[i]).name = graph.outputs.at(static_cast<size_t>(a.num_out_data) + i).name;
  const std::string again =
      c.inside(graph, [&] { return truth(c, c.inlined(a.bodies[0].symbol(), picked(a.cond_input_locs, after)).at(0)); });
  graph.inputs = {{.name = c.fresh(c.name() + "_step"), .type = ElementType::int64, .has_shape = true},
                  {.name = c.fresh(c.name() + "_goes_on"), .type = ElementType::boolean, .has_shape = true}};
  for (size_t i = 0; i < variables; ++i) graph.inputs.push_back(c.value_data(inside[start[i]]));
  std::rotate(graph.outputs.begin(), graph.outputs.begin() + a.num_out_data, graph.outputs.end());
  graph.outputs.insert(graph.outputs.begin(), {.name = again, .type = ElementType::boolean, .has_shape = true});

  std::vector<std::string> inputs{c.number_of(static_cast<double>(a.max_iterations), DType::int64), goes_on};
  for (size_t i = 0; i < variables; ++i) inputs.push_back(before[start[i]].name);
  const std::vector<std::string> results =
      c.add_all("Loop", inputs, {{"body", graph_attribute(std::move(graph))}}, static_cast<int>(a.num_outputs));
  for (size_t i = 0; i < variables; ++i) c.put_as(results[i], static_cast<int>(a.num_out_data + static_cast<int64_t>(i)));
  for (int i = 0; i < static_cast<int>(a.num_out_data); ++i)
    c.put_as(with_all_rows(c, results[variables + static_cast<size_t>(i)], c.out_shape(i).ndim(), a.max_iterations, c.out_dtype(i)), i);
}

void put_cond(const ExportCall& c) {
  const auto& a = c.attrs<CondAttrs>();
  std::vector<Outside> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  const std::string decision = truth(c, c.inlined(a.bodies[0].symbol(), picked(a.cond_input_locs, inputs)).at(0));
  c.put_all("If", {decision},
            {{"then_branch", graph_attribute(c.part(a.bodies[1].symbol(), picked(a.then_input_locs, inputs)))},
             {"else_branch", graph_attribute(c.part(a.bodies[2].symbol(), picked(a.else_input_locs, inputs)))}},
            static_cast<int>(a.num_outputs));
}

}  // namespace

void add_control_flow_exports(ExportRules& rules) {
  rules["_foreach"] = put_foreach;
  rules["_while_loop"] = put_while_loop;
  rules["_cond"] = put_cond;
}

}  // namespace gluino::onnx
