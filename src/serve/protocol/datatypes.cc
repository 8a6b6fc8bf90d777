#include "serve/protocol/datatypes.h"

#include <fmt/format.h>

#include "serve/http/message.h"

namespace gluino::serve {
namespace {

constexpr std::pair<std::string_view, DType> kNames[] = {
    {"FP32", DType::float32}, {"FP64", DType::float64}, {"FP16", DType::float16}, {"BF16", DType::bfloat16}, {"INT64", DType::int64},
    {"INT32", DType::int32},  {"INT8", DType::int8},    {"UINT8", DType::uint8},  {"BOOL", DType::boolean},
};

}  // namespace

std::string_view datatype_name(DType dtype) {
  for (const auto& [name, d] : kNames)
    if (d == dtype) return name;
  return "";
}

DType parse_datatype(const std::string& name) {
  std::string known;
  for (const auto& [n, d] : kNames) {
    if (n == name) return d;
    known += known.empty() ? "" : ", ";
    known += n;
  }
  throw HttpError(400, fmt::format("the datatype '{}' is not known; there are {}", name, known));
}

}  // namespace gluino::serve
