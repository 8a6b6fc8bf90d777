// What a model takes and gives, and running it.
#include "c_api/model.h"

#include "base/format.h"
#include "c_api/array.h"
#include "c_api/buffers.h"
#include "c_api/errors.h"
#include "gluino/autograd.h"

using namespace gluino;
using namespace gluino::c_api;

namespace {

void tell(const std::vector<Model::Value>& values, size_t index, const char* kind, gluino_value_info* info) {
  not_null(info, "info");
  if (index >= values.size())
    throw CallError(fmt::format("{} {} was asked for, the model has {}", kind, index, values.size()), GLUINO_ERROR_INDEX);
  const Model::Value& v = values[index];
  *info = {v.name.c_str(), v.dtype ? static_cast<gluino_dtype>(*v.dtype) : GLUINO_ANY_DTYPE, v.shape ? v.shape->ndim() : -1, {}};
  if (v.shape) std::copy(v.shape->begin(), v.shape->end(), info->shape);
}

void check_counts(const Model& model, const void* inputs, size_t num_inputs, const void* outputs, size_t num_outputs) {
  if (num_inputs != model.input_names.size())
    throw CallError(
        fmt::format("{} inputs were given, {} are needed: {}", num_inputs, model.input_names.size(), fmt::join(model.input_names, ", ")));
  if (num_outputs > model.output_names.size())
    throw CallError(fmt::format("{} outputs were asked for, the model has {}", num_outputs, model.output_names.size()));
  check_list(static_cast<const char*>(inputs), num_inputs, "inputs");
  check_list(static_cast<const char*>(outputs), num_outputs, "outputs");
}

Tensors input_tensors(const gluino_buffer* inputs, size_t count) {
  Tensors tensors;
  tensors.reserve(count);
  for (size_t i = 0; i < count; ++i) tensors.push_back(input_tensor(inputs[i], {"inputs", i}));
  return tensors;
}

// Whether an output's memory is also another output's or an input's.
bool have_overlaps(const gluino_buffer* inputs, size_t num_inputs, const gluino_buffer* outputs, size_t num_outputs) {
  for (size_t i = 0; i < num_outputs; ++i) {
    for (size_t k = 0; k < num_inputs; ++k)
      if (overlap(outputs[i], inputs[k])) return true;
    for (size_t k = 0; k < i; ++k)
      if (overlap(outputs[i], outputs[k])) return true;
  }
  return false;
}

Tensors run(const Model& model, const gluino_buffer* inputs, size_t num_inputs, const Tensors& destinations) {
  const autograd::Scope predict(false, false);
  return model.block->call_into(input_tensors(inputs, num_inputs), destinations);
}

void run_into(const Model& model, const gluino_buffer* inputs, size_t num_inputs, gluino_buffer* outputs, size_t num_outputs) {
  const bool is_apart = !have_overlaps(inputs, num_inputs, outputs, num_outputs);
  Tensors destinations;
  destinations.reserve(num_outputs);
  for (size_t i = 0; is_apart && i < num_outputs; ++i) destinations.push_back(destination(outputs[i]));
  Tensors results = run(model, inputs, num_inputs, destinations);
  results.resize(num_outputs);
  // A result may be an input itself; writing one output must not change what is still to be copied.
  if (!is_apart)
    for (Tensor& t : results) t = t.copy();
  for (size_t i = 0; i < num_outputs; ++i) describe(results[i], outputs[i], {"outputs", i});
  for (size_t i = 0; i < num_outputs; ++i) write_result(results[i], outputs[i], {"outputs", i});
}

InferredShapes shapes_for(const Model& model, const gluino_buffer* inputs, DTypeMap& types) {
  ShapeMap shapes = model.parameter_shapes();
  for (size_t i = 0; i < model.input_names.size(); ++i) {
    shapes[model.input_names[i]] = checked_shape(inputs[i].shape, inputs[i].ndim, {"inputs", i});
    types[model.input_names[i]] = checked_dtype(inputs[i].dtype, {"inputs", i});
  }
  return model.graph->infer_shape_partial(shapes);
}

void tell_output(std::optional<DType> dtype, const std::optional<Shape>& shape, size_t index, gluino_buffer& out) {
  out.dtype = dtype ? static_cast<gluino_dtype>(*dtype) : GLUINO_ANY_DTYPE;
  out.ndim = shape ? shape->ndim() : -1;
  if (shape) std::copy(shape->begin(), shape->end(), out.shape);
  out.bytes = dtype && shape && shape->is_known() ? static_cast<size_t>(bytes_for(*shape, *dtype, {"outputs", index})) : 0;
}

void infer(const Model& model, const gluino_buffer* inputs, gluino_buffer* outputs, size_t num_outputs) {
  if (!model.graph) {  // an ONNX model says once and for all
    for (size_t i = 0; i < num_outputs; ++i) {
      const Model::Value& v = model.description().outputs[i];
      tell_output(v.dtype, v.shape, i, outputs[i]);
    }
    return;
  }
  DTypeMap types = model.parameter_types();
  const InferredShapes shapes = shapes_for(model, inputs, types);
  const InferredTypes found = model.graph->infer_type(types);
  for (size_t i = 0; i < num_outputs; ++i) tell_output(found.outputs[i], shapes.outputs[i], i, outputs[i]);
}

}  // namespace

extern "C" {

gluino_status gluino_model_num_inputs(gluino_model model, size_t* count) {
  return guarded(__func__, [&] { *not_null(count, "count") = Models::Use(model)->input_names.size(); });
}
gluino_status gluino_model_num_outputs(gluino_model model, size_t* count) {
  return guarded(__func__, [&] { *not_null(count, "count") = Models::Use(model)->output_names.size(); });
}
gluino_status gluino_model_input(gluino_model model, size_t index, gluino_value_info* info) {
  return guarded(__func__, [&] { tell(Models::Use(model)->description().inputs, index, "input", info); });
}
gluino_status gluino_model_output(gluino_model model, size_t index, gluino_value_info* info) {
  return guarded(__func__, [&] { tell(Models::Use(model)->description().outputs, index, "output", info); });
}

gluino_status gluino_model_infer(gluino_model model, const gluino_buffer* inputs, size_t num_inputs, gluino_buffer* outputs,
                                 size_t num_outputs) {
  return guarded(__func__, [&] {
    const Models::Use m(model);
    check_counts(*m, inputs, num_inputs, outputs, num_outputs);
    infer(*m, inputs, outputs, num_outputs);
  });
}

gluino_status gluino_model_run(gluino_model model, const gluino_buffer* inputs, size_t num_inputs, gluino_buffer* outputs,
                               size_t num_outputs) {
  return guarded(__func__, [&] {
    const Models::Use m(model);
    check_counts(*m, inputs, num_inputs, outputs, num_outputs);
    const DeviceScope scope(m->device);
    run_into(*m, inputs, num_inputs, outputs, num_outputs);
  });
}

gluino_status gluino_model_predict(gluino_model model, const gluino_buffer* inputs, size_t num_inputs, gluino_array* outputs,
                                   size_t num_outputs) {
  return guarded(__func__, [&] {
    const Models::Use m(model);
    check_counts(*m, inputs, num_inputs, outputs, num_outputs);
    const DeviceScope scope(m->device);
    Tensors results = run(*m, inputs, num_inputs, {});
    results.resize(num_outputs);
    give_arrays(results, outputs);
  });
}

}  // extern "C"
