// From plain data to ONNX's messages.
#include "base/format.h"
#include "onnx_format/proto.h"

namespace gluino::onnx {
namespace {

// Below this an initializer stays in the model: small ones are shapes and axes, which readers want at hand.
constexpr int64_t kSmallestOutside = 1024;
constexpr size_t kAlignment = 4096;  // of external data, as ONNX asks for, so that it can be mapped

void put_graph(const GraphData& graph, proto::GraphProto& out, ExternalData* external);

void put_outside(std::string_view raw, proto::TensorProto& out, ExternalData& external) {
  external.bytes.resize((external.bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
  out.set_data_location(proto::TensorProto::EXTERNAL);
  const auto say = [&](const char* key, const std::string& value) {
    auto& entry = *out.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  say("location", external.location);
  say("offset", std::to_string(external.bytes.size()));
  say("length", std::to_string(raw.size()));
  external.bytes += raw;
}

void put_tensor(const std::string& name, const Tensor& t, proto::TensorProto& out, ExternalData* external = nullptr) {
  out.set_name(name);
  out.set_data_type(static_cast<int>(element_type(t.dtype())));
  for (const int64_t d : t.shape()) out.add_dims(d);
  visit_dtype(t.dtype(), [&]<class T>(T*) {
    if (t.size() == 0) return;
    const std::string_view raw(reinterpret_cast<const char*>(t.data<T>()), static_cast<size_t>(t.nbytes()));
    if (external && t.nbytes() >= kSmallestOutside)
      put_outside(raw, out, *external);
    else
      out.set_raw_data(raw.data(), raw.size());
  });
}

void put_attribute(const std::string& name, const Attribute& a, proto::AttributeProto& out) {
  using Kind = Attribute::Kind;
  out.set_name(name);
  switch (a.kind) {
    case Kind::number: out.set_type(proto::AttributeProto::FLOAT), out.set_f(static_cast<float>(a.number)); break;
    case Kind::integer: out.set_type(proto::AttributeProto::INT), out.set_i(a.integer); break;
    case Kind::text: out.set_type(proto::AttributeProto::STRING), out.set_s(a.text); break;
    case Kind::tensor: out.set_type(proto::AttributeProto::TENSOR), put_tensor("", a.tensor, *out.mutable_t()); break;
    case Kind::graph: out.set_type(proto::AttributeProto::GRAPH), put_graph(*a.graph, *out.mutable_g(), nullptr); break;
    case Kind::numbers:
      out.set_type(proto::AttributeProto::FLOATS);
      for (const double v : a.numbers) out.add_floats(static_cast<float>(v));
      break;
    case Kind::integers:
      out.set_type(proto::AttributeProto::INTS);
      for (const int64_t v : a.integers) out.add_ints(v);
      break;
    case Kind::texts:
      out.set_type(proto::AttributeProto::STRINGS);
      for (const std::string& v : a.texts) out.add_strings(v);
      break;
    case Kind::none:
    case Kind::other: throw InternalError("an ONNX attribute without a value");
  }
}

void put_value(const ValueData& v, proto::ValueInfoProto& out) {
  out.set_name(v.name);
  auto& type = *out.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int>(v.type));
  if (!v.has_shape) return;
  auto& shape = *type.mutable_shape();
  for (size_t i = 0; i < v.extents.size(); ++i) {
    auto& d = *shape.add_dim();
    if (v.extents[i])
      d.set_dim_value(*v.extents[i]);
    else if (i < v.extent_names.size() && !v.extent_names[i].empty())
      d.set_dim_param(v.extent_names[i]);
  }
}

void put_graph(const GraphData& graph, proto::GraphProto& out, ExternalData* external) {
  out.set_name(graph.name);
  for (const auto& v : graph.inputs) put_value(v, *out.add_input());
  for (const auto& v : graph.outputs) put_value(v, *out.add_output());
  for (const auto& [name, t] : graph.initializers) put_tensor(name, t, *out.add_initializer(), external);
  for (const NodeData& n : graph.nodes) {
    auto& node = *out.add_node();
    node.set_op_type(n.type);
    node.set_domain(n.domain);
    node.set_name(n.name);
    for (const auto& i : n.inputs) node.add_input(i);
    for (const auto& o : n.outputs) node.add_output(o);
    for (const auto& [name, a] : n.attributes) put_attribute(name, a, *node.add_attribute());
  }
}

}  // namespace

std::string write_bytes(const ModelData& model, ExternalData* external) {
  proto::ModelProto message;
  message.set_ir_version(model.ir_version);
  message.set_producer_name(model.producer);
  message.set_doc_string(model.doc);
  for (const auto& [domain, version] : model.operator_sets) {
    auto& set = *message.add_opset_import();
    set.set_domain(domain);
    set.set_version(version);
  }
  put_graph(model.graph, *message.mutable_graph(), external);
  std::string bytes;
  if (message.ByteSizeLong() > INT32_MAX || !message.SerializeToString(&bytes))
    raise<SystemError>("the model has {} bytes; an ONNX file holds at most 2 GB", message.ByteSizeLong());
  return bytes;
}

}  // namespace gluino::onnx
