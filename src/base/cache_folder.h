// Where processes leave for the next ones what took them long to make.
#pragma once
#include <string>

namespace gluino {

// $GLUINO_CACHE, else $XDG_CACHE_HOME/gluino, else ~/.cache/gluino; empty: nothing is to be kept.
std::string cache_folder();

}  // namespace gluino
