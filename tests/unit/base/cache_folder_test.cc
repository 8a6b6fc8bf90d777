// What processes leave for the next ones: found whole and from ourselves, or not at all.
#include "base/cache_folder.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace fs = std::filesystem;

class Cache : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path only_file() const {
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
    return fs::directory_iterator(folder_)->path();
  }
  mode_t mode_of(const std::string& path) const {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  }
  const std::string folder_ = ::testing::TempDir() + "gluino_cache_folder_" + std::to_string(getpid());
  const CacheFolder cache_{folder_, ".o"};
};

TEST_F(Cache, FindsWhatWasPut) {
  EXPECT_FALSE(cache_.find("a"));
  const std::string object("\0\1machine code\n", 15);
  cache_.put("a", object);
  EXPECT_EQ(cache_.find("a"), object);
  EXPECT_FALSE(cache_.find("b"));
  cache_.put("a", "newer");
  EXPECT_EQ(cache_.find("a"), "newer");
  cache_.put("nothing", "");
  EXPECT_EQ(cache_.find("nothing"), "");
}
TEST_F(Cache, DamagedFilesAreAsGoodAsNone) {
  cache_.put("identity", "some object code");
  const fs::path file = only_file();
  const std::string whole = read_file(file);
  const auto next = [&](size_t at) { return at + (at < 100 || at + 30 > whole.size() ? 1 : 89); };  // between them there are zeros
  for (size_t length = 0; length < whole.size(); length = next(length)) {
    std::ofstream(file, std::ios::binary) << whole.substr(0, length);
    EXPECT_FALSE(cache_.find("identity")) << "cut to " << length;
  }
  for (size_t i = 0; i < whole.size(); i = next(i)) {
    std::string turned = whole;
    turned[i] = static_cast<char>(turned[i] ^ 4);
    std::ofstream(file, std::ios::binary) << turned;
    EXPECT_FALSE(cache_.find("identity")) << "byte " << i;
  }
  std::ofstream(file, std::ios::binary) << whole << "more";
  EXPECT_FALSE(cache_.find("identity"));
}
TEST_F(Cache, AFolderThatCannotBeUsedIsNoError) {
  const CacheFolder nowhere("/proc/no/such/folder", ".o");
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
  only_file();
}
TEST_F(Cache, IsMadeForThisUserAlone) {
  const mode_t before = ::umask(0);
  const CacheFolder deep(folder_ + "/some/where", ".o");
  deep.put("a", "x");
  ::umask(before);
  EXPECT_EQ(mode_of(folder_), 0700);
  EXPECT_EQ(mode_of(folder_ + "/some/where"), 0700);
  EXPECT_EQ(mode_of(fs::directory_iterator(folder_ + "/some/where")->path()), 0600);
}
TEST_F(Cache, AFolderThatOthersMayWriteToIsNotUsed) {
  cache_.put("a", "x");
  for (const mode_t mode : {0720u, 0702u, 0777u, 01777u}) {
    ASSERT_EQ(::chmod(folder_.c_str(), mode), 0);
    EXPECT_FALSE(cache_.find("a")) << std::oct << mode;
    cache_.put("b", "y");
  }
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);  // to look at it is no harm
  EXPECT_EQ(cache_.find("a"), "x");
  EXPECT_FALSE(cache_.find("b"));
}
TEST_F(Cache, AFileThatOthersMayWriteToIsNotUsed) {
  cache_.put("a", "x");
  ASSERT_EQ(::chmod(only_file().c_str(), 0620), 0);
  EXPECT_FALSE(cache_.find("a"));
  ASSERT_EQ(::chmod(only_file().c_str(), 0644), 0);
  EXPECT_EQ(cache_.find("a"), "x");
}
TEST_F(Cache, ALinkIsNotFollowed) {
  cache_.put("a", "x");
  const fs::path file = only_file(), elsewhere = folder_ + "/elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  EXPECT_FALSE(cache_.find("a"));
  cache_.put("a", "new");  // takes the place of the link
  EXPECT_EQ(cache_.find("a"), "new");
  EXPECT_EQ(read_file(elsewhere).substr(0, 6), "gluino");
}
TEST_F(Cache, WhatBelongsToOthersIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  cache_.put("a", "x");
  const fs::path file = only_file();
  ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(cache_.find("a"));
  ASSERT_EQ(::chown(file.c_str(), 0, 0), 0);
  EXPECT_TRUE(cache_.find("a"));
  ASSERT_EQ(::chown(folder_.c_str(), 12345, 12345), 0);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(cache_.find("a"));
  ::testing::internal::GetCapturedStderr();
}

// In a process of its own: the warning comes once.
// A program that an emulator runs starts itself anew only where the kernel knows the emulator (binfmt_misc).
bool can_start_itself() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDOUT_FILENO);
    ::execl("/proc/self/exe", "test", "--gtest_list_tests", nullptr);
    ::_exit(127);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) != 127;
}

TEST_F(Cache, SaysOnceWhyItIsNotUsed) {
  if (!can_start_itself()) GTEST_SKIP() << "a process of its own is needed, and this program cannot be started from within itself here";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        fs::create_directories(folder_);
        ::chmod(folder_.c_str(), 0777);
        cache_.put("a", "x");
        cache_.find("a");
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "^gluino: the cache folder '.*' is not used: others may write to it \\(mode 777\\)[^\n]*\n$");
}

}  // namespace
}  // namespace gluino::test
