#include "base/file.h"
#include "base/format.h"
#include "gluino/onnx.h"
#include "onnx/export/exporter.h"

namespace gluino::onnx {

// What stands for a free extent while shapes are inferred: not 1, which broadcasts.
constexpr int64_t kFreeExtent = 2;

static std::vector<ExportInput> with_numbers(const std::vector<InputShape>& inputs) {
  std::vector<ExportInput> out;
  for (const InputShape& given : inputs) {
    ExportInput input{.name = given.name, .shape = given.shape, .dtype = given.dtype};
    for (int i = 0; i < given.shape.ndim(); ++i) {
      const bool is_free = given.shape[i] < 0;
      const bool is_named = i < static_cast<int>(given.free_names.size()) && !given.free_names[static_cast<size_t>(i)].empty();
      input.free_extents.push_back(!is_free   ? ""
                                   : is_named ? given.free_names[static_cast<size_t>(i)]
                                   : i == 0   ? "batch"
                                              : fmt::format("{}_{}", given.name, i));
      if (is_free) input.shape[i] = kFreeExtent;
    }
    out.push_back(std::move(input));
  }
  return out;
}

void export_model(const Symbol& symbol, const NamedTensors& parameters, const std::string& path, const std::vector<InputShape>& inputs,
                  const ExportOptions& options) {
  if (options.operator_set < 13 || options.operator_set > 17)
    raise<UserError>("export_model: operator set {} cannot be written; choose one of 13 to 17", options.operator_set);
  const FileFormat& format = file_format();
  std::map<std::string, Tensor> values;
  for (const auto& [name, t] : parameters)
    values[name.starts_with("arg:") || name.starts_with("aux:") ? name.substr(4) : name] = t.detach();
  const std::vector<std::string> names = symbol.list_inputs();
  for (const InputShape& i : inputs)
    if (std::find(names.begin(), names.end(), i.name) == names.end())
      raise<UserError>("export_model: the graph has no input named '{}'{}", i.name, did_you_mean(i.name, names));
  ModelData model = Exporter(symbol.graph(), std::move(values), with_numbers(inputs), options.operator_set).run();
  write_file(path, format.write(model));
}

void export_model(HybridBlock& net, const std::string& path, const std::vector<InputShape>& inputs, const ExportOptions& options) {
  const Symbol symbol = net.symbol();
  NamedTensors parameters;
  for (const auto& [name, p] : net.collect_params())
    if (p->is_initialized()) parameters.emplace_back(name, p->data());
  export_model(symbol, parameters, path, inputs, options);
}

std::vector<std::string> exported_operators() {
  std::vector<std::string> names;
  for (const auto& [name, rule] : export_rules()) names.push_back(name);
  return names;
}

}  // namespace gluino::onnx
