// .safetensors: the length of a header, the header as JSON (name: dtype, shape, where its bytes are), the bytes.
#pragma once
#include "gluino/io.h"

namespace gluino {

bool is_safetensors(std::string_view bytes);  // by its beginning
NamedTensors read_safetensors(std::string_view bytes, const std::string& what);
std::string write_safetensors(const NamedTensors& tensors);  // every one has a name of its own

}  // namespace gluino
