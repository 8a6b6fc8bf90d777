// NumPy's .npy, and .npz: a zip of .npy files.
#include <charconv>

#include "gluino/io.h"
#include "gluino/op.h"
#include "io/bytes.h"
#include "io/dtype_codes.h"
#include "io/zip.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

using io::Reader;

// The text after 'key': in the header's dictionary.
std::string_view header_value(const Reader& r, std::string_view header, std::string_view key) {
  const std::string quoted = fmt::format("'{}'", key);
  size_t at = header.find(quoted);
  if (at == std::string_view::npos) r.fail(fmt::format("the header has no {}", quoted));
  at = header.find(':', at + quoted.size());
  if (at == std::string_view::npos) r.fail(fmt::format("the header has no value for {}", quoted));
  header.remove_prefix(at + 1);
  while (!header.empty() && header.front() == ' ') header.remove_prefix(1);
  return header;
}

Shape header_shape(const Reader& r, std::string_view text) {
  const size_t close = text.find(')');
  if (text.empty() || text.front() != '(' || close == std::string_view::npos) r.fail("the header's shape is not a tuple");
  text = text.substr(1, close - 1);
  Shape shape;
  while (!text.empty()) {
    while (!text.empty() && (text.front() == ' ' || text.front() == ',')) text.remove_prefix(1);
    if (text.empty()) break;
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0 || shape.ndim() == Shape::kMaxAxes) r.fail("the header's shape is not a tuple of extents");
    shape.push_back(extent);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return shape;
}

}  // namespace

Tensor read_npy(std::string_view bytes, const std::string& what) {
  Reader r(bytes, what);
  if (r.take(6, "the magic number") != std::string_view("\x93NUMPY", 6)) r.fail("this is not an .npy file");
  const int major = r.number<uint8_t>("the version");
  r.number<uint8_t>("the version");
  if (major < 1 || major > 3) r.fail(fmt::format("version {} of .npy is not known", major));
  const uint32_t length = major == 1 ? r.number<uint16_t>("the header's length") : r.number<uint32_t>("the header's length");
  const std::string_view header = r.take(length, "the header");
  std::string_view descr = header_value(r, header, "descr");
  if (descr.size() < 4 || (descr[0] != '\'' && descr[0] != '"')) r.fail("the header's descr is not a simple dtype");
  const size_t close = descr.find(descr[0], 1);
  if (close == std::string_view::npos || close < 3) r.fail("the header's descr is not a simple dtype");
  descr = descr.substr(1, close - 1);
  const char order = descr[0];
  const io::FileDType* type = io::file_dtype(descr.substr(1));
  if (order == '>' && type && type->bytes > 1) r.fail("big-endian arrays are not supported");
  if (!type) r.fail(fmt::format("dtype '{}' is not supported", descr));
  const bool fortran = header_value(r, header, "fortran_order").starts_with("True");
  Shape shape = header_shape(r, header_value(r, header, "shape"));
  uint64_t size = static_cast<uint64_t>(type->bytes);
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(size, static_cast<uint64_t>(extent), &size)) r.fail(fmt::format("shape {} is absurd", shape));
  const std::string_view data = r.take(size, "the data");
  if (!fortran || shape.ndim() < 2) return io::tensor_from_file(*type, shape, data);
  std::reverse(shape.begin(), shape.end());
  return io::tensor_from_file(*type, shape, data).transpose();
}

std::string write_npy(const Tensor& tensor) {
  if (tensor.dtype() == DType::bfloat16) throw DTypeError("write_npy: NumPy has no bfloat16; call astype(float32) first");
  const io::FileDType& type = io::file_dtype(tensor.dtype());
  std::string header =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}", type.bytes == 1 ? '|' : '<', type.npy, tensor.shape());
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  io::Writer w;
  w.bytes(std::string_view("\x93NUMPY\x01\x00", 8));
  w.number(static_cast<uint16_t>(header.size()));
  w.bytes(header);
  w.bytes({bytes_of(tensor), static_cast<size_t>(tensor.nbytes())});
  return w.take();
}

NamedTensors read_npz(std::string_view bytes, const std::string& what) {
  NamedTensors tensors;
  for (const auto& [name, content] : io::read_zip(bytes, what)) {
    Tensor t = read_npy(content, fmt::format("{}, entry '{}'", what, name));
    tensors.emplace_back(name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name, std::move(t));
  }
  return tensors;
}

std::string write_npz(const NamedTensors& tensors) {
  io::ZipEntries entries;
  for (size_t i = 0; i < tensors.size(); ++i)
    entries.emplace_back((tensors[i].first.empty() ? fmt::format("arr_{}", i) : tensors[i].first) + ".npy", write_npy(tensors[i].second));
  return io::write_zip(entries);
}

}  // namespace gluino
