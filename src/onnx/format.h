// An ONNX model as plain data: what the companion library libgluino_onnx, which knows the file format, and this one say to each other.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gluino/tensor.h"

namespace gluino::onnx {

struct GraphData;

struct Attribute {
  enum class Kind : uint8_t { none, number, integer, text, tensor, graph, numbers, integers, texts, other } kind = Kind::none;
  double number = 0;
  int64_t integer = 0;
  std::string text;
  Tensor tensor;
  std::shared_ptr<GraphData> graph;
  std::vector<double> numbers;
  std::vector<int64_t> integers;
  std::vector<std::string> texts;
  std::string reference;  // inside a function: the attribute of the call that it stands for
};

struct NodeData {
  std::string type, domain, name;
  std::vector<std::string> inputs, outputs;  // "" where an optional one is absent
  std::map<std::string, Attribute> attributes;
};

// A tensor's element type as ONNX numbers them; Gluino carries those it lacks in the next wider type.
enum class ElementType : int {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  text = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  bfloat16 = 16
};

struct ValueData {
  std::string name;
  ElementType type = ElementType::undefined;
  bool is_tensor = true;                        // else a sequence, a map, an optional
  bool has_shape = false;                       // false: not even the number of axes is known
  std::vector<std::optional<int64_t>> extents;  // absent where free
  std::vector<std::string> extent_names;        // of free extents; "" where they have none
};

struct GraphData {
  std::string name;
  std::vector<NodeData> nodes;
  std::vector<std::pair<std::string, Tensor>> initializers;
  std::vector<ValueData> inputs, outputs;
};

struct FunctionData {
  std::string domain, name;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<NodeData> nodes;
  std::map<std::string, int64_t> operator_sets;
};

struct ModelData {
  int64_t ir_version = 8;
  std::string producer, doc;
  std::map<std::string, int64_t> operator_sets;  // by domain; "" is ONNX's own
  GraphData graph;
  std::vector<FunctionData> functions;
};

// Initializers in a file beside the model's: the model names it and says where in it each of them lies.
struct ExternalData {
  std::string location;  // the file's name
  std::string bytes;     // what it holds
};
// The functions of libgluino_onnx. `what` names the file in messages; `folder` is where its external data lies, null where it may have
// none. Where there is `external`, initializers of some size go there.
struct FileFormat {
  ModelData (*read)(std::string_view bytes, const std::string& what, const std::string* folder);
  std::string (*write)(const ModelData& model, ExternalData* external);
};
using GetFileFormat = const FileFormat* (*)();
inline constexpr const char* kFileFormatSymbol = "gluino_onnx_format_3";

// That of libgluino_onnx, which lies beside this library; raises SystemError that says what to install where it is not there.
const FileFormat& file_format();
ModelData read_model(const std::string& path);
ModelData read_model_bytes(std::string_view bytes, const std::string& what);

DType carrier(ElementType type, const std::string& what);  // raises DTypeError for text and the like
ElementType element_type(DType dtype);

}  // namespace gluino::onnx
