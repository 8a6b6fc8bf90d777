// A file that appears whole, under its name, or not at all. It is written under a temporary name beside it; what was there before stays
// until the new content is complete and on the disk.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace gluino {

class AtomicFile {
 public:
  // lasting: it is on the disk when commit() returns. passing: its readers can tell whether a power cut has left all of it.
  enum class Durability { lasting, passing };

  // Raises SystemError, as all of its functions do. `permissions`, less those that the process's umask takes away, are those
  // of a new file; an old one keeps its own. A symbolic link is replaced by the file; a device or a pipe is written to directly.
  explicit AtomicFile(std::string path, Durability durability = Durability::lasting, unsigned permissions = 0666);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  // without commit() nothing has happened; nor does a child made by fork change anything

  void write(std::string_view bytes);  // after one that failed there is no commit
  void finish();                       // whatever a full disk could prevent is done after it; commit() calls it
  void commit();
  // Files that belong together, in this order: all are complete before the first one gets its name, and get their names one right after
  // the other.
  static void commit_together(const std::vector<AtomicFile*>& files);

 private:
  void open_temporary(unsigned permissions);
  void write_through(std::string_view bytes);
  void check_process() const;
  void give_name();
  void sync_folder();
  void abandon();
  [[noreturn]] void fail();

  std::string path_, temporary_;  // the latter empty: the file is written directly, or has its name
  std::string waiting_;           // small pieces are written together
  Durability durability_;
  int process_, file_ = -1;
  bool is_finished_ = false;
};

struct FileContent {
  std::string path;
  std::string_view bytes;
};
// AtomicFile::commit_together of these; of several, those that have their content already are left alone.
void write_files(const std::vector<FileContent>& files);

}  // namespace gluino
