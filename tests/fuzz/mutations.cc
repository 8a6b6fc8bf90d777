#include "fuzz/mutations.h"

#include <cstdint>
#include <cstring>
#include <iterator>

namespace gluino::fuzz {
namespace {

using Random = std::mt19937_64;

size_t pick(Random& random, size_t n) { return n ? random() % n : 0; }

// One small damage; several in a row make an input.
void mutate(std::string& bytes, const std::string& other, Random& random) {
  static const uint64_t numbers[] = {
      0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, uint64_t{1} << 33, 0x7fffffffffffffff, ~uint64_t{0}};
  static const char* words[] = {
      "-1",   "0",   "99999999999999999999", "(", ")", "[", "]", "{", "}", "\"", "\\", "None", "True", "nan", "1e999", "#2", "?", ",", ":",
      "\xff", "null"};
  const size_t at = pick(random, bytes.size() + 1), length = pick(random, std::min<size_t>(bytes.size() - at, 32) + 1);
  switch (pick(random, 8)) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << pick(random, 8)));
      break;
    case 1:
      if (at < bytes.size()) bytes[at] = static_cast<char>(random());
      break;
    case 2: bytes.resize(at); break;
    case 3: bytes.erase(at, length); break;
    case 4: bytes.insert(at, bytes.substr(at, length)); break;
    case 5: {
      const uint64_t number = numbers[pick(random, std::size(numbers))];
      const size_t width = size_t{1} << pick(random, 4);
      if (at < bytes.size()) std::memcpy(bytes.data() + at, &number, std::min(width, bytes.size() - at));
      break;
    }
    case 6: bytes.insert(at, words[pick(random, std::size(words))]); break;
    default: {
      const size_t from = pick(random, other.size() + 1);
      bytes.replace(at, length, other.substr(from, pick(random, 64)));
    }
  }
}

}  // namespace

std::string mutated(const std::vector<std::string>& seeds, std::mt19937_64& random) {
  std::string bytes = seeds[pick(random, seeds.size())];
  for (size_t n = 1 + pick(random, 4); n > 0; --n) mutate(bytes, seeds[pick(random, seeds.size())], random);
  return bytes;
}

}  // namespace gluino::fuzz
