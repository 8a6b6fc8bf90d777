#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace gluino::cli {

void print_json(const Json& report) { fmt::print("{}\n", json_text(report, 2, WrongText::is_replaced)); }

// Characters, not bytes, of a UTF-8 text.
static size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string table(const Rows& rows, const std::string& alignment, const std::string& indent) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = indent;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      const bool right = i < alignment.size() && alignment[i] == 'r';
      line += (i ? "  " : "") + (right ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

static std::string scaled(double value, double step, const std::vector<const char*>& units) {
  size_t unit = 0;
  while (std::abs(value) >= step && unit + 1 < units.size()) value /= step, ++unit;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : value < 10 ? 2 : 1, units[unit]);
}

std::string amount(double count) {
  std::string text = scaled(count, 1000, {"", "k", "M", "G", "T", "P"});
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}
std::string bytes_text(int64_t bytes) { return scaled(static_cast<double>(bytes), 1000, {"bytes", "kB", "MB", "GB", "TB"}); }

std::string with_commas(int64_t count) {
  std::string digits = std::to_string(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3) digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

}  // namespace gluino::cli
