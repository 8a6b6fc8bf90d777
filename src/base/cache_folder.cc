#include "base/cache_folder.h"

#include "base/env.h"

namespace gluino {

std::string cache_folder() {
  if (const auto own = env_text("GLUINO_CACHE")) return *own;
  if (const auto xdg = env_text("XDG_CACHE_HOME")) return *xdg + "/gluino";
  if (const auto home = env_text("HOME")) return *home + "/.cache/gluino";
  return "";
}

}  // namespace gluino
