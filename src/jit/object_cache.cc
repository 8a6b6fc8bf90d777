#include "jit/object_cache.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace gluino::jit {
namespace {

uint64_t hash(std::string_view text, uint64_t seed) {  // FNV-1a
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return seed;
}
constexpr uint64_t kSeed = 0xcbf29ce484222325ull;

// First line of a file: sizes and checksum of what follows, which is the identity and the object.
std::string header_of(std::string_view identity, std::string_view object) {
  char text[96];
  std::snprintf(text, sizeof text, "gluino kernel %zu %zu %016llx\n", identity.size(), object.size(),
                static_cast<unsigned long long>(hash(object, hash(identity, kSeed))));
  return text;
}

}  // namespace

std::string ObjectCache::file_of(std::string_view identity) const {
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx.o", static_cast<unsigned long long>(hash(identity, kSeed)),
                static_cast<unsigned long long>(hash(identity, ~kSeed)));
  return folder_ + "/" + name;
}

std::optional<std::string> ObjectCache::find(std::string_view identity) const {
  std::ifstream file(file_of(identity), std::ios::binary);
  if (!file) return std::nullopt;
  std::string header;
  std::getline(file, header);
  std::ostringstream rest;
  rest << file.rdbuf();
  const std::string body = rest.str();
  if (body.compare(0, identity.size(), identity) != 0) return std::nullopt;
  std::string object = body.substr(identity.size());
  if (header + "\n" != header_of(identity, object)) return std::nullopt;
  return object;
}

void ObjectCache::put(std::string_view identity, std::string_view object) const {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::create_directories(folder_, ignored)) fs::permissions(folder_, fs::perms::owner_all, ignored);
  static std::atomic<int> number{0};
  const std::string target = file_of(identity);
  const std::string temporary = target + "." + std::to_string(getpid()) + "." + std::to_string(number++);
  {
    std::ofstream file(temporary, std::ios::binary);
    file << header_of(identity, object) << identity << object;
    file.close();
    if (!file) {
      fs::remove(temporary, ignored);
      return;
    }
  }
  fs::rename(temporary, target, ignored);
  if (ignored) fs::remove(temporary, ignored);
}

}  // namespace gluino::jit
