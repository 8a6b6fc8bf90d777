// -symbol.json: graphs of every era of MXNet in, graphs that MXNet 1.9 reads out. See formats.md of MXNet's eras:
// attributes stand under "attrs" (1.x), "attr" (0.9 to 0.12) or "param" (0.8, beside "attr" for user attributes).

#include "base/format.h"
#include "base/json.h"
#include "dispatch/infer.h"
#include "graph/graph.h"
#include "graph/named_attrs.h"

namespace gluino {
namespace {

using Json = nlohmann::json;
constexpr int kWrittenVersion = 10901;
constexpr int kMaxDepth = 32;  // of subgraphs in subgraphs; each level is a call on the stack

// Keys without underscores that older files used for what is now __key__.
constexpr std::string_view kHiddenKeys[] = {"ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage"};

class JsonReader {
 public:
  JsonReader(const Json& json, std::string what, int depth = 0) : json_(json), what_(std::move(what)), depth_(depth) {
    if (depth > kMaxDepth) fail(fmt::format("subgraphs are nested more than {} deep", kMaxDepth));
    version_ = read_version();
  }

  Graph read() {
    const Json& nodes = array(json_, "nodes");
    report_unsupported(nodes);
    for (const Json& n : nodes) add_node(n);
    for (const Json& head : array(json_, "heads")) graph_.outputs.push_back(entry(head, "heads"));
    if (graph_.outputs.empty()) fail("the graph has no heads");
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { raise<SystemError>("{}: {}", what_, why); }

  const Json& array(const Json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key) || !object[key].is_array()) fail(fmt::format("there is no list '{}'", key));
    return object[key];
  }
  std::string text(const Json& node, const char* key) const {
    if (!node.is_object() || !node.contains(key) || !node[key].is_string()) fail(fmt::format("a node has no text '{}'", key));
    return node[key];
  }
  // MXNet 1.9.1 is 10901; files before 0.9 do not say.
  int read_version() const {
    if (!json_.is_object() || !json_.contains("attrs") || !json_["attrs"].is_object()) return 800;
    const Json& attrs = json_["attrs"];
    if (!attrs.contains("mxnet_version")) return 800;
    const Json& v = attrs["mxnet_version"];
    return v.is_array() && v.size() == 2 && v[1].is_number_integer() ? v[1].get<int>() : 800;
  }

  // All operators that are missing are named at once, not one per attempt.
  void report_unsupported(const Json& nodes) const {
    std::map<std::string, std::pair<int, std::string>> missing;
    for (const Json& n : nodes) {
      const std::string op = text(n, "op");
      if (op == "null" || OpRegistry::global().find(op)) continue;
      auto [it, fresh] = missing.try_emplace(op, 0, text(n, "name"));
      ++it->second.first;
    }
    if (missing.empty()) return;
    std::vector<std::string> list;
    for (const auto& [op, where] : missing)
      list.push_back(fmt::format("{} ({} node{}, first '{}')", op, where.first, where.first == 1 ? "" : "s", where.second));
    raise<UserError>("{}: {} operator{} not supported: {}", what_, missing.size(), missing.size() == 1 ? " is" : "s are",
                     fmt::join(list, ", "));
  }

  StringMap strings(const Json& node, const char* key) const {
    StringMap map;
    if (!node.contains(key)) return map;
    if (!node[key].is_object()) fail(fmt::format("'{}' of node '{}' is not a map", key, text(node, "name")));
    for (const auto& [k, v] : node[key].items()) {
      if (!v.is_string()) fail(fmt::format("attribute '{}' of node '{}' is not a text", k, text(node, "name")));
      map[k] = v.get<std::string>();
    }
    return map;
  }

  ValueId entry(const Json& e, const std::string& user) const {
    if (!e.is_array() || e.size() < 2 || !e[0].is_number_integer() || !e[1].is_number_integer())
      fail(fmt::format("an input of '{}' is not [node, output]", user));
    const auto node = e[0].get<int64_t>(), index = e[1].get<int64_t>();
    if (node < 0 || node >= static_cast<int64_t>(numbers_.size()))
      fail(fmt::format("'{}' reads node {}, which does not come before it", user, node));
    const int number = numbers_[node];
    if (index < 0 || index >= static_cast<int64_t>(graph_.nodes[number].outputs.size()))
      fail(fmt::format("'{}' reads output {} of '{}', which has {}", user, index, graph_.nodes[number].name,
                       graph_.nodes[number].outputs.size()));
    return {number, static_cast<int>(index)};
  }

  Symbol subgraph(const Json& json, const std::string& user) const {
    // The path of names stays short: a hostile file could make it longer than itself.
    const std::string what = depth_ == 0 ? fmt::format("{}, a subgraph of '{}'", what_, user) : what_;
    JsonReader reader(json, what, depth_ + 1);
    reader.version_ = version_;  // a subgraph does not say
    return Symbol::from_graph(reader.read());
  }

  void add_node(const Json& json) {
    Graph::Node node;
    node.name = text(json, "name");
    if (json.contains("inputs"))
      for (const Json& e : array(json, "inputs")) node.inputs.push_back(entry(e, node.name));
    const std::string op = current_name(text(json, "op"), node.inputs.empty());
    StringMap own;
    for (const char* key : {"param", "attr", "attrs"})
      for (auto& [k, v] : strings(json, key)) sort_attribute(op == "null" ? nullptr : &OpRegistry::global().get(op), node, k, v, own);
    if (op == "null") {
      if (json.contains("subgraphs")) fail(fmt::format("node '{}' has subgraphs, but a variable takes none", node.name));
      if (!node.inputs.empty()) fail(fmt::format("node '{}' has inputs, but a variable takes none", node.name));
      node.outputs.resize(1);
    } else {
      node.op = &OpRegistry::global().get(op);
      upgrade(own, op);
      try {
        node.attrs = node.op->parse_attrs(own);
        keep_named_defaults(node, own);
        if (json.contains("subgraphs")) node.attrs = with_bodies(*node.op, node.attrs, array(json, "subgraphs"), node.name);
        node.outputs.resize(checked_output_count(*node.op, node.attrs));
      } catch (const AttrError& e) {
        throw AttrError(fmt::format("{}: node '{}': {}", what_, node.name, e.what()), Located::in_operator);
      }
      append_missing_inputs(node);
    }
    take_mode_from_attrs(node);
    numbers_.push_back(graph_.add(std::move(node)));
  }

  Attrs with_bodies(const OpDef& op, const Attrs& attrs, const Json& bodies, const std::string& name) const {
    if (!op.has_subgraphs()) fail(fmt::format("node '{}' has subgraphs, but {} takes none", name, op.name));
    std::vector<Symbol> symbols;
    for (const Json& body : bodies) symbols.push_back(subgraph(body, name));
    std::shared_ptr<void> copy = op.copy_attrs(attrs.get());
    op.set_subgraphs(copy.get(), std::move(symbols));
    return copy;
  }

  // Before 1.0, _sample_normal and its relatives took their parameters as attributes, as _random_normal does now.
  std::string current_name(const std::string& op, bool no_inputs) const {
    if (version_ >= 10000 || !no_inputs || !op.starts_with("_sample_")) return op;
    const std::string now = "_random_" + op.substr(8);
    return OpRegistry::global().find(now) ? now : op;
  }

  // An operator's own attribute, a user attribute of the node, or one that belongs to an input's variable.
  void sort_attribute(const OpDef* op, Graph::Node& node, const std::string& key, const std::string& value, StringMap& own) {
    const bool dunder = key.size() > 4 && key.starts_with("__") && key.ends_with("__");
    auto has_field = [&](std::string_view k) {
      return op && std::any_of(op->fields.begin(), op->fields.end(), [&](const AttrField& f) { return f.name == k; });
    };
    if (dunder && !has_field(key)) {
      node.user_attrs[key] = value;
      return;
    }
    for (std::string_view hidden : kHiddenKeys) {
      if (key == hidden && !has_field(key)) {
        node.user_attrs[fmt::format("__{}__", hidden)] = value;
        return;
      }
      if (op && key.size() > hidden.size() + 1 && key.ends_with(fmt::format("_{}", hidden))) {
        give_to_input(*op, node, key.substr(0, key.size() - hidden.size() - 1), fmt::format("__{}__", hidden), value);
        return;
      }
    }
    if (op)
      own[key] = value;
    else
      node.user_attrs[key] = value;
  }

  void give_to_input(const OpDef& op, const Graph::Node& node, const std::string& input, const std::string& key, const std::string& value) {
    for (size_t i = 0; i < op.inputs.size() && i < node.inputs.size(); ++i)
      if (op.inputs[i].name == input) graph_.nodes[node.inputs[i].node].user_attrs[key] = value;
  }

  void upgrade(StringMap& own, const std::string& op) const {
    // Before 0.9.5, axis -1 of argmax and argmin meant all axes.
    if (version_ < 905 && (op == "argmax" || op == "argmin") && own.contains("axis") && own["axis"] == "-1") own.erase("axis");
  }

  // Files before 0.9 do not store auxiliary variables; some later ones leave out what can be made up, too.
  void append_missing_inputs(Graph::Node& node) {
    if (node.op->is_variadic) return;
    const auto specs = node.op->present_inputs(node.attrs);
    if (node.inputs.size() > specs.size())
      fail(fmt::format("node '{}' has {} inputs, but {} takes {}", node.name, node.inputs.size(), node.op->name, specs.size()));
    for (size_t i = node.inputs.size(); i < specs.size(); ++i) {
      Graph::Node variable;
      variable.name = node.name + "_" + specs[i]->name;
      variable.outputs.resize(1);
      node.inputs.push_back({graph_.add(std::move(variable)), 0});
    }
  }

  const Json& json_;
  std::string what_;
  int depth_;  // of this subgraph in the outermost graph
  int version_ = 0;
  Graph graph_;
  std::vector<int> numbers_;  // of the file's nodes in graph_
};

// Enumerations without a default in MXNet, or with another one.
constexpr std::pair<std::string_view, std::string_view> kInsistedOn[] = {{"Activation", "act_type"},
                                                                         {"RNN", "mode"},
                                                                         {"Pad", "mode"},
                                                                         {"UpSampling", "sample_type"},
                                                                         {"GridGenerator", "transform_type"},
                                                                         {"SpatialTransformer", "transform_type"},
                                                                         {"_npi_percentile", "interpolation"},
                                                                         {"SpatialTransformer", "sampler_type"},
                                                                         {"_contrib_quantize", "out_type"},
                                                                         {"_contrib_quantize_v2", "out_type"},
                                                                         {"_contrib_requantize", "out_type"}};

// What MXNet insists on is always written, and so is the number of inputs.
StringMap attrs_for_file(const Graph::Node& n) {
  StringMap attrs = n.op->print_attrs(n.attrs);
  const void* values = n.attrs ? n.attrs.get() : n.op->default_attrs.get();
  for (const AttrField& field : n.op->fields) {
    const std::pair<std::string_view, std::string_view> place(n.op->name, field.name);
    if (std::ranges::find(kInsistedOn, place) != std::end(kInsistedOn)) attrs[field.name] = field.print(values);
    if (n.op->is_variadic && field.name == "num_args") attrs[field.name] = std::to_string(n.inputs.size());
  }
  return attrs;
}

Json entry_json(ValueId v) { return Json::array({v.node, v.index, 0}); }

Json to_json_object(const Graph& g);
Json node_json(const Graph::Node& n) {
  StringMap attrs = attrs_with_mode(n);
  if (n.op)
    for (auto& [k, v] : attrs_for_file(n)) attrs[k] = v;
  Json node{{"op", n.op ? n.op->name : "null"}, {"name", n.name}, {"inputs", Json::array()}};
  if (!attrs.empty()) node["attrs"] = std::move(attrs);
  for (ValueId v : n.inputs) node["inputs"].push_back(entry_json(v));
  if (n.op && n.op->has_subgraphs())
    for (const Symbol& s : n.op->subgraphs_of(n.attrs.get())) node["subgraphs"].push_back(to_json_object(s.graph()));
  return node;
}
// All but the nodes.
Json frame_json(const Graph& g) {
  Json arg_nodes = Json::array(), row_ptr = Json::array(), heads = Json::array();
  int64_t row = 0;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (!g.nodes[i].op) arg_nodes.push_back(i);
    row_ptr.push_back(row);
    row += static_cast<int64_t>(g.nodes[i].outputs.size());
  }
  row_ptr.push_back(row);
  for (ValueId v : g.outputs) heads.push_back(entry_json(v));
  return Json{{"arg_nodes", std::move(arg_nodes)},
              {"node_row_ptr", std::move(row_ptr)},
              {"heads", std::move(heads)},
              {"attrs", {{"mxnet_version", Json::array({"int", kWrittenVersion})}}}};
}
Json to_json_object(const Graph& g) {
  Json json = frame_json(g);
  Json& nodes = json["nodes"] = Json::array();
  for (const Graph::Node& n : g.nodes) nodes.push_back(node_json(n));
  return json;
}

// The text of to_json_object(), whose last key is "nodes". A node at a time: as objects the nodes of a long graph take many times the
// memory of their text.
std::string to_json_text(const Graph& g) {
  std::string text = json_text(frame_json(g), 2);
  text.resize(text.size() - 2);  // the last line, with the closing brace
  text += ",\n  \"nodes\": [";
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    text += i == 0 ? "\n    " : ",\n    ";
    for (const char c : json_text(node_json(g.nodes[i]), 2)) {  // within texts line ends are escaped
      text += c;
      if (c == '\n') text += "    ";
    }
  }
  return text + (g.nodes.empty() ? "]\n}" : "\n  ]\n}");
}

}  // namespace

std::string Symbol::to_json() const {
  try {
    return to_json_text(graph());
  } catch (const Json::exception& e) {
    raise<UserError>("to_json: a name or an attribute is not UTF-8 text: {}", e.what());
  }
}

Symbol Symbol::from_json(const std::string& text, const std::string& what) {
  Json json;
  try {
    json = parse_json(text);
  } catch (const Json::exception& e) {
    raise<SystemError>("{}: not JSON: {}", what, e.what());
  }
  try {
    return from_graph(JsonReader(json, what).read());
  } catch (const Json::exception& e) {
    raise<SystemError>("{}: not a graph: {}", what, e.what());
  }
}

}  // namespace gluino
