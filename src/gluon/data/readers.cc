// Files of numbers and images: CSV, IDX, CIFAR, folders of images.
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/format.h"
#include "gluino/data.h"
#include "gluino/vision.h"
#include "tensor/impl.h"

namespace fs = std::filesystem;

namespace gluino {

static std::string read_gzip(const std::string& path) {
  // gzopen also reads files that are not compressed.
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) raise<SystemError>("cannot open '{}'", path);
  std::string text;
  char block[1 << 16];
  for (int n; (n = gzread(file.get(), block, sizeof block)) != 0;) {
    if (n < 0) raise<SystemError>("'{}' is damaged: {}", path, gzerror(file.get(), &n));
    text.append(block, static_cast<size_t>(n));
  }
  return text;
}

Tensor data::load_csv(const std::string& path) {
  const std::string text = read_gzip(path);
  std::vector<float> values;
  int64_t rows = 0, columns = 0;
  const char *at = text.data(), *end = text.data() + text.size();
  while (at < end) {
    const size_t before = values.size();
    const auto skip_blanks = [&] {
      while (at < end && (*at == ' ' || *at == '\t')) ++at;
    };
    for (bool more = true; more;) {
      float v = 0;
      skip_blanks();
      const auto [after, error] = std::from_chars(at, end, v);
      if (error != std::errc())
        raise<SystemError>("{}, line {}: '{}' is not a number", path, rows + 1,
                           std::string_view(at, std::min<size_t>(10, static_cast<size_t>(end - at))));
      values.push_back(v);
      at = after;
      skip_blanks();
      more = at < end && *at == ',';
      if (more) ++at;
    }
    if (at < end && *at != '\r' && *at != '\n')
      raise<SystemError>("{}, line {}: '{}' is neither a comma nor the end of the line", path, rows + 1, *at);
    while (at < end && (*at == '\r' || *at == '\n')) ++at;
    const auto count = static_cast<int64_t>(values.size() - before);
    if (rows > 0 && count != columns) raise<SystemError>("{}, line {}: {} columns instead of {}", path, rows + 1, count, columns);
    columns = count;
    ++rows;
  }
  return from_vector(values, Shape{rows, columns});
}

namespace vision {
namespace {

// The file, or the same with .gz; otherwise an error that says what the folder must hold.
std::string find_file(const std::string& root, const std::string& name, const char* set, const std::vector<std::string>& needed) {
  for (const std::string& path : {root + "/" + name, root + "/" + name + ".gz"})
    if (fs::exists(path)) return path;
  raise<SystemError>("{}: '{}' has no '{}' (or .gz); download {} and put them there", set, root, name, fmt::join(needed, ", "));
}

data::DatasetPtr idx_pair(const std::string& root, bool train, const char* set) {
  const std::string part = train ? "train" : "t10k";
  const std::vector<std::string> files{"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
                                       "t10k-labels-idx1-ubyte.gz"};
  const Tensor images = read_idx(find_file(root, part + "-images-idx3-ubyte", set, files)),
               labels = read_idx(find_file(root, part + "-labels-idx1-ubyte", set, files));
  if (images.ndim() != 3 || labels.ndim() != 1 || images.extent(0) != labels.extent(0))
    raise<SystemError>("{}: '{}' holds images of shape {} and labels of shape {}", set, root, images.shape(), labels.shape());
  return data::array_dataset({images.reshape({0, 0, 0, 1}), labels.astype(DType::int32)});
}

// Records of `labels` label bytes and 3 x 32 x 32 bytes of pixels, channels first.
data::DatasetPtr cifar(const std::vector<std::string>& paths, int64_t labels, int64_t chosen_label) {
  const int64_t pixels = 3 * 32 * 32, record = labels + pixels;
  std::string bytes;
  for (const std::string& path : paths) {
    const std::string file = read_gzip(path);
    if (file.empty() || static_cast<int64_t>(file.size()) % record != 0)
      raise<SystemError>("'{}' has {} bytes, not a multiple of a record's {}", path, file.size(), record);
    bytes += file;
  }
  const int64_t count = static_cast<int64_t>(bytes.size()) / record;
  Tensor images = empty({count, 32, 32, 3}, {.dtype = DType::uint8});
  std::vector<int32_t> classes(count);
  uint8_t* out = images.mutable_data<uint8_t>();
  for (int64_t n = 0; n < count; ++n) {
    const auto* from = reinterpret_cast<const uint8_t*>(bytes.data()) + n * record;
    classes[n] = from[chosen_label];
    for (int64_t i = 0; i < 32 * 32; ++i)
      for (int64_t c = 0; c < 3; ++c) *out++ = from[labels + c * 32 * 32 + i];
  }
  return data::array_dataset({images, from_vector(classes)});
}

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

}  // namespace

// Two zero bytes, the element type, the number of axes, the extents as big-endian u32, the elements (big-endian).
Tensor read_idx(const std::string& path) {
  std::string bytes = read_gzip(path);
  auto fail = [&](const char* why) { raise<SystemError>("'{}' is not an IDX file: {}", path, why); };
  if (bytes.size() < 4 || bytes[0] != 0 || bytes[1] != 0) fail("it does not start with two zero bytes");
  DType dtype = DType::uint8;
  switch (static_cast<uint8_t>(bytes[2])) {
    case 0x08: break;
    case 0x09: dtype = DType::int8; break;
    case 0x0B:  // of 16 bits
    case 0x0C: dtype = DType::int32; break;
    case 0x0D: dtype = DType::float32; break;
    case 0x0E: dtype = DType::float64; break;
    default: fail("its element type is unknown");
  }
  const auto axes = static_cast<size_t>(static_cast<uint8_t>(bytes[3]));
  if (axes < 1 || axes > 8 || bytes.size() < 4 + 4 * axes) fail("its header is cut off");
  const bool is_short = bytes[2] == 0x0B;
  const size_t width = is_short ? sizeof(int16_t) : static_cast<size_t>(dtype_bytes(dtype));
  const size_t available = (bytes.size() - 4 - 4 * axes) / width;
  Shape shape;
  size_t elements = 1;
  for (size_t a = 0; a < axes; ++a) {
    uint32_t extent = 0;
    for (size_t b = 0; b < 4; ++b) extent = extent << 8 | static_cast<uint8_t>(bytes[4 + 4 * a + b]);
    if (extent != 0 && elements > available / extent) fail("it is shorter than its header says");
    elements *= extent;
    shape.push_back(extent);
  }
  if (bytes.size() != 4 + 4 * axes + elements * width) fail("it is longer than its header says");
  char* from = bytes.data() + 4 + 4 * axes;
  for (size_t i = 0; width > 1 && i < elements; ++i) std::reverse(from + i * width, from + (i + 1) * width);
  Tensor out = empty(shape, {.dtype = dtype});
  if (is_short) {
    std::copy_n(reinterpret_cast<const int16_t*>(from), elements, reinterpret_cast<int32_t*>(bytes_of(out)));
  } else {
    std::memcpy(bytes_of(out), from, elements * width);
  }
  return out;
}

data::DatasetPtr mnist(const std::string& root, bool train) { return idx_pair(root, train, "MNIST"); }
data::DatasetPtr fashion_mnist(const std::string& root, bool train) { return idx_pair(root, train, "Fashion-MNIST"); }

data::DatasetPtr cifar10(const std::string& root, bool train) {
  const std::vector<std::string> files{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                       "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
  std::vector<std::string> paths;
  for (size_t i = train ? 0 : 5; i < (train ? 5u : 6u); ++i) paths.push_back(find_file(root, files[i], "CIFAR-10", files));
  return cifar(paths, 1, 0);
}
data::DatasetPtr cifar100(const std::string& root, bool train, bool fine_label) {
  return cifar({find_file(root, train ? "train.bin" : "test.bin", "CIFAR-100", {"train.bin", "test.bin"})}, 2, fine_label ? 1 : 0);
}

ImageFolderDataset::ImageFolderDataset(const std::string& root, image::Channels channels) : channels_(channels) {
  if (!fs::is_directory(root)) raise<SystemError>("image folder: '{}' is not a folder; it must hold one folder of images per class", root);
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_directory()) synsets_.push_back(entry.path().filename().string());
  std::sort(synsets_.begin(), synsets_.end());
  for (size_t c = 0; c < synsets_.size(); ++c) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(fs::path(root) / synsets_[c]))
      if (entry.is_regular_file() && is_image(entry.path())) files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    for (std::string& f : files) items_.emplace_back(std::move(f), static_cast<int>(c));
  }
  if (items_.empty()) raise<SystemError>("image folder: there is no .jpg, .jpeg or .png in the folders of '{}'", root);
}
Tensors ImageFolderDataset::get(int64_t index) const {
  if (index < 0 || index >= size()) raise<IndexError>("image folder: image {} of {} was asked for", index, size());
  const auto& [path, label] = items_[index];
  return {image::imread(path, channels_), full({}, label, {.dtype = DType::int32})};
}

}  // namespace vision
}  // namespace gluino
