#include "jit/object_cache.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "support/support.h"

namespace gluino::test {
namespace {

namespace fs = std::filesystem;
using jit::ObjectCache;

class Cache : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path only_file() const { return fs::directory_iterator(folder_)->path(); }
  const std::string folder_ = ::testing::TempDir() + "gluino_object_cache_" + std::to_string(getpid());
  const ObjectCache cache_{folder_};
};

TEST_F(Cache, FindsWhatWasPut) {
  EXPECT_FALSE(cache_.find("a"));
  const std::string object("\0\1machine code\n", 15);
  cache_.put("a", object);
  EXPECT_EQ(cache_.find("a"), object);
  EXPECT_FALSE(cache_.find("b"));
  cache_.put("a", "newer");
  EXPECT_EQ(cache_.find("a"), "newer");
}
TEST_F(Cache, DamagedFilesAreAsGoodAsNone) {
  cache_.put("identity", "some object code");
  const fs::path file = only_file();
  std::ifstream in(file, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(file, std::ios::binary) << whole.substr(0, length);
    EXPECT_FALSE(cache_.find("identity")) << "cut to " << length;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string turned = whole;
    turned[i] = static_cast<char>(turned[i] ^ 4);
    std::ofstream(file, std::ios::binary) << turned;
    EXPECT_FALSE(cache_.find("identity")) << "byte " << i;
  }
}
TEST_F(Cache, AFolderThatCannotBeUsedIsNoError) {
  const ObjectCache nowhere("/proc/no/such/folder");
  nowhere.put("a", "x");
  EXPECT_FALSE(nowhere.find("a"));
  std::ofstream(folder_) << "a file where the folder should be";
  cache_.put("a", "x");
  EXPECT_FALSE(cache_.find("a"));
}
TEST_F(Cache, ManyWritersLeaveWholeFiles) {
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t)
    writers.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        cache_.put("shared", std::string(1000, static_cast<char>('a' + t)));
        const auto found = cache_.find("shared");
        ASSERT_TRUE(found && found->size() == 1000 && found->find_first_not_of((*found)[0]) == std::string::npos);
      }
    });
  for (std::thread& w : writers) w.join();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace gluino::test
