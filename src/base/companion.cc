#include "base/companion.h"

#include <dlfcn.h>

#include <filesystem>

namespace gluino {

std::string library_folder() {
  Dl_info here;
  if (!dladdr(reinterpret_cast<void*>(&library_folder), &here)) return ".";
  return std::filesystem::absolute(here.dli_fname).parent_path().string();
}

void* open_companion(const char* file, bool is_global) {
  return dlopen((library_folder() + "/" + file).c_str(), RTLD_NOW | (is_global ? RTLD_GLOBAL : RTLD_LOCAL));
}

}  // namespace gluino
