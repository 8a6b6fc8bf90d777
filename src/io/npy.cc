// NumPy's .npy, and .npz: a zip of .npy files.
#include <zip.h>

#include <charconv>
#include <memory>

#include "gluino/io.h"
#include "gluino/op.h"
#include "io/bytes.h"
#include "io/dtype_codes.h"
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

struct ZipCloser {
  void operator()(zip_t* z) const { zip_discard(z); }
};
struct ZipFileCloser {
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};

std::string read_entry(zip_t* archive, zip_uint64_t index, const std::string& what) {
  zip_stat_t stat;
  if (zip_stat_index(archive, index, 0, &stat) != 0 || !(stat.valid & ZIP_STAT_SIZE) || !(stat.valid & ZIP_STAT_COMP_SIZE))
    raise<SystemError>("{}: entry {} of the zip has no size", what, index);
  // Deflate shrinks at most 1032 times: a larger claim is a lie that would only cost memory.
  if (stat.size > stat.comp_size * 1032 + 1024) raise<SystemError>("{}: entry '{}' claims {} bytes from {} packed ones", what, stat.name, stat.size, stat.comp_size);
  std::unique_ptr<zip_file_t, ZipFileCloser> f(zip_fopen_index(archive, index, 0));
  if (!f) raise<SystemError>("{}: entry '{}' cannot be opened: {}", what, stat.name, zip_strerror(archive));
  std::string bytes(stat.size, '\0');
  zip_int64_t done = 0;
  while (done < static_cast<zip_int64_t>(stat.size)) {
    const zip_int64_t n = zip_fread(f.get(), bytes.data() + done, stat.size - static_cast<zip_uint64_t>(done));
    if (n <= 0) raise<SystemError>("{}: entry '{}' is damaged", what, stat.name);
    done += n;
  }
  return bytes;
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
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}", type.bytes == 1 ? '|' : '<', type.npy, tensor.shape());
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
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  std::unique_ptr<zip_t, ZipCloser> archive(source ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr);
  if (!archive) {
    const std::string reason = zip_error_strerror(&error);
    if (source) zip_source_free(source);
    zip_error_fini(&error);
    raise<SystemError>("{}: not a readable zip: {}", what, reason);
  }
  NamedTensors tensors;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* raw_name = zip_get_name(archive.get(), static_cast<zip_uint64_t>(i), 0);
    if (!raw_name) raise<SystemError>("{}: entry {} of the zip has no name", what, i);
    std::string name = raw_name;
    if (name.ends_with('/')) continue;
    const std::string content = read_entry(archive.get(), static_cast<zip_uint64_t>(i), what);
    Tensor t = read_npy(content, fmt::format("{}, entry '{}'", what, name));
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    tensors.emplace_back(std::move(name), std::move(t));
  }
  return tensors;
}

std::string write_npz(const NamedTensors& tensors) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* target = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(target);
  zip_t* archive = zip_open_from_source(target, ZIP_TRUNCATE, &error);
  if (!archive) raise<SystemError>("write_npz: {}", zip_error_strerror(&error));
  std::vector<std::string> contents;  // must live until the archive is closed
  contents.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    contents.push_back(write_npy(tensors[i].second));
    const std::string name = (tensors[i].first.empty() ? fmt::format("arr_{}", i) : tensors[i].first) + ".npy";
    zip_source_t* s = zip_source_buffer(archive, contents.back().data(), contents.back().size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), s, ZIP_FL_OVERWRITE | ZIP_FL_ENC_UTF_8);
    if (index < 0) raise<SystemError>("write_npz: {}", zip_strerror(archive));
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  if (zip_close(archive) != 0) raise<SystemError>("write_npz: {}", zip_strerror(archive));
  zip_source_open(target);
  zip_source_seek(target, 0, SEEK_END);
  const zip_int64_t size = zip_source_tell(target);
  zip_source_seek(target, 0, SEEK_SET);
  std::string bytes(static_cast<size_t>(size), '\0');
  const zip_int64_t got = zip_source_read(target, bytes.data(), static_cast<zip_uint64_t>(size));
  zip_source_close(target);
  zip_source_free(target);
  if (got != size) throw SystemError("write_npz: the zip could not be read back");
  return bytes;
}

}  // namespace gluino
