// Arrays, and operators by name on them.
#include "c_api/array.h"

#include <cstring>

#include "base/format.h"
#include "c_api/buffers.h"
#include "c_api/errors.h"
#include "gluino/autograd.h"
#include "gluino/op.h"
#include "tensor/impl.h"

namespace gluino::c_api {

static bool is_shared(const Tensor& t) { return impl_of(t).use_count() > 1 || impl_of(t).storage->use_count() > 1; }

void give_arrays(const Tensors& tensors, gluino_array* handles) {
  std::vector<std::unique_ptr<Array>> arrays;
  for (const Tensor& t : tensors)
    arrays.push_back(std::make_unique<Array>(!(t.device() == cpu()) ? t.to(cpu()) : is_shared(t) ? t.copy() : t));
  size_t made = 0;
  try {
    for (auto& array : arrays) {
      // The caller may write whenever it likes, so nothing that follows from the content is kept.
      impl_of(array->tensor).storage->share_outside();
      handles[made] = Arrays::global().add(std::move(array));
      ++made;
    }
  } catch (...) {
    while (made > 0) Arrays::global().remove(handles[--made]);
    throw;
  }
}

namespace {

StringMap attributes_of(const char* const* keys, const char* const* values, size_t count) {
  check_list(keys, count, "keys");
  check_list(values, count, "values");
  StringMap attributes;
  for (size_t i = 0; i < count; ++i) {
    if (!keys[i] || !values[i]) throw CallError(fmt::format("{}[{}] is a null pointer", keys[i] ? "values" : "keys", i));
    attributes[keys[i]] = values[i];
  }
  return attributes;
}

void check_input_count(const OpDef& op, const Attrs& attrs, size_t given) {
  const auto wanted = op.present_inputs(attrs);
  if (op.is_variadic ? given >= 1 : given == wanted.size()) return;
  std::vector<std::string> names;
  for (const InputSpec* input : wanted) names.push_back(input->name);
  raise<UserError>("{}: {} inputs were given, {} are needed{}{}", op.name, given, wanted.size(), names.empty() ? "" : ": ",
                   fmt::join(names, ", "));
}

}  // namespace
}  // namespace gluino::c_api

using namespace gluino;
using namespace gluino::c_api;

extern "C" {

gluino_status gluino_array_create(gluino_dtype dtype, int32_t ndim, const int64_t* shape, const void* data, size_t bytes,
                                  gluino_array* array) {
  return guarded(__func__, [&] {
    *not_null(array, "array") = 0;
    check_list(shape, ndim > 0 ? static_cast<size_t>(ndim) : 0, "shape");
    const Where what{"array", 0};
    const DType type = checked_dtype(dtype, what);
    const Shape extents = checked_shape(shape, ndim, what);
    const int64_t needed = bytes_for(extents, type, what);
    if (data ? bytes != static_cast<uint64_t>(needed) : bytes != 0)
      throw CallError(
          fmt::format("shape {} of {} has {} bytes, {} were given{}", extents, type, needed, bytes, data ? "" : " with null data"),
          GLUINO_ERROR_TOO_SMALL);
    auto made =
        std::make_unique<Array>(data ? empty(extents, {.dtype = type, .device = cpu()}) : zeros(extents, {.dtype = type, .device = cpu()}));
    if (data && needed > 0) std::memcpy(memory_of(made->tensor), data, bytes);
    impl_of(made->tensor).storage->share_outside();
    *array = Arrays::global().add(std::move(made));
  });
}

gluino_status gluino_array_free(gluino_array array) {
  return guarded(__func__, [&] { Arrays::global().remove(array); });
}

gluino_status gluino_array_info(gluino_array array, gluino_buffer* info) {
  return guarded(__func__, [&] {
    const Arrays::Use a(array);
    const Tensor& t = a->tensor;
    *not_null(info, "info") = {memory_of(t), static_cast<size_t>(t.nbytes()), static_cast<gluino_dtype>(t.dtype()), t.ndim(), {}, nullptr};
    std::copy(t.shape().begin(), t.shape().end(), info->shape);
  });
}

gluino_status gluino_array_read(gluino_array array, void* data, size_t bytes) {
  return guarded(__func__, [&] {
    const Arrays::Use a(array);
    const auto needed = static_cast<size_t>(a->tensor.nbytes());
    if (bytes < needed) throw CallError(fmt::format("the array has {} bytes, there is room for {}", needed, bytes), GLUINO_ERROR_TOO_SMALL);
    if (needed > 0) std::memcpy(not_null(data, "data"), memory_of(a->tensor), needed);
  });
}

gluino_status gluino_array_write(gluino_array array, const void* data, size_t bytes) {
  return guarded(__func__, [&] {
    const Arrays::Use a(array);
    const auto needed = static_cast<size_t>(a->tensor.nbytes());
    if (bytes != needed) throw CallError(fmt::format("the array has {} bytes, {} were given", needed, bytes), GLUINO_ERROR_TOO_SMALL);
    if (needed > 0) std::memcpy(memory_of(a->tensor), not_null(data, "data"), needed);
  });
}

gluino_status gluino_invoke(const char* name, const gluino_array* inputs, size_t num_inputs, const char* const* keys,
                            const char* const* values, size_t num_attributes, gluino_array* outputs, size_t* num_outputs) {
  return guarded(__func__, [&] {
    not_null(num_outputs, "num_outputs");
    check_list(inputs, num_inputs, "inputs");
    const OpDef& op = OpRegistry::global().get(not_null(name, "name"));
    const Attrs attrs = op.parse_attrs(attributes_of(keys, values, num_attributes));
    Tensors tensors;
    for (size_t i = 0; i < num_inputs; ++i) tensors.push_back(Arrays::Use(inputs[i])->tensor);
    check_input_count(op, attrs, num_inputs);
    const auto visible = static_cast<size_t>(op.num_visible_outputs(attrs));
    const size_t room = std::exchange(*num_outputs, visible);
    if (room < visible)
      throw CallError(fmt::format("{} gives {} outputs, there is room for {}", op.name, visible, room), GLUINO_ERROR_TOO_SMALL);
    check_list(outputs, visible, "outputs");
    const autograd::Scope predict(false, false);
    Tensors results = apply(op, tensors, attrs);
    results.resize(visible);
    give_arrays(results, outputs);
  });
}

gluino_status gluino_operators(const char* const** names, size_t* count) {
  return guarded(__func__, [&] {
    not_null(names, "names");
    not_null(count, "count");
    static const auto* all = new std::vector<std::string>([] {
      std::vector<std::string> sorted = OpRegistry::global().names();
      std::sort(sorted.begin(), sorted.end());
      return sorted;
    }());
    static const auto* texts = new std::vector<const char*>([] {
      std::vector<const char*> pointers;
      for (const std::string& name : *all) pointers.push_back(name.c_str());
      return pointers;
    }());
    *names = texts->data();
    *count = texts->size();
  });
}

}  // extern "C"
