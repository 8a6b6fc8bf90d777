// ONNX models behind handles.
#include "c_api/model.h"
#include "gluino/onnx.h"
#include "onnx/description.h"

namespace gluino::c_api {

static std::unique_ptr<Model> model_of(std::shared_ptr<const onnx::Program> program) {
  auto model = std::make_unique<Model>();
  auto block = std::make_unique<onnx::Model>(program);
  model->input_names = block->inputs();
  model->output_names = block->outputs();
  model->told_by_file = [program = std::move(program)] { return onnx::describe(*program); };
  model->block = std::move(block);
  return model;
}

std::unique_ptr<Model> load_onnx(const std::string& path) { return model_of(onnx::Program::load(path)); }
std::unique_ptr<Model> read_onnx(std::string_view bytes, const std::string& what) { return model_of(onnx::Program::read(bytes, what)); }

}  // namespace gluino::c_api
