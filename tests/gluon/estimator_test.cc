// The estimator: learns, tells its handlers, resumes exactly; a killed process loses nothing beyond its last checkpoint.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "gluino/gluino.h"
#include "support/support.h"

extern char** environ;

namespace gluino::test {
namespace {

namespace fs = std::filesystem;

struct Net : nn::HybridBlock {
  nn::Dense hidden{16, {.activation = "relu"}}, output{10};
  nn::Dropout dropout{0.2};
  Net() { GLUINO_CHILDREN(hidden, dropout, output); }
  Tensor forward(const Tensor& x) override { return output(dropout(hidden(x))); }
};

class Training : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  const std::string folder_ = ::testing::TempDir() + "gluino_estimator_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

data::DataLoader loader(bool train = true) {
  return data::DataLoader(data::take(data::digits(train), 300), 50, {.shuffle = train, .seed = 1});
}

// Trains some epochs with a checkpoint after each, from scratch or from what is in the folder; gives all parameters.
Tensor train(const std::string& folder, int64_t epochs, std::vector<estimator::HandlerPtr> handlers = {}) {
  Net net;
  seed(2);
  net.initialize(init::xavier());
  net.hybridize();
  net.build({{1, 1, 8, 8}});
  estimator::Estimator e(net, std::make_shared<loss::SoftmaxCrossEntropyLoss>(), {.optimizer = optimizer::adam({.learning_rate = 0.01})});
  handlers.insert(handlers.begin(), estimator::checkpoint(folder, {.prefix = "net", .max_checkpoints = 2}));
  data::DataLoader data = loader();
  e.fit(data, {.epochs = epochs, .handlers = std::move(handlers), .seed = 11});
  Tensors parts;
  for (const auto& [name, p] : net.collect_params()) parts.push_back(p->data().detach().reshape({-1}));
  return concat(parts, {.dim = 0});
}

TEST_F(Training, LearnsAndTellsItsHandlers) {
  Net net;
  net.initialize(init::xavier());
  net.hybridize();
  estimator::Estimator e(net, std::make_shared<loss::SoftmaxCrossEntropyLoss>(),
                         {.metrics = {metric::create("accuracy"), std::make_shared<metric::TopKAccuracy>(3)},
                          .optimizer = optimizer::adam({.learning_rate = 0.01})});
  data::DataLoader data = loader(), test = loader(false);
  std::ostringstream log;
  e.fit(data, {.val_data = &test,
               .epochs = 12,
               .handlers = {estimator::logging(log, 3), estimator::csv_log(folder_ + "/log.csv"),
                            estimator::checkpoint(folder_, {.monitor = "val_accuracy"})}});
  EXPECT_GT(e.value("accuracy"), 0.6);
  EXPECT_GE(e.value("val_top_k_accuracy_3"), e.value("val_accuracy"));
  EXPECT_NEAR(e.evaluate(test)[1].second, e.value("val_accuracy"), 1e-12);
  EXPECT_NE(log.str().find("epoch 1 batch 3/6  loss"), std::string::npos) << log.str();
  EXPECT_NE(log.str().find("epoch 12/12"), std::string::npos);
  const Tensor table = [&] {
    std::ifstream csv(folder_ + "/log.csv");
    std::string header, rest, line;
    std::getline(csv, header);
    EXPECT_EQ(header, "epoch,seconds,loss,accuracy,top_k_accuracy_3,val_loss,val_accuracy,val_top_k_accuracy_3");
    while (std::getline(csv, line)) rest += line + "\n";
    std::ofstream(folder_ + "/numbers.csv") << rest;
    return data::load_csv(folder_ + "/numbers.csv");
  }();
  EXPECT_EQ(table.shape().str(), "(12, 8)");
  EXPECT_LT((table[{11, 2}].item()), (table[{0, 2}].item()));
  EXPECT_TRUE(fs::exists(folder_ + "/model-best.params"));
  GLUINO_EXPECT_ERROR(UserError, "did you mean 'accuracy'?", e.value("acuracy"));
}

TEST_F(Training, StopsEarlyWithoutImprovement) {
  Net net;
  net.initialize(init::zero());
  estimator::Estimator e(net, std::make_shared<loss::SoftmaxCrossEntropyLoss>(), {.optimizer = optimizer::sgd({.learning_rate = 0})});
  data::DataLoader data = loader();
  e.fit(data, {.epochs = 50, .handlers = {estimator::early_stopping("accuracy", {.patience = 2})}});
  EXPECT_EQ(e.epoch(), 4);  // one that counts, three that do not improve
}

TEST_F(Training, OnTwoDevicesGivesWhatOneGives) {
  Tensor results[2];
  for (const int devices : {1, 2}) {
    nn::HybridSequential net;
    net.add(nn::Dense(8, {.activation = "tanh"}), nn::Dense(10));
    seed(2);
    net.initialize(init::xavier());
    net.build({{1, 1, 8, 8}});
    net.hybridize();
    estimator::Estimator e(net, std::make_shared<loss::SoftmaxCrossEntropyLoss>(),
                           {.devices = devices == 2 ? std::vector{cpu(0), cpu(1)} : std::vector<Device>{}});
    data::DataLoader data = loader();
    e.fit(data, {.epochs = 2});
    results[devices - 1] = net.collect_params(".*weight").begin()->second->reduced();
  }
  EXPECT_TRUE(close(results[1], results[0], 1e-3, 1e-5));
}

TEST_F(Training, AResumedRunRepeatsAnUninterruptedOne) {
  const Tensor straight = train(folder_ + "/a", 6);
  train(folder_ + "/b", 3, {estimator::csv_log(folder_ + "/log.csv")});
  EXPECT_TRUE(same_bits(train(folder_ + "/b", 6, {estimator::csv_log(folder_ + "/log.csv")}), straight));
  std::ifstream csv(folder_ + "/log.csv");
  int lines = 0;
  for (std::string line; std::getline(csv, line);) ++lines;
  EXPECT_EQ(lines, 7) << "a header and six epochs";
  EXPECT_FALSE(fs::exists(folder_ + "/a/net-0004.params")) << "only two checkpoints are kept";
  EXPECT_TRUE(fs::exists(folder_ + "/a/net-0005.states"));
}

// ---- killed

constexpr int64_t kEpochs = 40;

// Not a test of its own: the process that the next test kills.
TEST(KilledTraining, DISABLED_Child) { train(std::getenv("GLUINO_KILL_FOLDER"), kEpochs); }

pid_t start_child(const std::string& folder) {
  ::setenv("GLUINO_KILL_FOLDER", folder.c_str(), 1);
  const char* arguments[] = {"test", "--gtest_also_run_disabled_tests", "--gtest_filter=KilledTraining.DISABLED_Child", "--gtest_brief=1",
                             nullptr};
  pid_t child = 0;
  EXPECT_EQ(::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments), environ), 0);
  return child;
}
std::string latest(const std::string& folder) {
  std::ifstream file(folder + "/net-latest");
  std::string epoch;
  file >> epoch;
  return epoch;
}

TEST_F(Training, KilledAtAnyMomentLosesNothingBeyondTheLastCheckpoint) {
  const Tensor straight = train(folder_ + "/straight", kEpochs);
  const std::string folder = folder_ + "/killed";
  int kills = 0, last = 0;
  for (int round = 0; round < 6 && last < kEpochs; ++round) {
    const pid_t child = start_child(folder);
    // Waits for one more checkpoint, then a different moment in each round.
    int status = 0;
    while (latest(folder) == std::to_string(last) || latest(folder).empty()) {
      if (::waitpid(child, &status, WNOHANG) == child) break;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(700 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    kills += WIFSIGNALED(status);
    const int now = std::stoi(latest(folder));
    EXPECT_GE(now, last);
    last = now;
    // What it names is complete.
    Net net;
    net.load_parameters(folder + "/net-" + std::string(4 - std::to_string(now).size(), '0') + std::to_string(now) + ".params");
  }
  EXPECT_GE(kills, 2) << "the child must have been caught in the middle";
  EXPECT_TRUE(same_bits(train(folder, kEpochs), straight)) << "after " << kills << " kills, from epoch " << last;
}

}  // namespace
}  // namespace gluino::test
