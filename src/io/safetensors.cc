#include "io/safetensors.h"

#include <array>

#include "base/json.h"
#include "io/bytes.h"
#include "io/dtype_codes.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

using Json = nlohmann::ordered_json;
using io::Reader;

// NumPy's letters for the types, by which the other files are read; bfloat16 has none there.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kTypes{{{"F64", "f8"},
                                                                                {"F32", "f4"},
                                                                                {"F16", "f2"},
                                                                                {"I64", "i8"},
                                                                                {"I32", "i4"},
                                                                                {"I16", "i2"},
                                                                                {"I8", "i1"},
                                                                                {"U8", "u1"},
                                                                                {"U16", "u2"},
                                                                                {"U32", "u4"},
                                                                                {"BOOL", "b1"}}};

const io::FileDType* type_of(std::string_view name) {
  if (name == "BF16") return &io::file_dtype(DType::bfloat16);
  for (const auto& [safe, npy] : kTypes)
    if (safe == name) return io::file_dtype(npy);
  return nullptr;
}
std::string_view name_of(DType dtype) {
  if (dtype == DType::bfloat16) return "BF16";
  for (const auto& [safe, npy] : kTypes)
    if (npy == io::file_dtype(dtype).npy) return safe;
  raise<DTypeError>("write_safetensors: there is no name for {} in such files", dtype);
}

Tensor read_entry(const Reader& r, const std::string& name, const Json& entry, std::string_view data) {
  const auto type_name = entry.at("dtype").get<std::string>();
  const io::FileDType* type = type_of(type_name);
  if (!type) r.fail(fmt::format("'{}' has dtype '{}', which is not supported", name, type_name));
  const auto extents = entry.at("shape").get<std::vector<int64_t>>();
  if (extents.size() > Shape::kMaxAxes) r.fail(fmt::format("'{}' has {} axes", name, extents.size()));
  const Shape shape{std::span<const int64_t>(extents)};
  uint64_t bytes = static_cast<uint64_t>(type->bytes);
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes))
      r.fail(fmt::format("shape {} is absurd", shape));
  const auto range = entry.at("data_offsets").get<std::vector<uint64_t>>();
  if (range.size() != 2 || range[0] > range[1] || range[1] > data.size() || range[1] - range[0] != bytes)
    r.fail(fmt::format("'{}' needs {} bytes, but its data_offsets do not give them", name, bytes));
  return io::tensor_from_file(*type, shape, data.substr(range[0], bytes));
}

}  // namespace

bool is_safetensors(std::string_view bytes) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length + 2) return false;
  std::memcpy(&length, bytes.data(), sizeof length);
  return bytes[sizeof length] == '{' && length <= bytes.size() - sizeof length;
}

NamedTensors read_safetensors(std::string_view bytes, const std::string& what) {
  Reader r(bytes, what);
  const auto length = r.number<uint64_t>("the header's length");
  const std::string_view header = r.take(length, "the header"), data = r.take(r.remaining(), "the data");
  NamedTensors tensors;
  try {
    const Json json = parse_ordered_json(header);
    if (!json.is_object()) r.fail("the header is not a map of names");
    uint64_t taken = 0;  // entries may not share bytes: a small file could ask for much memory
    for (const auto& [name, entry] : json.items()) {
      if (name == "__metadata__") continue;
      tensors.emplace_back(name, read_entry(r, name, entry, data));
      taken += entry["data_offsets"][1].get<uint64_t>() - entry["data_offsets"][0].get<uint64_t>();
      if (taken > data.size()) r.fail(fmt::format("the entries up to '{}' claim {} bytes, but there are {}", name, taken, data.size()));
    }
  } catch (const Json::exception& e) {
    r.fail(fmt::format("the header is not what it should be: {}", e.what()));
  }
  return tensors;
}

std::string write_safetensors(const NamedTensors& tensors) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const auto& [name, t] : tensors) {
    if (name.empty()) throw UserError("write_safetensors: a tensor has no name, and such a file holds none without");
    if (header.contains(name)) raise<UserError>("write_safetensors: two tensors are called '{}'", name);
    const uint64_t end = offset + static_cast<uint64_t>(t.nbytes());
    header[name] = {{"dtype", name_of(t.dtype())},
                    {"shape", std::vector<int64_t>(t.shape().begin(), t.shape().end())},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = json_text(header);
  } catch (const Json::exception& e) {
    raise<UserError>("write_safetensors: a name is not UTF-8 text: {}", e.what());
  }
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data starts aligned
  io::Writer w;
  w.number(static_cast<uint64_t>(text.size()));
  w.bytes(text);
  for (const auto& [name, t] : tensors) w.bytes({bytes_of(t), static_cast<size_t>(t.nbytes())});
  return w.take();
}

}  // namespace gluino
