// Whole files in and out.
#pragma once
#include <string>
#include <string_view>

namespace gluino {

std::string read_file(const std::string& path);                    // raises SystemError
void write_file(const std::string& path, std::string_view bytes);  // an AtomicFile

}  // namespace gluino
