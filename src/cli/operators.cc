// gluino ops: the operators, or one of them.
#include "base/format.h"
#include "cli/command.h"
#include "cli/operators.h"
#include "cli/report.h"
#include "gluino/op.h"

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

namespace {

Json operator_json(const OpDef& op) {
  Json inputs = Json::array(), attributes = Json::array();
  for (const InputSpec& i : op.inputs) inputs.push_back({{"name", i.name}, {"optional", static_cast<bool>(i.present)}});
  for (const AttrField& f : op.fields)
    attributes.push_back({{"name", f.name},
                          {"type", f.type},
                          {"required", f.required},
                          {"default", f.required ? Json(nullptr) : Json(f.default_text)},
                          {"choices", f.choices},
                          {"doc", f.doc}});
  return {{"name", op.name},
          {"aliases", op.aliases},
          {"doc", op.doc},
          {"variadic", op.is_variadic},
          {"inputs", inputs},
          {"attributes", attributes},
          {"differentiable", op.not_differentiable.empty()}};
}

int show_operators(const std::string& name, bool json) {
  if (!name.empty()) {
    const OpDef& op = OpRegistry::global().get(name);
    if (json)
      print_json(operator_json(op));
    else
      fmt::print("{}", operator_page(op, name));
    return 0;
  }
  std::vector<std::string> names;
  for (const auto& op : OpRegistry::global().all()) names.push_back(op->name);
  std::sort(names.begin(), names.end());
  if (json)
    print_json(names);
  else
    fmt::print("{}\n", fmt::join(names, "\n"));
  return 0;
}

}  // namespace

void add_operators(Commands& commands) {
  auto name = std::make_shared<std::string>();
  Command command = commands.add("ops", "Lists the operators, or describes one.");
  command.option("OPERATOR", *name, "its name");
  command.runs([name](bool json) { return show_operators(*name, json); });
}

}  // namespace gluino::cli
