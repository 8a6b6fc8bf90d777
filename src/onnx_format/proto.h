// ONNX's messages, and the two directions between them and plain data.
#pragma once
#include <onnx/onnx_pb.h>

#include "onnx/format.h"

namespace gluino::onnx {

namespace proto = ::onnx;

ModelData read_bytes(std::string_view bytes, const std::string& what, const std::string* folder);
std::string write_bytes(const ModelData& model, ExternalData* external);

}  // namespace gluino::onnx
