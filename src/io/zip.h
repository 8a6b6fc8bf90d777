// Zip archives in memory: .npz and gluino's one-file models.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gluino::io {

using ZipEntries = std::vector<std::pair<std::string, std::string>>;   // (name, content)
ZipEntries read_zip(std::string_view bytes, const std::string& what);  // raises SystemError on damage
std::string write_zip(const ZipEntries& entries);                      // stored, not compressed

}  // namespace gluino::io
