// RecordIO: MXNet's packed files (.rec) with their index (.idx), and the header that image records carry.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gluino/data.h"
#include "gluino/image.h"

namespace gluino {
class AtomicFile;
}

namespace gluino::recordio {

// Reads records one after the other, or those that the index names. A child made by fork may go on reading.
class Reader {
 public:
  explicit Reader(const std::string& path);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader();
  std::optional<std::string> read();  // nullopt at the end
  std::string read_at(int64_t offset);
  int64_t tell() const { return position_; }
  void seek(int64_t offset) { position_ = offset; }
  void reset() { position_ = 0; }

 private:
  std::string read_bytes(int64_t count);
  std::string path_;
  int file_ = -1;
  int64_t position_ = 0, size_ = 0;
};

// Writes to temporary names. close() gives the files their names, and so does the destructor, unless an exception is on its way: then, and
// when the process is killed, the old files stay. With an index path also writes that.
class Writer {
 public:
  explicit Writer(std::string path, std::string index_path = "");
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer();
  void write(std::string_view record, std::optional<int64_t> key = {});  // key: counts up when absent
  // The two parts of write(): gives the place of the record, which the index does not know yet.
  int64_t append(std::string_view record);
  void add_to_index(std::string_view key, int64_t offset);
  int64_t tell() const { return position_; }
  void close();
  void abandon();  // instead of close(): the old files stay

 private:
  std::string path_, index_path_, index_;
  std::unique_ptr<AtomicFile> file_;
  int exceptions_;  // that were on their way when it was made
  int64_t position_ = 0, next_key_ = 0;
};

using IndexEntries = std::vector<std::pair<int64_t, int64_t>>;  // key, offset
IndexEntries read_index(const std::string& path);
// The same with keys as they are written: those of other programs need not be numbers.
std::vector<std::pair<std::string, int64_t>> read_text_index(const std::string& path);

struct Header {
  std::vector<float> label;
  uint64_t id = 0, id2 = 0;
  bool is_list = false;  // one label is written as a list of one
};
std::string pack(const Header& header, std::string_view content);
std::pair<Header, std::string> unpack(std::string_view record, const std::string& what = "record");
std::string pack_img(const Header& header, const Tensor& image, int quality = 95, const std::string& format = ".jpg");

// Images and labels of path.rec, found through path.idx, or by one pass over the file when there is none.
data::DatasetPtr image_record_dataset(const std::string& rec_path, image::Channels channels = image::Channels::colour);

}  // namespace gluino::recordio
