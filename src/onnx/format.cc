#include "onnx/format.h"

#include <dlfcn.h>

#include <filesystem>

#include "base/companion.h"
#include "base/file.h"
#include "base/format.h"

namespace gluino::onnx {

static const FileFormat* load_format() {
  void* library = open_companion("libgluino_onnx.so.0");
  if (!library) return nullptr;
  const auto get = reinterpret_cast<GetFileFormat>(dlsym(library, kFileFormatSymbol));
  return get ? get() : nullptr;
}

const FileFormat& file_format() {
  static const FileFormat* const format = load_format();
  if (!format)
    raise<SystemError>(
        "ONNX files need libgluino_onnx, which was not built or cannot be loaded; install libonnx-dev and libprotobuf-dev (tools/setup.sh "
        "does) and build again");
  return *format;
}

ModelData read_model(const std::string& path) {
  const FileFormat& format = file_format();
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return format.read(read_file(path), path, &folder);
}
ModelData read_model_bytes(std::string_view bytes, const std::string& what) { return file_format().read(bytes, what, nullptr); }

DType carrier(ElementType type, const std::string& what) {
  switch (type) {
    case ElementType::float32: return DType::float32;
    case ElementType::float64: return DType::float64;
    case ElementType::float16: return DType::float16;
    case ElementType::bfloat16: return DType::bfloat16;
    case ElementType::uint8: return DType::uint8;
    case ElementType::int8: return DType::int8;
    case ElementType::int16:
    case ElementType::uint16:
    case ElementType::int32: return DType::int32;
    case ElementType::uint32:
    case ElementType::uint64:
    case ElementType::int64: return DType::int64;
    case ElementType::boolean: return DType::boolean;
    default: break;
  }
  raise<DTypeError>("{} has ONNX's element type {}, which is not a type of numbers that Gluino knows", what, static_cast<int>(type));
}

ElementType element_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return ElementType::float32;
    case DType::float64: return ElementType::float64;
    case DType::float16: return ElementType::float16;
    case DType::bfloat16: return ElementType::bfloat16;
    case DType::uint8: return ElementType::uint8;
    case DType::int8: return ElementType::int8;
    case DType::int32: return ElementType::int32;
    case DType::int64: return ElementType::int64;
    case DType::boolean: break;
  }
  return ElementType::boolean;
}

}  // namespace gluino::onnx
