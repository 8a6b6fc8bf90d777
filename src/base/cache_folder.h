// Where processes leave for the next ones what took them long to make. What lies there is believed: machine code is run. So the folder
// and its files must belong to this user, and no one else may write to them. A folder that cannot be used, a file that is damaged or
// belongs to something else: as if there were none.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mapped_file.h"

namespace gluino {

// $GLUINO_CACHE, else $XDG_CACHE_HOME/gluino, else ~/.cache/gluino; empty: nothing is to be kept.
std::string cache_folder();

// One file per piece, named after a hash of its identity: everything it depends on.
class CacheFolder {
 public:
  CacheFolder(std::string path, std::string ending) : path_(std::move(path)), ending_(std::move(ending)) {}

  std::optional<std::string> find(std::string_view identity) const;
  // The same into memory of the caller's: `memory(bytes)` gives it, or null to refuse that many.
  bool find(std::string_view identity, const std::function<char*(size_t)>& memory) const;
  // The same as a mapping, for content of many bytes; also null where the system cannot keep the file as it is.
  std::shared_ptr<MappedFile> map(std::string_view identity, size_t bytes) const;
  // Safe with many processes: the file appears whole, under its name, or not at all.
  void put(std::string_view identity, std::string_view content) const;
  // Removes those files that were not found for the longest time until all together, and `bytes` more, take no more than `most_bytes`.
  void make_room(int64_t bytes, int64_t most_bytes) const;

 private:
  struct Piece;
  std::string name_of(std::string_view identity) const;
  Piece open_piece(std::string_view identity) const;
  std::string path_, ending_;
};

}  // namespace gluino
