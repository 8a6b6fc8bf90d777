// What lies beside this library wherever that is: in the build tree, installed, or in the Python package.
#pragma once
#include <string>

namespace gluino {

// The folder of the file that this code was loaded from.
std::string library_folder();
// Opens a library in that folder; null, and dlerror() says why. `is_global`: what is loaded later finds its symbols.
void* open_companion(const char* file, bool is_global = false);

}  // namespace gluino
