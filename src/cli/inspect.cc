#include "cli/inspect.h"

#include "base/format.h"
#include "base/parallel.h"
#include "gluino/gluino.h"
#include "graph/graph.h"

namespace gluino::cli {

std::string operator_page(const OpDef& op, std::string_view name) {
  std::string text = fmt::format("{}(", name);
  for (const InputSpec& i : op.inputs) text += (op.is_variadic ? "*" : "") + i.name + (i.present ? "=None" : "") + ", ";
  for (const AttrField& f : op.fields) text += f.name + (f.required ? "" : "=" + (f.default_text.empty() ? "''" : f.default_text)) + ", ";
  text += "out=None, name=None)\n\n" + op.doc + "\n\nParameters\n----------\n";
  for (const InputSpec& i : op.inputs)
    text += fmt::format("{} : {}{}\n", i.name, op.is_variadic ? "NDArrays or Symbols" : "NDArray or Symbol", i.present ? ", optional" : "");
  for (const AttrField& f : op.fields)
    text += fmt::format("{} : {}{}\n    {}\n", f.name, f.choices.empty() ? f.type : fmt::format("{{'{}'}}", fmt::join(f.choices, "', '")),
                        f.required ? ", required" : ", default " + f.default_text, f.doc);
  return text;
}

int show_operators(const std::string& name) {
  if (!name.empty()) {
    fmt::print("{}", operator_page(OpRegistry::global().get(name), name));
    return 0;
  }
  std::vector<std::string> names;
  for (const auto& op : OpRegistry::global().all()) names.push_back(op->name);
  std::sort(names.begin(), names.end());
  fmt::print("{}\n", fmt::join(names, "\n"));
  return 0;
}

int show_graph(const std::string& path, const std::vector<std::string>& shapes) {
  ShapeMap known;
  for (const std::string& text : shapes) {
    const size_t at = text.find('=');
    if (at == std::string::npos) raise<UserError>("--shape {}: a shape is given as name=1,3,224,224", text);
    known[text.substr(0, at)] = AttrType<Shape>::parse("--shape " + text, fmt::format("({})", text.substr(at + 1)));
  }
  Graph graph = Symbol::load(path).graph();
  infer_graph(graph, known, {});
  fmt::print("{}", graph.str());
  return 0;
}

int show_params(const std::string& path) {
  for (const auto& [name, t] : load_tensors(path)) fmt::print("{}\t{}\t{}\n", name, t.shape(), t.dtype());
  return 0;
}

int show_info() {
  fmt::print("gluino {}, {} operators, {} threads\n", GLUINO_VERSION, OpRegistry::global().all().size(), num_threads());
  return 0;
}

}  // namespace gluino::cli
