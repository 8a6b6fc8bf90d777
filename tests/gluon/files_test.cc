// Everything that writes files: killed at any moment, or on a full disk, it leaves the old file or the new one, whole.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/cache_folder.h"
#include "base/env.h"
#include "base/file.h"
#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace fs = std::filesystem;

// Of two networks: one has `value` more units than the other, and all its weights are `value`.
struct Net : nn::HybridSequential {
  explicit Net(int value) {
    add(nn::Dense(200 + value, {.weight_initializer = init::constant(value), .in_units = 30}));
    initialize();
    hybridize();
    const autograd::Scope scope = autograd::record();
    (*this)(ones({2, 30})).sum().backward();
  }
};

int only_value(const Tensor& t) {
  const std::vector<float> values = t.astype(DType::float32).to_vector<float>();
  if (values.empty() || std::any_of(values.begin(), values.end(), [&](float v) { return v != values[0]; })) throw SystemError("mixed");
  return static_cast<int>(values[0]);
}

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> strays() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      if (entry.path().filename().string().starts_with(".gluino-")) names.push_back(entry.path().filename());
    return names;
  }
  const std::string folder_ = ::testing::TempDir() + "gluino_files_" + std::to_string(::getpid());
};

// Each writes 1 or 2, and gives it back.
struct Writer {
  const char* name;
  std::function<void(int)> write;
  std::function<int()> read;
};

class Writers : public Files {
 protected:
  Net nets_[2]{Net(1), Net(2)};
  Trainer trainers_[2]{{nets_[0].collect_params(), "adam"}, {nets_[1].collect_params(), "adam"}};
  Writers() {
    for (Trainer& t : trainers_) t.step(1);
    for (int value : {1, 2})
      for (const auto& [name, p] : nets_[value - 1].collect_params())
        if (name.ends_with("weight")) p->set_data(full(p->shape(), value));
  }
  const Tensor& tensor(int value) const {
    static const Tensor tensors[] = {full({100, 200}, 1), full({100, 200}, 2)};
    return tensors[value - 1];
  }
  CacheFolder cache() const { return {path("cache"), ".value"}; }
  static constexpr int64_t kRecords = 40;

  const std::vector<Writer> all_{
      {"params",
       [this](int v) {
         save_tensors(path("a.params"), {{"x", tensor(v)}});
       },
       [this] { return only_value(load_tensors(path("a.params"))[0].second); }},
      {"npz",
       [this](int v) {
         save_tensors(path("a.npz"), {{"x", tensor(v)}});
       },
       [this] { return only_value(load_tensors(path("a.npz"))[0].second); }},
      {"npy",
       [this](int v) {
         save_tensors(path("a.npy"), {{"", tensor(v)}});
       },
       [this] { return only_value(load_tensors(path("a.npy"))[0].second); }},
      {"image",
       [this](int v) {
         image::imwrite(path("a.png"), full({60, 60, 3}, v, {.dtype = DType::uint8}));
       },
       [this] { return only_value(image::imread(path("a.png"))); }},
      {"symbol",
       [this](int v) {
         Symbol s = sym::var("x");
         for (int i = 0; i < 100; ++i) s = sym::apply("FullyConnected", {s}, {{"num_hidden", std::to_string(v)}});
         s.save(path("a.json"));
       },
       [this] {
         return static_cast<int>(Symbol::load(path("a.json")).infer_shape({{"x", Shape{1, 1}}}).outputs[0].value()[1]);
       }},
      {"states", [this](int v) { trainers_[v - 1].save_states(path("a.states")); },
       [this] {
         for (int v : {1, 2}) try {
             trainers_[v - 1].load_states(path("a.states"));
             return v;
           } catch (const UserError&) {  // of the other network
           }
         return 0;
       }},
      {"export", [this](int v) { nets_[v - 1].export_model(path("net")); },
       [this] { return value_of(*SymbolBlock::imports(path("net-symbol.json"), {"data"}, path("net-0000.params"))); }},
      {"model", [this](int v) { nets_[v - 1].save(path("net.model")); },
       [this] { return value_of(*SymbolBlock::load(path("net.model"))); }},
      {"records",
       [this](int v) {
         recordio::Writer writer(path("a.rec"), path("a.idx"));
         for (int64_t i = 0; i < kRecords; ++i) writer.write(std::string(static_cast<size_t>(3000 + i), static_cast<char>(v)));
         writer.close();
       },
       [this] {
         recordio::Reader reader(path("a.rec"));
         std::vector<float> bytes;
         int64_t count = 0;
         std::optional<recordio::IndexEntries> index;
         if (fs::exists(path("a.idx"))) index = recordio::read_index(path("a.idx"));
         for (int64_t at = 0; const auto record = reader.read(); at = reader.tell(), ++count) {
           if (index && index->at(static_cast<size_t>(count)).second != at) throw SystemError("the index is another's");
           bytes.insert(bytes.end(), record->begin(), record->end());
         }
         if (count != kRecords) throw SystemError("records are missing");
         return only_value(from_vector(bytes));
       }},
      {"cache", [this](int v) { cache().put("identity", std::string(50000, static_cast<char>(v))); },
       [this] { return static_cast<int>(cache().find("identity").value().at(0)); }},
  };
  static int value_of(SymbolBlock& net) {
    const int units = static_cast<int>(net(ones({1, 30})).extent(1)) - 200;
    for (const auto& [name, p] : net.collect_params())
      if (name.ends_with("weight") && only_value(p->data()) != units) throw SystemError("mixed");
    return units;
  }
};

TEST_F(Writers, KilledAtAnyMoment) {
  const int kills = env_int("GLUINO_KILLS").value_or(60);
  for (const Writer& w : all_) w.write(1);
  std::mt19937 chance(1);
  int caught = 0;
  for (int i = 0; i < kills; ++i) {
    const Writer& writer = all_[static_cast<size_t>(i) % all_.size()];
    const pid_t child = ::fork();
    if (child == 0)
      for (int turn = 0;; ++turn) writer.write(1 + turn % 2);
    ::usleep(chance() % 20000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    caught += !strays().empty();
    try {
      const int value = writer.read();
      EXPECT_TRUE(value == 1 || value == 2) << writer.name;
    } catch (const Error& e) {
      // Between the two renames of a pair: told when it is loaded or first run, never mixed. How often depends on the disk.
      EXPECT_EQ(std::string(writer.name), "export") << e.what();
    }
    writer.write(2);
    EXPECT_EQ(writer.read(), 2) << writer.name;
    EXPECT_EQ(strays(), std::vector<std::string>()) << writer.name;
  }
  EXPECT_GE(caught, kills / 4) << "the children must have been caught in the middle";
  RecordProperty("caught", caught);
}

// The cache is silent, and has nothing to lose.
TEST_F(Writers, AFullDiskLeavesTheOldFile) {
  for (const Writer& w : all_) w.write(1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t most : {0, 50}) {
    for (const Writer& w : all_) {
      const rlimit small{most, before.rlim_max};
      ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
      bool is_refused = std::string(w.name) == "cache";
      try {
        w.write(2);
      } catch (const SystemError& e) {
        is_refused = std::string(e.what()).find("cannot write") != std::string::npos;
      }
      ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
      EXPECT_TRUE(is_refused) << w.name << " at " << most;
      EXPECT_EQ(w.read(), 1) << w.name << " at " << most;
      EXPECT_EQ(strays(), std::vector<std::string>()) << w.name;
    }
  }
  ::signal(SIGXFSZ, handler);
  for (const Writer& w : all_) {
    w.write(2);
    EXPECT_EQ(w.read(), 2) << w.name;
  }
}

// ---- whose states they are

TEST_F(Writers, StatesOfAnotherNetworkAreRefused) {
  const std::string states = path("a.states");
  trainers_[0].save_states(states);
  GLUINO_EXPECT_ERROR(UserError, "_weight' of shape (201, 30), that of this trainer is", trainers_[1].load_states(states));
  GLUINO_EXPECT_ERROR(UserError, "_weight' of shape (202, 30)", trainers_[1].load_states(states));
  EXPECT_EQ(trainers_[1].num_update(), 1) << "nothing of it was taken over";
  nn::HybridSequential deeper;
  deeper.add(nn::Dense(201, {.in_units = 30}), nn::Dense(3, {.in_units = 201}));
  deeper.initialize();
  Trainer other(deeper.collect_params(), "adam");
  GLUINO_EXPECT_ERROR(UserError, "it has 2 parameters, this trainer has 4", other.load_states(states));
  Trainer(nets_[0].collect_params(), "adam").load_states(states);
}
TEST_F(Writers, StatesOfOtherOptionsAreRefused) {
  const std::string states = path("a.states");
  Trainer with(nets_[0].collect_params(), "sgd", {{"momentum", "0.9"}}), without(nets_[0].collect_params(), "sgd");
  {
    const autograd::Scope scope = autograd::record();
    nets_[0](ones({2, 30})).sum().backward();
  }
  with.step(1);
  with.save_states(states);
  GLUINO_EXPECT_ERROR(UserError, "but sgd with this trainer's options keeps 0", without.load_states(states));
}
TEST_F(Writers, OtherFilesAreNoStates) {
  save_tensors(path("x"), {{"weight", ones({2})}});
  GLUINO_EXPECT_ERROR(SystemError, "it has 'weight'", trainers_[0].load_states(path("x")));
  save_tensors(path("x"), {{"0.0.0", ones({2})}});
  GLUINO_EXPECT_ERROR(SystemError, "holds no states of a trainer", trainers_[0].load_states(path("x")));
}
TEST_F(Writers, FilesThatDoNotBelongTogetherAreTold) {
  nets_[0].export_model(path("a"));
  nn::HybridSequential other("other_");
  other.add(nn::Dense(3, {.in_units = 30}));
  other.initialize();
  other.export_model(path("b"));
  GLUINO_EXPECT_ERROR(UserError, "do not belong together: the graph needs",
                      SymbolBlock::imports(path("a-symbol.json"), {"data"}, path("b-0000.params")));
}

// ---- records

TEST_F(Files, ALengthInARecordTakesNoMemory) {
  GLUINO_EXPECT_ERROR(SystemError, "announces 4294967295 labels", recordio::unpack(std::string(4, '\xff') + std::string(36, 'x')));
  std::ofstream(path("a.rec"), std::ios::binary) << std::string("\x0a\x23\xd7\xce\xff\xff\xff\x1f", 8) << std::string(32, 'x');
  GLUINO_EXPECT_ERROR(SystemError, "ends beyond the file's 40 bytes", recordio::Reader(path("a.rec")).read());
}
TEST_F(Files, AnImageTakesNoMoreMemoryThanItsBytesCanHold) {
  std::string png = image::imencode(zeros({1, 1, 3}, {.dtype = DType::uint8}), ".png");
  // IHDR: 16384 x 16384; its checksum is not looked at before the size.
  png.replace(16, 8, std::string("\0\0\x40\0\0\0\x40\0", 8));
  reset_peak();
  const int64_t before = memory_stats().peak;
  EXPECT_THROW(image::imdecode(png), SystemError);
  EXPECT_LT(memory_stats().peak - before, 1 << 20);
}
TEST_F(Files, RecordsOfAWriterThatAnExceptionEndsAreNotTaken) {
  const auto write = [&](const std::string& record, bool fails) {
    recordio::Writer writer(path("a.rec"));
    writer.write(record);
    if (fails) throw std::runtime_error("of the program");
  };
  write("old", false);
  EXPECT_THROW(write("new", true), std::runtime_error);
  EXPECT_EQ(recordio::Reader(path("a.rec")).read(), "old");
  EXPECT_EQ(strays(), std::vector<std::string>());
}

}  // namespace
}  // namespace gluino::test
