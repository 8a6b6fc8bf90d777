// What commands print: JSON for programs, tables for people.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace gluino::cli {

using Json = nlohmann::ordered_json;

void print_json(const Json& report);

// Columns as wide as their widest cell, two blanks between them; those in `right` (letters r, l by column) are set to the right.
using Rows = std::vector<std::vector<std::string>>;
std::string table(const Rows& rows, const std::string& alignment, const std::string& indent = "  ");

std::string amount(double count);       // "4.1 G"
std::string bytes_text(int64_t bytes);  // "12.5 MB"
std::string with_commas(int64_t count);

}  // namespace gluino::cli
