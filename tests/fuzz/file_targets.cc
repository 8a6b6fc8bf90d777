// Readers that want a file: its bytes are put into one.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/cache_folder.h"
#include "base/file.h"
#include "fuzz/targets.h"
#include "gluino/autograd.h"
#include "gluino/block.h"
#include "gluino/io.h"
#include "gluino/nn.h"
#include "gluino/recordio.h"
#include "gluino/trainer.h"

namespace gluino::fuzz {
namespace {

namespace fs = std::filesystem;

// A folder for this process alone, in memory where that can be.
const std::string& folder() {
  static const auto* path = [] {
    auto* made = new std::string((fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string()) + "/gluino_fuzz_" +
                                 std::to_string(::getpid()));
    fs::create_directories(*made);
    fs::permissions(*made, fs::perms::owner_all);
    std::atexit([] { fs::remove_all(folder()); });
    return made;
  }();
  return *path;
}
std::string file_of(const std::string& bytes) {
  const std::string path = folder() + "/file";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}
std::string bytes_of_file(void (*write)(const std::string& path)) {
  const std::string path = folder() + "/written";
  write(path);
  return read_file(path);
}

// ---- a trainer's states

ParameterDict parameters() {
  ParameterDict all;
  for (const auto& [name, shape] : {std::pair{"weight", Shape{2, 3}}, {"bias", Shape{2}}}) {
    auto p = std::make_shared<Parameter>(name, ParameterOptions{.shape = shape});
    p->initialize(init::zero());
    all.add(name, p);
  }
  return all;
}
std::vector<std::string> states_seeds() {
  return {bytes_of_file([](const std::string& path) {
            const ParameterDict all = parameters();
            Trainer trainer(all, "adam");
            for (const auto& [name, p] : all) {
              const autograd::Scope scope = autograd::record();
              (p->data() * p->data()).sum().backward();
            }
            trainer.step(1);
            trainer.save_states(path);
          }),
          bytes_of_file([](const std::string& path) { Trainer(parameters(), "adam").save_states(path); })};
}
void read_states(const std::string& bytes) { Trainer(parameters(), "adam").load_states(file_of(bytes)); }

// ---- records of images

std::vector<std::string> records_seeds() {
  return {bytes_of_file([](const std::string& path) {
    const Tensor picture = zeros({4, 5, 3}, {.dtype = DType::uint8});
    recordio::Writer writer(path);
    writer.write(recordio::pack_img({{1}, 2, 3}, picture, 90, ".jpg"));
    writer.write(recordio::pack_img({{1, 2, 3}}, picture, 90, ".png"));
    writer.write(std::string("magic") + "\x0a\x23\xd7\xce\x0a\x23\xd7\xce and no image");
    writer.close();
  })};
}
void read_records(const std::string& bytes) {
  recordio::Reader reader(file_of(bytes));
  while (const auto record = reader.read()) {
    try {
      image::imdecode(recordio::unpack(*record).second);
    } catch (const SystemError&) {  // the next record may be whole
    }
  }
}

// ---- one-file models

std::vector<std::string> model_seeds() {
  return {bytes_of_file([](const std::string& path) {
    nn::HybridSequential net;
    net.add(nn::Dense(3, {.activation = "relu", .in_units = 2}), nn::BatchNorm({.in_channels = 3}));
    net.initialize();
    net.save(path);
  })};
}
void read_model(const std::string& bytes) { SymbolBlock::load(file_of(bytes)); }

// ---- the cache

constexpr const char *kIdentity = "what it was made from", *kContent = "machine code";
const CacheFolder& cache() {
  static const auto* made = new CacheFolder(folder() + "/cache", ".o");
  return *made;
}
std::string file_of_cache() {
  static const auto* path = [] {
    cache().put(kIdentity, kContent);
    return new std::string(fs::directory_iterator(folder() + "/cache")->path());
  }();
  return *path;
}
std::vector<std::string> cache_seeds() {
  file_of_cache();
  cache().put(kIdentity, kContent);
  return {read_file(file_of_cache())};
}
void read_cache(const std::string& bytes) {
  std::ofstream(file_of_cache(), std::ios::binary | std::ios::trunc) << bytes;
  const auto found = cache().find(kIdentity);
  if (!found) throw SystemError("it is as if there were none");
  if (*found != kContent) throw InternalError("the cache believed a damaged file");
}

}  // namespace

const Target kStates{"states", read_states, states_seeds};
const Target kRecords{"records", read_records, records_seeds};
const Target kModel{"model", read_model, model_seeds};
const Target kCache{"cache", read_cache, cache_seeds};

}  // namespace gluino::fuzz
