#include "gluino/onnx.h"

#include "base/format.h"
#include "onnx/program.h"

namespace gluino::onnx {

Model::Model(std::shared_ptr<const Program> program) : HybridBlock(""), program_(std::move(program)) {
  for (const auto& [name, value] : program_->parameters()) {
    const bool is_state = program_->is_state(name);
    const ParameterPtr p = add_parameter(name, {.shape = value.shape(),
                                                .dtype = value.dtype(),
                                                .grad_req = is_state ? GradReq::null : GradReq::write,
                                                .is_state = is_state,
                                                .differentiable = !is_state});
    p->set_data(value);
  }
}

Tensors Model::forward(const Tensors& inputs) {
  Tensors parameters;
  for (const auto& [name, p] : own_parameters()) parameters.push_back(p->data());
  return program_->run(inputs, parameters);
}

static std::vector<std::string> names_of(const std::vector<ValueData>& values) {
  std::vector<std::string> names;
  for (const ValueData& v : values) names.push_back(v.name);
  return names;
}
std::vector<std::string> Model::inputs() const { return names_of(program_->inputs()); }
std::vector<std::string> Model::outputs() const { return names_of(program_->outputs()); }

std::string Model::describe() const { return fmt::format("{} : {} nodes", fmt::join(inputs(), ", "), program_->num_nodes()); }

std::unique_ptr<Model> import_model(const std::string& path) { return std::make_unique<Model>(Program::load(path)); }

}  // namespace gluino::onnx
