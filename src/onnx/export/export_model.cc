#include <filesystem>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/format.h"
#include "gluino/onnx.h"
#include "onnx/export/exporter.h"

namespace gluino::onnx {

// What stands for free extents while shapes are inferred, one time and the other: not 1, which broadcasts. Networks may need pictures
// and sequences of some size, so the first numbers that go through are taken.
struct FreeExtents {
  int64_t one, other;
};
constexpr FreeExtents kBatch{2, 3}, kOthers[] = {{2, 3}, {32, 64}, {224, 448}, {299, 331}, {512, 1024}};

static std::vector<ExportInput> with_numbers(const std::vector<InputShape>& inputs, FreeExtents others) {
  std::vector<ExportInput> out;
  for (const InputShape& given : inputs) {
    ExportInput input{.name = given.name, .shape = given.shape, .other_shape = given.shape, .dtype = given.dtype};
    for (int i = 0; i < given.shape.ndim(); ++i) {
      const bool is_free = given.shape[i] < 0;
      const bool is_named = i < static_cast<int>(given.free_names.size()) && !given.free_names[static_cast<size_t>(i)].empty();
      input.free_extents.push_back(!is_free   ? ""
                                   : is_named ? given.free_names[static_cast<size_t>(i)]
                                   : i == 0   ? "batch"
                                              : fmt::format("{}_{}", given.name, i));
      if (is_free) input.shape[i] = (i == 0 ? kBatch : others).one, input.other_shape[i] = (i == 0 ? kBatch : others).other;
    }
    out.push_back(std::move(input));
  }
  return out;
}

// Beyond this, with room for the graph, a message of protobuf's is too large.
constexpr int64_t kMostInside = 2'000'000'000;

static void write_model(const ModelData& model, const std::string& path, bool is_external) {
  int64_t bytes = 0;
  for (const auto& [name, t] : model.graph.initializers) bytes += t.nbytes();
  if (!is_external && bytes <= kMostInside) return write_file(path, file_format().write(model, nullptr));
  ExternalData data{.location = std::filesystem::path(path).filename().string() + ".data"};
  const std::string graph = file_format().write(model, &data);
  write_files({{path + ".data", data.bytes}, {path, graph}});
}

static bool has_free_extents(const std::vector<InputShape>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const InputShape& i) {
    return std::any_of(i.shape.begin() + std::min(1, i.shape.ndim()), i.shape.end(), [](int64_t n) { return n < 0; });
  });
}

void export_model(const Symbol& symbol, const NamedTensors& parameters, const std::string& path, const std::vector<InputShape>& inputs,
                  const ExportOptions& options) {
  if (options.operator_set < 13 || options.operator_set > 17)
    raise<UserError>("export_model: operator set {} cannot be written; choose one of 13 to 17", options.operator_set);
  file_format();  // before any work: it may not be there
  std::map<std::string, Tensor> values;
  for (const auto& [name, t] : parameters)
    values[name.starts_with("arg:") || name.starts_with("aux:") ? name.substr(4) : name] = t.detach();
  const std::vector<std::string> names = symbol.list_inputs();
  for (const InputShape& i : inputs)
    if (std::find(names.begin(), names.end(), i.name) == names.end())
      raise<UserError>("export_model: the graph has no input named '{}'{}", i.name, did_you_mean(i.name, names));
  for (const FreeExtents& others : kOthers) {
    const bool is_last = &others == std::end(kOthers) - 1;
    try {
      Exporter exporter(symbol.graph(), values, with_numbers(inputs, others), options.operator_set);
      return write_model(exporter.run(), path, options.external_data);
    } catch (const ShapeError&) {
      if (is_last || !has_free_extents(inputs)) throw;
    }
  }
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
