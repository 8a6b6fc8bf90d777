// Machine code kept on disk between processes: one file per kernel, named after a hash of what it was made from. A folder
// that cannot be written, a file that is damaged or belongs to something else: as if there were none.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace gluino::jit {

class ObjectCache {
 public:
  explicit ObjectCache(std::string folder) : folder_(std::move(folder)) {}
  std::optional<std::string> find(std::string_view identity) const;
  // Safe with many processes: the file appears whole, under its name, or not at all.
  void put(std::string_view identity, std::string_view object) const;

 private:
  std::string file_of(std::string_view identity) const;
  std::string folder_;
};

}  // namespace gluino::jit
