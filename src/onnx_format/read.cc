// From ONNX's messages to plain data. Files may be damaged or hostile: every size is checked before memory is asked for.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/format.h"
#include "onnx_format/proto.h"

namespace gluino::onnx {
namespace {

class MessageReader {
 public:
  MessageReader(const std::string& what, const std::string* folder) : what_(what), folder_(folder) {}

  ModelData model(const proto::ModelProto& m) {
    ModelData out;
    out.ir_version = m.ir_version();
    out.producer = m.producer_name();
    out.doc = m.doc_string();
    for (const auto& set : m.opset_import()) out.operator_sets[domain_of(set.domain())] = set.version();
    if (!m.has_graph()) fail("it has no graph");
    out.graph = graph(m.graph());
    for (const auto& f : m.functions()) out.functions.push_back(function(f));
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { raise<SystemError>("{}: {}", what_, why); }
  static std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

  GraphData graph(const proto::GraphProto& g) {
    GraphData out;
    out.name = g.name();
    if (g.sparse_initializer_size() > 0)
      fail("it has sparse initializers, which are not read; store them as dense ones (onnx.numpy_helper converts them)");
    for (const auto& t : g.initializer()) out.initializers.emplace_back(t.name(), tensor(t));
    for (const auto& v : g.input()) out.inputs.push_back(value(v));
    for (const auto& v : g.output()) out.outputs.push_back(value(v));
    for (const auto& n : g.node()) out.nodes.push_back(node(n));
    return out;
  }

  FunctionData function(const proto::FunctionProto& f) {
    FunctionData out;
    out.domain = domain_of(f.domain());
    out.name = f.name();
    out.inputs.assign(f.input().begin(), f.input().end());
    out.outputs.assign(f.output().begin(), f.output().end());
    out.attributes.assign(f.attribute().begin(), f.attribute().end());
    for (const auto& set : f.opset_import()) out.operator_sets[domain_of(set.domain())] = set.version();
    for (const auto& n : f.node()) out.nodes.push_back(node(n));
    return out;
  }

  static ValueData value(const proto::ValueInfoProto& v) {
    ValueData out;
    out.name = v.name();
    out.is_tensor = !v.has_type() || v.type().has_tensor_type();
    if (!v.has_type() || !v.type().has_tensor_type()) return out;
    const auto& type = v.type().tensor_type();
    out.type = static_cast<ElementType>(type.elem_type());
    out.has_shape = type.has_shape();
    for (const auto& d : type.shape().dim()) {
      out.extents.push_back(d.has_dim_value() && d.dim_value() >= 0 ? std::optional<int64_t>(d.dim_value()) : std::nullopt);
      out.extent_names.push_back(d.dim_param());
    }
    return out;
  }

  NodeData node(const proto::NodeProto& n) {
    NodeData out{.type = n.op_type(), .domain = domain_of(n.domain()), .name = n.name()};
    out.inputs.assign(n.input().begin(), n.input().end());
    out.outputs.assign(n.output().begin(), n.output().end());
    for (const auto& a : n.attribute()) out.attributes[a.name()] = attribute(a);
    return out;
  }

  Attribute attribute(const proto::AttributeProto& a) {
    using Kind = Attribute::Kind;
    Attribute out;
    out.reference = a.ref_attr_name();
    switch (a.type()) {
      case proto::AttributeProto::FLOAT: out.kind = Kind::number, out.number = a.f(); break;
      case proto::AttributeProto::INT: out.kind = Kind::integer, out.integer = a.i(); break;
      case proto::AttributeProto::STRING: out.kind = Kind::text, out.text = a.s(); break;
      case proto::AttributeProto::TENSOR:
        out.kind = a.t().data_type() == proto::TensorProto::STRING ? Kind::other : Kind::tensor;
        if (out.kind == Kind::tensor) out.tensor = tensor(a.t());
        break;
      case proto::AttributeProto::GRAPH: out.kind = Kind::graph, out.graph = std::make_shared<GraphData>(graph(a.g())); break;
      case proto::AttributeProto::FLOATS: out.kind = Kind::numbers, out.numbers.assign(a.floats().begin(), a.floats().end()); break;
      case proto::AttributeProto::INTS: out.kind = Kind::integers, out.integers.assign(a.ints().begin(), a.ints().end()); break;
      case proto::AttributeProto::STRINGS: out.kind = Kind::texts, out.texts.assign(a.strings().begin(), a.strings().end()); break;
      default: out.kind = Kind::other; break;
    }
    return out;
  }

  static int bytes_per_element(ElementType type) {
    switch (type) {
      case ElementType::float64:
      case ElementType::int64:
      case ElementType::uint64: return 8;
      case ElementType::float32:
      case ElementType::int32:
      case ElementType::uint32: return 4;
      case ElementType::float16:
      case ElementType::bfloat16:
      case ElementType::int16:
      case ElementType::uint16: return 2;
      default: return 1;
    }
  }

  Tensor tensor(const proto::TensorProto& t) {
    const std::string name = fmt::format("{}: tensor '{}'", what_, t.name());
    const auto type = static_cast<ElementType>(t.data_type());
    const DType dtype = carrier(type, name);
    Shape shape;
    if (t.dims_size() > Shape::kMaxAxes)
      raise<SystemError>("{} has {} axes; at most {} are possible", name, t.dims_size(), Shape::kMaxAxes);
    for (const int64_t d : t.dims()) {
      if (d < 0) raise<SystemError>("{} has the extent {}", name, d);
      shape.push_back(d);
    }
    const int64_t elements = shape.elements();
    std::string bytes;
    if (t.data_location() == proto::TensorProto::EXTERNAL) bytes = external(t, name);
    const std::string& raw = bytes.empty() ? t.raw_data() : bytes;
    const auto need = [&](int64_t there, int64_t needed, std::string_view of) {
      if (there != needed) raise<SystemError>("{} of shape {} needs {} {}, but has {}", name, shape, needed, of, there);
    };
    if (!raw.empty() || (elements == 0 && !has_typed_data(t))) {
      if (elements > static_cast<int64_t>(raw.size())) need(static_cast<int64_t>(raw.size()), elements, "elements or more bytes");
      need(static_cast<int64_t>(raw.size()), elements * bytes_per_element(type), "bytes");
      return from_raw(raw.data(), type, shape, dtype);
    }
    // Lists of numbers, as small tensors are often stored.
    const auto from_list = [&](const auto& list) {
      need(list.size(), elements, "elements");
      using Number = std::decay_t<decltype(list.Get(0))>;
      if constexpr (std::is_floating_point_v<Number>)
        return from_data(list.data(), shape, {.dtype = dtype});
      else {
        std::vector<int64_t> numbers(list.begin(), list.end());
        return from_vector(numbers, shape, {.dtype = dtype});
      }
    };
    switch (type) {
      case ElementType::float32: return from_list(t.float_data());
      case ElementType::float64: return from_list(t.double_data());
      case ElementType::int64: return from_list(t.int64_data());
      case ElementType::uint32:
      case ElementType::uint64: return from_list(t.uint64_data());
      case ElementType::float16:
      case ElementType::bfloat16: {
        need(t.int32_data_size(), elements, "elements");
        std::vector<uint16_t> bits(t.int32_data().begin(), t.int32_data().end());
        return from_raw(reinterpret_cast<const char*>(bits.data()), type, shape, dtype);
      }
      default: return from_list(t.int32_data());
    }
  }

  static bool has_typed_data(const proto::TensorProto& t) {
    return t.float_data_size() + t.double_data_size() + t.int32_data_size() + t.int64_data_size() + t.uint64_data_size() > 0;
  }

  template <class T>
  static Tensor widened(const char* raw, const Shape& shape, DType dtype) {
    std::vector<T> numbers(static_cast<size_t>(shape.elements()));
    if (!numbers.empty()) std::memcpy(numbers.data(), raw, numbers.size() * sizeof(T));
    const std::vector<int64_t> wide(numbers.begin(), numbers.end());
    return from_vector(wide, shape, {.dtype = dtype});
  }
  static Tensor from_raw(const char* raw, ElementType type, const Shape& shape, DType dtype) {
    switch (type) {
      case ElementType::int16: return widened<int16_t>(raw, shape, dtype);
      case ElementType::uint16: return widened<uint16_t>(raw, shape, dtype);
      case ElementType::uint32: return widened<uint32_t>(raw, shape, dtype);
      case ElementType::boolean: return widened<uint8_t>(raw, shape, dtype);  // any byte but 0 is true
      default: break;
    }
    Tensor out = empty(shape, {.dtype = dtype});
    visit_dtype(dtype, [&]<class T>(T*) {
      if (out.size() > 0) std::memcpy(out.mutable_data<T>(), raw, static_cast<size_t>(out.nbytes()));
    });
    return out;
  }

  // The part of a file beside the model that a tensor's data lies in.
  std::string external(const proto::TensorProto& t, const std::string& name) const {
    std::string location;
    uint64_t offset = 0, length = UINT64_MAX;
    try {
      for (const auto& entry : t.external_data()) {
        if (entry.key() == "location") location = entry.value();
        if (entry.key() == "offset") offset = std::stoull(entry.value());
        if (entry.key() == "length") length = std::stoull(entry.value());
      }
    } catch (const std::exception&) {
      raise<SystemError>("{}: its place in an external file is not a number", name);
    }
    if (!folder_) raise<SystemError>("{}: its data lies in the file '{}', and a model in memory has no folder for it", name, location);
    const std::filesystem::path relative(location);
    const auto climbs = std::find(relative.begin(), relative.end(), "..") != relative.end();
    if (location.empty() || relative.is_absolute() || climbs)
      raise<SystemError>("{}: its external data is said to lie in '{}'; it must lie beside the model", name, location);
    return read_part((std::filesystem::path(*folder_) / relative).string(), offset, length, name);
  }

  // `length` bytes, UINT64_MAX for all to the end.
  static std::string read_part(const std::string& path, uint64_t offset, uint64_t length, const std::string& name) {
    std::error_code failed;
    const uint64_t size = std::filesystem::is_regular_file(path, failed) ? std::filesystem::file_size(path, failed) : 0;
    std::ifstream file(path, std::ios::binary);
    if (failed || !file) raise<SystemError>("{}: its external data cannot be read, there is no file '{}'", name, path);
    if (offset > size || (length != UINT64_MAX && length > size - offset))
      raise<SystemError>("{}: its external data lies beyond the end of '{}'", name, path);
    std::string bytes(length == UINT64_MAX ? size - offset : length, '\0');
    file.seekg(static_cast<std::streamoff>(offset));
    if (!bytes.empty() && !file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
      raise<SystemError>("{}: its external data cannot be read from '{}'", name, path);
    return bytes;
  }

  const std::string what_;
  const std::string* const folder_;
};

}  // namespace

ModelData read_bytes(std::string_view bytes, const std::string& what, const std::string* folder) {
  proto::ModelProto message;
  // The limit of protobuf itself: a message is smaller than 2 GB, tensors beyond lie in external files.
  if (bytes.size() > INT32_MAX || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    raise<SystemError>("{}: this is not an ONNX model, or it is damaged", what);
  return MessageReader(what, folder).model(message);
}

extern "C" __attribute__((visibility("default"))) const FileFormat* gluino_onnx_format_3() {
  static const FileFormat format{&read_bytes, &write_bytes};
  // Damaged files are reported by what is raised, not on the error stream.
  google::protobuf::SetLogHandler(nullptr);
  return &format;
}

}  // namespace gluino::onnx
