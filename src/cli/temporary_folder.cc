#include "cli/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/format.h"

namespace gluino::cli {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "gluino-XXXXXX").string();
  if (!mkdtemp(name.data())) raise<SystemError>("cannot make the folder '{}': {}", name, std::strerror(errno));
  folder_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace gluino::cli
