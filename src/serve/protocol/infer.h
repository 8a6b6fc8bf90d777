// Inference requests and their answers: the Open Inference Protocol in JSON, and its extension that puts tensors behind the JSON as bytes.
#pragma once
#include <memory>

#include "gluino/tensor.h"
#include "serve/http/message.h"

namespace gluino::serve {

struct InferInput {
  std::string name;
  DType dtype = DType::float32;
  Shape shape;
  const char* data = nullptr;  // in the request's body, or in `storage`
  size_t bytes = 0;
  std::unique_ptr<char[]> storage;
};
struct WantedOutput {
  std::string name;
  std::optional<bool> is_binary;
};
struct InferRequest {
  std::string id;
  std::vector<InferInput> inputs;
  std::vector<WantedOutput> outputs;  // none: all
  bool binary_outputs = false;        // where an output does not say
  std::optional<int64_t> timeout_microseconds;
};

// Points into the request's body, which must outlive it. Raises HttpError.
InferRequest parse_infer(const HttpRequest& request);

struct InferOutput {
  std::string_view name;
  DType dtype;
  Shape shape;
  const char* data;
  size_t bytes;
};
HttpResponse infer_response(const std::string& model_name, const std::string& version, const InferRequest& request,
                            const std::vector<InferOutput>& outputs);

}  // namespace gluino::serve
