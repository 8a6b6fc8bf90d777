// Runs a fuzz target without libFuzzer: mutates its seeds with a fixed random sequence. "fuzz_x COUNT" makes COUNT inputs;
// "fuzz_x FILE..." runs the given files, as libFuzzer's programs do. An input that fails is left in crash-<target>.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "fuzz/mutations.h"
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
namespace gluino::fuzz {
const Target& fuzz_target();
}

namespace {

void run_one(const std::string& bytes) {
  // Written before, so that it is there when the process dies.
  static const std::string path = std::string("crash-") + gluino::fuzz::fuzz_target().name;
  std::ofstream(path, std::ios::binary) << bytes;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  std::remove(path.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  char* end = nullptr;
  const long count = argc > 1 ? std::strtol(argv[1], &end, 10) : 10000;
  if (end && *end) {
    for (int i = 1; i < argc; ++i) {
      std::ifstream file(argv[i], std::ios::binary);
      run_one(std::string(std::istreambuf_iterator<char>(file), {}));
    }
    return 0;
  }
  const std::vector<std::string> seeds = gluino::fuzz::fuzz_target().seeds();
  std::mt19937_64 random(20240601);
  for (long i = 0; i < count; ++i) {
    run_one(gluino::fuzz::mutated(seeds, random));
  }
  std::printf("%s: %ld inputs\n", gluino::fuzz::fuzz_target().name, count);
  return 0;
}
