// Files appear whole or not at all, and leave nothing beside them.
#include "base/atomic_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace fs = std::filesystem;

class Atomic : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::ptrdiff_t count() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }
  mode_t mode_of(const std::string& path) const {
    struct stat info {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0);
    return info.st_mode;
  }
  // What a process leaves that is killed while it writes.
  void leave_stray() const {
    const pid_t child = ::fork();
    if (child == 0) {
      AtomicFile file(path_);
      file.write("half");
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
  }
  const std::string folder_ = ::testing::TempDir() + "gluino_atomic_" + std::to_string(getpid()), path_ = folder_ + "/file";
};

TEST_F(Atomic, TheOldContentStaysUntilCommit) {
  write_file(path_, "old");
  {
    AtomicFile file(path_);
    file.write("n");
    file.write("ew");
    EXPECT_EQ(read_file(path_), "old");
    file.finish();
    EXPECT_EQ(read_file(path_), "old");
    file.commit();
    EXPECT_EQ(read_file(path_), "new");
  }
  { AtomicFile(path_).write("never"); }
  EXPECT_EQ(read_file(path_), "new");
  EXPECT_EQ(count(), 1);
}
TEST_F(Atomic, PermissionsStayOrFollowTheUmask) {
  const mode_t before = ::umask(027);
  write_file(path_, "a");
  EXPECT_EQ(mode_of(path_) & 0777, 0640);
  ::chmod(path_.c_str(), 0604);
  write_file(path_, "b");
  EXPECT_EQ(mode_of(path_) & 0777, 0604);
  ::umask(before);
}
TEST_F(Atomic, ALinkIsReplacedAndWhatItNamesStays) {
  write_file(folder_ + "/other", "other");
  fs::create_symlink(folder_ + "/other", path_);
  write_file(path_, "new");
  EXPECT_EQ(read_file(folder_ + "/other"), "other");
  EXPECT_TRUE(S_ISREG(mode_of(path_)));
}
TEST_F(Atomic, ADeviceIsWrittenToDirectly) {
  write_file("/dev/null", "nothing");
  EXPECT_TRUE(S_ISCHR(mode_of("/dev/null")));
}
TEST_F(Atomic, NamesThatCannotBeWrittenAreErrors) {
  GLUINO_EXPECT_ERROR(SystemError, "cannot write '" + folder_ + "/absent/x': No such file", write_file(folder_ + "/absent/x", "x"));
  GLUINO_EXPECT_ERROR(SystemError, "Is a directory", write_file(folder_, "x"));
  write_file(folder_ + "/" + std::string(250, 'n'), "x");  // a temporary name that grew with it would be too long
  EXPECT_EQ(count(), 1);
}
TEST_F(Atomic, StraysOfDeadProcessesGoAtTheNextWrite) {
  leave_stray();
  EXPECT_EQ(count(), 1);
  leave_stray();
  EXPECT_EQ(count(), 1);  // it removed the first one
  std::ofstream(folder_ + "/.gluino-of the user") << "kept";
  write_file(path_, "new");
  EXPECT_EQ(count(), 2);
}
TEST_F(Atomic, TemporariesInUseStay) {
  AtomicFile slow(folder_ + "/slow");
  slow.write("slow");
  for (int i = 0; i < 20; ++i) write_file(path_, "quick");
  const pid_t child = ::fork();
  if (child == 0) {
    write_file(path_, "quick");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  slow.commit();
  EXPECT_EQ(read_file(folder_ + "/slow"), "slow");
  EXPECT_EQ(count(), 2);
}
TEST_F(Atomic, AChildOfForkNeitherCommitsNorRemoves) {
  AtomicFile file(path_);
  file.write("of the parent");
  const pid_t child = ::fork();
  if (child == 0) {
    bool is_refused = false;
    try {
      AtomicFile mine(std::move(file));
      mine.commit();
    } catch (const SystemError&) {
      is_refused = true;
    }
    ::_exit(is_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  file.commit();
  EXPECT_EQ(read_file(path_), "of the parent");
}
TEST_F(Atomic, ManyWritersOfOneFile) {
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t)
    writers.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) write_file(path_, std::string(100000, static_cast<char>('a' + t)));
    });
  for (std::thread& w : writers) w.join();
  const std::string content = read_file(path_);
  EXPECT_EQ(content.size(), 100000u);
  EXPECT_EQ(content.find_first_not_of(content[0]), std::string::npos);
  EXPECT_EQ(count(), 1);
}
TEST_F(Atomic, AFullDiskLeavesTheOldContent) {
  write_file(path_, "old");
  write_file(folder_ + "/second", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string large(5000, 'n');
  GLUINO_EXPECT_ERROR(SystemError, "cannot write '" + path_ + "': File too large", write_file(path_, large));
  AtomicFile failed(path_);
  failed.write(large);
  EXPECT_THROW(failed.commit(), SystemError);
  GLUINO_EXPECT_ERROR(SystemError, "an earlier write to it has failed", failed.commit());
  GLUINO_EXPECT_ERROR(SystemError, "second': File too large", write_files({{path_, "new"}, {folder_ + "/second", large}}));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_file(path_), "old");
  EXPECT_EQ(read_file(folder_ + "/second"), "old");
  EXPECT_EQ(count(), 2);
}

}  // namespace
}  // namespace gluino::test
