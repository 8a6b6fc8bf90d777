// The text form of a graph, made to be read, compared in tests and parsed back:
//   graph(data: float32 (2, 3), w) {
//     fc = FullyConnected(data, w) {no_bias=True, num_hidden=4}
//     return fc, split[1]
//   }
// Variables after a semicolon are the gradients that backward is given: graph(data; head0) {...}
// The bodies of control flow follow their node: loop = _foreach(data) {...} with graph(...) {...}
#include <algorithm>
#include <charconv>
#include <map>

#include "base/format.h"
#include "dispatch/infer.h"
#include "graph/graph.h"

namespace gluino {
namespace {

bool is_plain_name(std::string_view s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  for (char c : s)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '/') return false;
  return s != "return" && s != "graph";
}
std::string in_quotes(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}
std::string name_text(std::string_view s) { return is_plain_name(s) ? std::string(s) : in_quotes(s); }

std::string info_text(const OutputInfo& info) {
  if (!info.shape) return info.dtype ? fmt::format(": {}", *info.dtype) : "";
  return fmt::format(": {}{}", info.dtype ? fmt::format("{} ", *info.dtype) : "", *info.shape);
}

bool is_value_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_./+-").find(c) != std::string_view::npos;
}
bool is_plain_value(std::string_view s) { return !s.empty() && std::all_of(s.begin(), s.end(), is_value_char); }

std::string map_text(const StringMap& m) {
  std::string out;
  for (const auto& [key, value] : m)
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", name_text(key), is_plain_value(value) ? value : in_quotes(value));
  return out;
}

// The bodies, with their lines indented below their node's.
std::string bodies_text(const Graph::Node& n) {
  std::string text;
  for (const Symbol& body : n.op->subgraphs_of(n.attrs.get())) {
    text += " with ";
    const std::string graph = body.str();
    for (char c : std::string_view(graph).substr(0, graph.size() - 1)) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  return text;
}

// Names are not unique in old files: further nodes of one name are told apart as name#2, name#3, ...
std::vector<std::string> node_labels(const Graph& g) {
  std::vector<std::string> labels;
  std::map<std::string, int> seen;
  for (const auto& node : g.nodes) {
    const int count = ++seen[node.name];
    labels.push_back(name_text(node.name) + (count > 1 ? fmt::format("#{}", count) : ""));
  }
  return labels;
}
std::string value_text(const Graph& g, const std::vector<std::string>& labels, ValueId v) {
  const auto n = static_cast<size_t>(v.node);
  return labels[n] + (g.node(n).outputs.size() > 1 ? fmt::format("[{}]", v.index) : "");
}

std::string escaped(std::string_view s) {
  const std::string q = in_quotes(s);
  return q.substr(1, q.size() - 2);
}

class Parser {
 public:
  static constexpr int kMaxDepth = 32;  // of bodies within bodies
  explicit Parser(std::string_view text, size_t at = 0, int depth = 0) : text_(text), at_(at), depth_(depth) {}

  Graph parse() {
    Graph g = parse_graph();
    skip_space();
    if (at_ != text_.size()) fail("the end of the text");
    return g;
  }
  size_t at() const { return at_; }
  Graph parse_graph() {
    expect("graph");
    expect("(");
    bool heads = false;
    while (!accept(")")) {
      heads |= accept(";");
      add_variable(heads);
      if (!accept(",") && !peek(";") && !peek(")")) fail("',', ';' or ')'");
    }
    expect("{");
    while (!accept("return")) add_node();
    while (!accept("}")) {
      graph_.outputs.push_back(value());
      if (!accept(",") && !peek("}")) fail("',' or '}'");
    }
    return std::move(graph_);
  }

 private:
  void add_variable(bool is_head) {
    Graph::Node node;
    node.is_head = is_head;
    const Label label = this->label();
    node.name = label.first;
    node.outputs.resize(1);
    if (accept(":")) {
      if (!peek("(")) node.outputs[0].dtype = parse_dtype(word());
      if (peek("(")) node.outputs[0].shape = shape();
    }
    if (accept("{")) node.user_attrs = map();
    define(label, std::move(node));
  }
  void add_node() {
    Graph::Node node;
    const Label label = this->label();
    node.name = label.first;
    expect("=");
    node.op = &OpRegistry::global().get(word());
    expect("(");
    while (!accept(")")) {
      node.inputs.push_back(value());
      if (!accept(",") && !peek(")")) fail("',' or ')'");
    }
    StringMap attrs;
    if (accept("{")) attrs = map();
    if (accept("@{")) node.user_attrs = map();
    take_mode_from_attrs(node);
    node.attrs = node.op->parse_attrs(attrs);
    if (node.op->has_subgraphs()) node.attrs = with_bodies(*node.op, node.attrs);
    node.outputs.resize(checked_output_count(*node.op, node.attrs));
    try {
      check_input_count(*node.op, node.attrs, static_cast<int>(node.inputs.size()));
    } catch (const UserError&) {
      rethrow_located(fmt::format("graph text, line {}: {}", line(), node.op->name));
    }
    if (accept(":")) skip_types();
    define(label, std::move(node));
  }
  Attrs with_bodies(const OpDef& op, const Attrs& attrs) {
    std::vector<Symbol> bodies;
    while (accept("with")) {
      if (depth_ == kMaxDepth) fail("a graph with fewer bodies within bodies");
      Parser body(text_, at_, depth_ + 1);
      bodies.push_back(Symbol::from_graph(body.parse_graph()));
      at_ = body.at();
    }
    std::shared_ptr<void> copy = op.copy_attrs(attrs.get());
    op.set_subgraphs(copy.get(), std::move(bodies));
    return copy;
  }
  // What follows ':' after a node is for readers; it is inferred again.
  void skip_types() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  using Label = std::pair<std::string, int>;  // a name, and which of its nodes
  Label label() {
    Label l{word(), 1};
    if (at_ < text_.size() && text_[at_] == '#') {
      ++at_;
      l.second = number();
    }
    return l;
  }
  void define(const Label& label, Graph::Node node) {
    if (!numbers_.emplace(label, graph_.add(std::move(node))).second)
      fail(fmt::format("another name than '{}', which is taken", label.first));
  }
  ValueId value() {
    const Label label = this->label();
    const std::string& name = label.first;
    const auto it = numbers_.find(label);
    if (it == numbers_.end()) fail(fmt::format("a value that is defined; '{}' is not", name));
    ValueId v{it->second, 0};
    if (accept("[")) {
      v.index = number();
      expect("]");
    }
    if (v.index < 0 || v.index >= static_cast<int>(graph_.node(v).outputs.size())) fail(fmt::format("an output of '{}'", name));
    return v;
  }
  StringMap map() {
    StringMap m;
    while (!accept("}")) {
      const std::string key = word();
      expect("=");
      m[key] = attr_value();
      if (!accept(",") && !peek("}")) fail("',' or '}'");
    }
    return m;
  }
  Shape shape() {
    skip_space();
    const size_t close = text_.find(')', at_);
    if (close == std::string_view::npos) fail("')'");
    std::string inside(text_.substr(at_, close + 1 - at_));
    at_ = close + 1;
    for (size_t q; (q = inside.find('?')) != std::string::npos;) inside.replace(q, 1, "-1");
    return AttrType<Shape>::parse("shape", inside);
  }
  int number() {
    skip_space();
    int v = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (error != std::errc()) fail("a number");
    at_ = static_cast<size_t>(end - text_.data());
    return v;
  }
  std::string word() {
    skip_space();
    std::string out;
    if (at_ < text_.size() && text_[at_] == '"') {
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
        if (text_[at_] == '\\') ++at_;
        if (at_ < text_.size()) out += text_[at_];
      }
      if (at_ >= text_.size()) fail("a closing quote");
      ++at_;
      return out;
    }
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.' || text_[at_] == '/'))
      out += text_[at_++];
    if (out.empty()) fail("a name");
    return out;
  }
  std::string attr_value() {
    if (peek("\"")) return word();
    std::string out;
    while (at_ < text_.size() && is_value_char(text_[at_])) out += text_[at_++];
    if (out.empty()) fail("a value");
    return out;
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool peek(std::string_view token) {
    skip_space();
    return text_.substr(at_).starts_with(token);
  }
  bool accept(std::string_view token) {
    if (!peek(token)) return false;
    const size_t after = at_ + token.size();
    const bool is_word = std::isalpha(static_cast<unsigned char>(token[0]));
    if (is_word && after < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[after])) || text_[after] == '_')) return false;
    at_ = after;
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("'{}'", token));
  }
  long line() const { return std::count(text_.begin(), text_.begin() + static_cast<long>(std::min(at_, text_.size())), '\n') + 1; }
  [[noreturn]] void fail(std::string_view needed) const {
    raise<UserError>("graph text, line {}: {} was expected before '{}'", line(), needed, text_.substr(std::min(at_, text_.size()), 20));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  Graph graph_;
  std::map<Label, int> numbers_;
};

}  // namespace

std::string Graph::str() const {
  std::string text = "graph(";
  const std::vector<std::string> labels = node_labels(*this);
  for (const bool heads : {false, true}) {
    const char* separator = heads ? "; " : "";
    for (size_t k = 0; k < nodes.size(); ++k) {
      const Node& n = nodes[k];
      if (n.op || n.is_head != heads) continue;
      text += fmt::format("{}{}{}{}", separator, labels[k], info_text(n.outputs[0]),
                          n.user_attrs.empty() ? "" : " {" + map_text(n.user_attrs) + "}");
      separator = ", ";
    }
  }
  text += ") {\n";
  for (size_t k = 0; k < nodes.size(); ++k) {
    const Node& n = nodes[k];
    if (!n.op) continue;
    text += fmt::format("  {} = {}(", labels[k], n.op->name);
    for (size_t i = 0; i < n.inputs.size(); ++i) text += (i ? ", " : "") + value_text(*this, labels, n.inputs[i]);
    text += ")";
    if (const StringMap attrs = n.op->print_attrs(n.attrs); !attrs.empty()) text += " {" + map_text(attrs) + "}";
    if (const StringMap attrs = attrs_with_mode(n); !attrs.empty()) text += " @{" + map_text(attrs) + "}";
    if (n.op->has_subgraphs()) text += bodies_text(n);
    text += info_text(n.outputs[0]) + "\n";
  }
  text += "  return ";
  for (size_t i = 0; i < outputs.size(); ++i) text += (i ? ", " : "") + value_text(*this, labels, outputs[i]);
  return text + "\n}\n";
}

Graph Graph::parse(const std::string& text) { return Parser(text).parse(); }

std::string to_dot(const Graph& g) {
  std::string dot = "digraph gluino {\n  rankdir=TB;\n  node [fontname=\"sans-serif\", fontsize=10];\n";
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const auto& n = g.node(i);
    std::string label = n.op ? n.op->name + "\\n" + escaped(n.name) : escaped(n.name);
    if (n.op)
      for (const auto& [key, value] : n.op->print_attrs(n.attrs)) label += fmt::format("\\n{}={}", escaped(key), escaped(value));
    const char* style =
        n.op ? "shape=box, style=\"rounded,filled\", fillcolor=\"#dbe9f6\"" : "shape=ellipse, style=filled, fillcolor=\"#eeeeee\"";
    dot += fmt::format("  n{} [label={}, {}];\n", i, "\"" + label + "\"", style);
  }
  for (size_t i = 0; i < g.nodes.size(); ++i)
    for (ValueId v : g.node(i).inputs) {
      const OutputInfo& info = g.info(v);
      dot += fmt::format("  n{} -> n{}{};\n", v.node, i, info.shape ? fmt::format(" [label=\"{}\", fontsize=8]", *info.shape) : "");
    }
  return dot + "}\n";
}

}  // namespace gluino
