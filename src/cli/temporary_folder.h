// A folder that is gone when the object is.
#pragma once
#include <filesystem>
#include <string>

namespace gluino::cli {

class TemporaryFolder {
 public:
  TemporaryFolder();  // raises SystemError
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& file) const { return (folder_ / file).string(); }

 private:
  std::filesystem::path folder_;
};

}  // namespace gluino::cli
