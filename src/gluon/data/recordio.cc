// A record: magic, (3 bits which part of a record, 29 bits length), bytes, padding to 4. A record that holds the magic at an
// aligned place is split there; readers put the magic back.
#include "gluino/recordio.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <sstream>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/format.h"

namespace gluino::recordio {
namespace {

constexpr uint32_t kMagic = 0xced7230a;
constexpr uint32_t kLongest = (1u << 29) - 1;
enum Part : uint32_t { whole = 0, first = 1, middle = 2, last = 3 };

std::string word(uint32_t v) { return std::string(reinterpret_cast<const char*>(&v), 4); }
uint32_t word_at(std::string_view bytes, size_t at) {
  uint32_t v;
  std::memcpy(&v, bytes.data() + at, 4);
  return v;
}

}  // namespace

Reader::Reader(const std::string& path) : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat info {};
  if (file_ < 0 || fstat(file_, &info) != 0) raise<SystemError>("cannot open '{}': {}", path, std::strerror(errno));
  size_ = info.st_size;
}
Reader::~Reader() { ::close(file_); }
// Never more than the file has: a damaged length takes no memory.
std::string Reader::read_bytes(int64_t count) {
  if (position_ < 0 || count > size_ - position_)
    raise<SystemError>("'{}' is cut off: a record at {} ends beyond the file's {} bytes", path_, position_, size_);
  std::string bytes(count, '\0');
  for (int64_t at = 0; at < count;) {
    const ssize_t n = pread(file_, bytes.data() + at, static_cast<size_t>(count - at), position_ + at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) raise<SystemError>("cannot read '{}': {}", path_, std::strerror(errno));
    if (n == 0) raise<SystemError>("'{}' has become shorter than the {} bytes it had", path_, size_);
    at += n;
  }
  position_ += count;
  return bytes;
}
std::optional<std::string> Reader::read() {
  if (position_ == size_) return std::nullopt;
  std::string record;
  for (bool more = true, begun = false; more;) {
    const std::string head = read_bytes(8);
    if (word_at(head, 0) != kMagic) raise<SystemError>("'{}' is damaged or no RecordIO file: no record starts at {}", path_, position_ - 8);
    const uint32_t part = word_at(head, 4) >> 29, length = word_at(head, 4) & kLongest;
    if (begun != (part == middle || part == last))
      raise<SystemError>("'{}' is damaged: parts of a record are missing at {}", path_, position_ - 8);
    if (begun) record += word(kMagic);
    record += read_bytes(length);
    position_ = std::min(size_, position_ + (4 - length % 4) % 4);
    begun = true;
    more = part == first || part == middle;
  }
  return record;
}
std::string Reader::read_at(int64_t offset) {
  position_ = offset;
  if (offset < 0 || offset >= size_) raise<SystemError>("'{}': the index names offset {}, but the file has {} bytes", path_, offset, size_);
  return *read();
}

Writer::Writer(std::string path, std::string index_path)
    : path_(std::move(path)),
      index_path_(std::move(index_path)),
      file_(std::make_unique<AtomicFile>(path_)),
      exceptions_(std::uncaught_exceptions()) {}
Writer::~Writer() {
  if (std::uncaught_exceptions() > exceptions_) return;
  try {
    close();
  } catch (const Error&) {  // a destructor must not throw; close() tells those who ask
  }
}
void Writer::write(std::string_view record, std::optional<int64_t> key) {
  const int64_t place = append(record);
  next_key_ = key.value_or(next_key_);
  add_to_index(std::to_string(next_key_++), place);
}
void Writer::add_to_index(std::string_view key, int64_t offset) {
  if (key.empty() || key.find_first_of("\t\n\r") != std::string_view::npos)
    raise<UserError>("'{}' cannot be a key of '{}': it is empty, or has a tab or the end of a line in it", key, index_path_);
  index_ += fmt::format("{}\t{}\n", key, offset);
}
int64_t Writer::append(std::string_view record) {
  if (!file_) raise<UserError>("'{}' is closed: it takes no more records", path_);
  if (record.size() > kLongest) raise<UserError>("a record of {} bytes is too long: at most {}", record.size(), kLongest);
  const int64_t place = position_;
  // Where the magic stands in the record itself.
  std::vector<size_t> cuts;
  for (size_t at = 0; at + 4 <= record.size(); at += 4)
    if (std::memcmp(record.data() + at, &kMagic, 4) == 0) cuts.push_back(at);
  size_t begin = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const size_t end = i < cuts.size() ? cuts[i] : record.size();
    const uint32_t part = cuts.empty() ? whole : i == 0 ? first : i == cuts.size() ? last : middle;
    const auto length = static_cast<uint32_t>(end - begin);
    std::string bytes = word(kMagic) + word(part << 29 | length) + std::string(record.substr(begin, length));
    bytes.resize((bytes.size() + 3) / 4 * 4);
    file_->write(bytes);
    position_ += static_cast<int64_t>(bytes.size());
    begin = end + 4;
  }
  return place;
}
void Writer::abandon() { file_.reset(); }
void Writer::close() {
  const std::unique_ptr<AtomicFile> records = std::move(file_);
  if (!records) return;
  records->finish();
  if (index_path_.empty()) return records->commit();
  AtomicFile index(index_path_);
  index.write(index_);
  index.finish();
  // Both are complete. A kill from here on may leave records without an index, which can be made again, but never the wrong index.
  ::unlink(index_path_.c_str());
  AtomicFile::commit_together({records.get(), &index});
}

std::vector<std::pair<std::string, int64_t>> read_text_index(const std::string& path) {
  std::vector<std::pair<std::string, int64_t>> entries;
  std::istringstream text(read_file(path));
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    const auto end = line.find_last_not_of(" \t\r") + 1;
    if (end == 0) continue;
    const auto blank = line.find_last_of("\t ", end - 1);
    int64_t offset = 0;
    const char* last = line.data() + end;
    if (blank == std::string::npos || std::from_chars(line.data() + blank + 1, last, offset).ptr != last)
      raise<SystemError>("'{}', line {}: '{}' is not a key and an offset", path, number, line.substr(0, 40));
    entries.emplace_back(line.substr(0, line.find_last_not_of("\t ", blank) + 1), offset);
  }
  return entries;
}
IndexEntries read_index(const std::string& path) {
  IndexEntries entries;
  for (const auto& [text, offset] : read_text_index(path)) {
    int64_t key = 0;
    const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), key);
    if (error != std::errc() || after != text.data() + text.size()) raise<SystemError>("'{}': the key '{}' is no number", path, text);
    entries.emplace_back(key, offset);
  }
  return entries;
}

// ---- image records: u32 flag, f32 label, u64 id, u64 id2; a flag above 0 counts the labels that follow

std::string pack(const Header& h, std::string_view content) {
  const bool is_single = h.label.size() == 1 && !h.is_list;
  const float label = is_single ? h.label[0] : 0;
  std::string bytes = word(is_single ? 0 : static_cast<uint32_t>(h.label.size()));
  bytes.append(reinterpret_cast<const char*>(&label), 4)
      .append(reinterpret_cast<const char*>(&h.id), 8)
      .append(reinterpret_cast<const char*>(&h.id2), 8);
  if (!is_single) bytes.append(reinterpret_cast<const char*>(h.label.data()), h.label.size() * 4);
  return bytes.append(content);
}
std::pair<Header, std::string> unpack(std::string_view record, const std::string& what) {
  if (record.size() < 24) raise<SystemError>("{}: {} bytes are too few for the header of a record", what, record.size());
  const size_t count = word_at(record, 0);
  if (count > (record.size() - 24) / 4) raise<SystemError>("{}: the header announces {} labels, more than the record holds", what, count);
  Header h;
  h.label.resize(std::max<size_t>(count, 1));
  std::memcpy(&h.id, record.data() + 8, 8);
  std::memcpy(&h.id2, record.data() + 16, 8);
  std::memcpy(h.label.data(), record.data() + (count > 0 ? 24 : 4), h.label.size() * 4);
  h.is_list = count > 0;
  return {h, std::string(record.substr(24 + count * 4))};
}
std::string pack_img(const Header& header, const Tensor& image, int quality, const std::string& format) {
  return pack(header, image::imencode(image, format, quality));
}

namespace {

class ImageRecordDataset final : public data::Dataset {
 public:
  ImageRecordDataset(const std::string& path, image::Channels channels) : path_(path), channels_(channels), reader_(path) {
    const std::string index = std::filesystem::path(path).replace_extension(".idx").string();
    if (std::filesystem::exists(index)) {
      for (const auto& [key, offset] : read_index(index)) offsets_.push_back(offset);
      return;
    }
    for (int64_t at = 0; reader_.read(); at = reader_.tell()) offsets_.push_back(at);
  }
  int64_t size() const override { return static_cast<int64_t>(offsets_.size()); }
  Tensors get(int64_t i) const override {
    if (i < 0 || i >= size()) raise<IndexError>("'{}': record {} of {} was asked for", path_, i, size());
    std::string record;
    {
      const std::lock_guard lock(mutex_);
      record = reader_.read_at(offsets_[i]);
    }
    const auto [header, content] = unpack(record, fmt::format("'{}', record {}", path_, i));
    const Shape shape = header.label.size() == 1 ? Shape{} : Shape{static_cast<int64_t>(header.label.size())};
    return {image::imdecode(content, channels_, fmt::format("'{}', record {}", path_, i)), from_vector(header.label, shape)};
  }

 private:
  std::string path_;
  image::Channels channels_;
  mutable std::mutex mutex_;
  mutable Reader reader_;
  std::vector<int64_t> offsets_;
};

}  // namespace

data::DatasetPtr image_record_dataset(const std::string& rec_path, image::Channels channels) {
  return std::make_shared<ImageRecordDataset>(rec_path, channels);
}

}  // namespace gluino::recordio
