#include "gluino/data.h"

#include <zlib.h>

#include <charconv>
#include <memory>

#include "base/format.h"

namespace gluino::data {

static std::string read_gzip(const std::string& path) {
  // gzopen also reads files that are not compressed.
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) raise<SystemError>("cannot open '{}'", path);
  std::string text;
  char block[1 << 16];
  for (int n; (n = gzread(file.get(), block, sizeof block)) != 0;) {
    if (n < 0) raise<SystemError>("'{}' is damaged: {}", path, gzerror(file.get(), &n));
    text.append(block, static_cast<size_t>(n));
  }
  return text;
}

Tensor load_csv(const std::string& path) {
  const std::string text = read_gzip(path);
  std::vector<float> values;
  int64_t rows = 0, columns = 0;
  const char *at = text.data(), *end = text.data() + text.size();
  while (at < end) {
    const size_t before = values.size();
    for (bool more = true; more;) {
      float v = 0;
      const auto [after, error] = std::from_chars(at, end, v);
      if (error != std::errc())
        raise<SystemError>("{}, line {}: '{}' is not a number", path, rows + 1,
                           std::string_view(at, std::min<size_t>(10, static_cast<size_t>(end - at))));
      values.push_back(v);
      at = after;
      more = at < end && *at == ',';
      if (more) ++at;
    }
    while (at < end && (*at == '\r' || *at == '\n')) ++at;
    const auto count = static_cast<int64_t>(values.size() - before);
    if (rows > 0 && count != columns) raise<SystemError>("{}, line {}: {} columns instead of {}", path, rows + 1, count, columns);
    columns = count;
    ++rows;
  }
  return from_vector(values, Shape{rows, columns});
}

}  // namespace gluino::data
