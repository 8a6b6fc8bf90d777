// A loaded model, as its handle names it.
#pragma once
#include "c_api/handles.h"
#include "gluino/block.h"

namespace gluino::c_api {

struct Model {
  // What is known of an input or output before anything runs.
  struct Value {
    std::string name;
    std::optional<DType> dtype;
    std::optional<Shape> shape;  // Shape::kUnknown for an extent that may change from call to call
  };
  struct Description {
    std::vector<Value> inputs, outputs;
  };

  std::unique_ptr<SymbolBlock> block;
  Device device;

  size_t num_inputs() const { return block->inputs().size(); }
  size_t num_outputs() const { return block->outputs().outputs().size(); }
  const Description& description() const;  // made when it is first asked for
  ShapeMap parameter_shapes() const;
  DTypeMap parameter_types() const;

 private:
  mutable std::once_flag is_described_;
  mutable Description description_;
};

// Reads what exporting wrote: a graph's text with its parameters, or a one-file model. `what` and `params_what` name them in messages.
std::unique_ptr<SymbolBlock> read_model(const std::string& graph, const std::string& what, std::string_view params,
                                        const std::string& params_what, const std::vector<std::string>& inputs);

template <>
struct HandleKind<Model> {
  static constexpr int number = 1;
  static constexpr const char* name = "model";
};
using Models = HandleTable<Model>;

}  // namespace gluino::c_api
