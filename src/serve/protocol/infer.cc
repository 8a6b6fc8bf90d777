#include "serve/protocol/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "serve/protocol/datatypes.h"
#include "serve/protocol/json_cursor.h"

namespace gluino::serve {
namespace {

struct Parameters {
  std::optional<int64_t> binary_data_size, timeout;
  std::optional<bool> binary_data, binary_data_output;
};

Parameters parse_parameters(JsonCursor& json) {
  Parameters found;
  json.object("parameters", [&](std::string_view key) {
    if (key == "binary_data_size")
      found.binary_data_size = json.integer("binary_data_size");
    else if (key == "timeout")
      found.timeout = json.integer("timeout");
    else if (key == "binary_data")
      found.binary_data = json.boolean("binary_data");
    else if (key == "binary_data_output")
      found.binary_data_output = json.boolean("binary_data_output");
    else
      json.skip();
  });
  return found;
}

struct RawInput {
  std::optional<std::string> name, datatype;
  std::optional<Shape> shape;
  std::optional<std::string_view> data;
  Parameters parameters;
};

Shape parse_shape(JsonCursor& json) {
  std::vector<int64_t> extents;
  extents.reserve(4);
  json.array("shape", [&] {
    if (extents.size() == Shape::kMaxAxes) throw HttpError(400, fmt::format("a shape has more than {} axes", Shape::kMaxAxes));
    extents.push_back(json.integer("an extent of a shape"));
    if (extents.back() < 0)
      throw HttpError(400, fmt::format("an extent of a shape is {}; a request says how many there are", extents.back()));
  });
  return Shape(extents);
}

RawInput parse_input(JsonCursor& json) {
  RawInput input;
  json.object("an input", [&](std::string_view key) {
    if (key == "name")
      input.name = json.string("an input's name");
    else if (key == "datatype")
      input.datatype = json.string("a datatype");
    else if (key == "shape")
      input.shape = parse_shape(json);
    else if (key == "parameters")
      input.parameters = parse_parameters(json);
    else if (key == "data")
      input.data = json.skip();
    else
      json.skip();
  });
  if (!input.name) throw HttpError(400, "an input has no name");
  if (!input.datatype) throw HttpError(400, fmt::format("the input '{}' has no datatype", *input.name));
  if (!input.shape) throw HttpError(400, fmt::format("the input '{}' has no shape", *input.name));
  return input;
}

int64_t bytes_of(const RawInput& input, DType dtype) {
  try {
    const int64_t elements = input.shape->elements();
    if (elements <= std::numeric_limits<int64_t>::max() / 8) return elements * dtype_bytes(dtype);
  } catch (const Error&) {
    // The product does not fit.
  }
  throw HttpError(400, fmt::format("the shape {} of the input '{}' has too many elements", input.shape->str(), *input.name));
}

// `binary`: what follows the JSON; the input's part is taken from its front.
InferInput finish_input(RawInput& raw, std::string_view& binary) {
  InferInput input{.name = std::move(*raw.name), .dtype = parse_datatype(*raw.datatype), .shape = *raw.shape};
  raw.name = input.name;
  const int64_t bytes = bytes_of(raw, input.dtype);
  input.bytes = static_cast<size_t>(bytes);
  if (const auto size = raw.parameters.binary_data_size) {
    if (raw.data) throw HttpError(400, fmt::format("the input '{}' has both data and binary_data_size", input.name));
    if (*size != bytes)
      throw HttpError(400, fmt::format("the input '{}' has binary_data_size {}, but {} elements of {} have {} bytes", input.name, *size,
                                       input.shape.elements(), *raw.datatype, bytes));
    if (binary.size() < input.bytes)
      throw HttpError(400,
                      fmt::format("the input '{}' needs {} bytes behind the JSON, {} are left there", input.name, bytes, binary.size()));
    input.data = binary.data();
    if (input.dtype == DType::boolean && std::any_of(input.data, input.data + input.bytes, [](char c) { return c != 0 && c != 1; }))
      throw HttpError(400, fmt::format("the input '{}' has bytes other than 0 and 1 as truth values", input.name));
    binary.remove_prefix(input.bytes);
    return input;
  }
  if (!raw.data) throw HttpError(400, fmt::format("the input '{}' has neither data nor binary_data_size", input.name));
  // A number needs a digit and a comma at least, so the text's length bounds what is worth allocating.
  if (static_cast<uint64_t>(input.shape.elements()) > raw.data->size())
    throw HttpError(400, fmt::format("the input '{}' has fewer elements than its shape {} says", input.name, input.shape.str()));
  input.storage = std::make_unique_for_overwrite<char[]>(input.bytes);
  input.data = input.storage.get();
  JsonCursor(*raw.data).numbers(fmt::format("the data of the input '{}'", input.name), input.dtype, input.shape.elements(),
                                input.storage.get());
  return input;
}

WantedOutput parse_output(JsonCursor& json) {
  WantedOutput output;
  bool has_name = false;
  json.object("an output", [&](std::string_view key) {
    if (key == "name") {
      output.name = json.string("an output's name");
      has_name = true;
    } else if (key == "parameters") {
      output.is_binary = parse_parameters(json).binary_data;
    } else {
      json.skip();
    }
  });
  if (!has_name) throw HttpError(400, "an output has no name");
  return output;
}

size_t json_size(const HttpRequest& request) {
  static constexpr std::string_view kName = "inference-header-content-length";
  const std::string_view header = request.header(kName);
  if (header.empty()) return request.body.size();
  if (std::ranges::count(request.headers, kName, [](const auto& h) { return h.first; }) > 1)
    throw HttpError(400, "Inference-Header-Content-Length is given twice");
  size_t size = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), size);
  if (error != std::errc() || end != header.data() + header.size() || size > request.body.size())
    throw HttpError(
        400,
        fmt::format("Inference-Header-Content-Length is '{}'; it is the number of bytes of JSON at the front of the body, which has {}",
                    header, request.body.size()));
  return size;
}

template <class T>
void append_number(std::string& text, T value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  text.append(digits, end);
}

template <class T>
void append_element(std::string& text, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    text += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    append_element(text, static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isfinite(value))
      append_number(text, value);  // the shortest that reads back as the same
    else
      text += "null";  // JSON has no word for it
  } else {
    append_number(text, static_cast<int64_t>(value));
  }
}

void append_data(std::string& text, const InferOutput& output) {
  visit_dtype(output.dtype, [&]<class T>(T*) {
    const T* values = reinterpret_cast<const T*>(output.data);
    for (size_t i = 0; i < output.bytes / sizeof(T); ++i) {
      if (i > 0) text += ',';
      append_element(text, values[i]);
    }
  });
}

void append_quoted(std::string& text, std::string_view value) {
  const bool is_plain =
      std::all_of(value.begin(), value.end(), [](unsigned char c) { return c >= ' ' && c < 127 && c != '"' && c != '\\'; });
  if (is_plain)
    text.append("\"").append(value).append("\"");
  else
    text += nlohmann::json(std::string(value)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_binary(const InferRequest& request, std::string_view output) {
  for (const WantedOutput& o : request.outputs)
    if (o.name == output && o.is_binary) return *o.is_binary;
  return request.binary_outputs;
}

}  // namespace

InferRequest parse_infer(const HttpRequest& http) {
  InferRequest request;
  const size_t size = json_size(http);
  JsonCursor json(std::string_view(http.body).substr(0, size));
  std::vector<RawInput> inputs;
  bool has_inputs = false, has_outputs = false;
  // Readers of JSON differ in which one counts.
  const auto once = [](bool& has, const char* name) {
    if (std::exchange(has, true)) throw HttpError(400, fmt::format("'{}' is given twice", name));
  };
  json.object("the request", [&](std::string_view key) {
    if (key == "id") {
      request.id = json.string("the id");
    } else if (key == "parameters") {
      const Parameters parameters = parse_parameters(json);
      request.binary_outputs = parameters.binary_data_output.value_or(false);
      request.timeout_microseconds = parameters.timeout;
      if (parameters.timeout.value_or(0) < 0)
        throw HttpError(400, fmt::format("the request's timeout is {} microseconds; it must not be negative", *parameters.timeout));
    } else if (key == "inputs") {
      once(has_inputs, "inputs");
      json.array("inputs", [&] { inputs.push_back(parse_input(json)); });
    } else if (key == "outputs") {
      once(has_outputs, "outputs");
      json.array("outputs", [&] { request.outputs.push_back(parse_output(json)); });
    } else {
      json.skip();
    }
  });
  json.end();
  std::string_view binary = std::string_view(http.body).substr(size);
  for (RawInput& raw : inputs) request.inputs.push_back(finish_input(raw, binary));
  if (!binary.empty()) throw HttpError(400, fmt::format("{} bytes are left behind the JSON and the inputs' data", binary.size()));
  return request;
}

HttpResponse infer_response(const std::string& model_name, const std::string& version, const InferRequest& request,
                            const std::vector<InferOutput>& outputs) {
  HttpResponse response;
  std::string& text = response.body;
  size_t estimate = 256, binary_bytes = 0;
  for (const InferOutput& o : outputs) estimate += 96 + (is_binary(request, o.name) ? o.bytes : o.bytes * 3);
  text.reserve(estimate);
  text += "{\"model_name\":";
  append_quoted(text, model_name);
  text += ",\"model_version\":";
  append_quoted(text, version);
  if (!request.id.empty()) {
    text += ",\"id\":";
    append_quoted(text, request.id);
  }
  text += ",\"outputs\":[";
  for (const InferOutput& o : outputs) {
    if (&o != &outputs[0]) text += ',';
    text += "{\"name\":";
    append_quoted(text, o.name);
    text.append(",\"datatype\":\"").append(datatype_name(o.dtype)).append("\",\"shape\":[");
    for (const int64_t& extent : o.shape) {
      if (&extent != o.shape.begin()) text += ',';
      append_number(text, extent);
    }
    text += ']';
    if (is_binary(request, o.name)) {
      text += ",\"parameters\":{\"binary_data_size\":";
      append_number(text, o.bytes);
      text += "}}";
      binary_bytes += o.bytes;
    } else {
      text += ",\"data\":[";
      append_data(text, o);
      text += "]}";
    }
  }
  text += "]}";
  if (binary_bytes == 0) return response;
  response.content_type = "application/octet-stream";
  response.headers.emplace_back("Inference-Header-Content-Length", std::to_string(text.size()));
  for (const InferOutput& o : outputs)
    if (is_binary(request, o.name)) text.append(o.data, o.bytes);
  return response;
}

}  // namespace gluino::serve
