// Derived values on disk: found again whole, or not at all.
#include "exec/kept_values.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace fs = std::filesystem;

class Kept : public ::testing::Test {
 protected:
  Kept() { fs::remove_all(folder); }
  ~Kept() override { fs::remove_all(folder); }
  fs::path only_file() const {
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
    return fs::directory_iterator(folder)->path();
  }
  Tensor find(const std::string& identity) const { return kept.find(identity, value.shape(), DType::float32); }
  const std::string folder = fs::path(::testing::TempDir()) / ("gluino_kept_" + std::to_string(::getpid()));
  const KeptValues kept{folder, 1 << 20};
  const Tensor value = random_tensor({51, 77}, DType::float32, 3);  // several pages
};

TEST_F(Kept, IsFoundUnderItsIdentityAlone) {
  EXPECT_FALSE(find("a").defined());
  kept.put("a", value);
  EXPECT_TRUE(same_bits(find("a"), value));
  EXPECT_FALSE(find("b").defined());
  EXPECT_FALSE(kept.find("a", {51, 78}, DType::float32).defined());
}
TEST_F(Kept, OutlivesItsFile) {
  kept.put("a", value);
  const Tensor found = find("a");
  fs::remove_all(folder);
  EXPECT_TRUE(same_bits(found, value));
  EXPECT_FALSE(find("a").defined());
}
// Whoever shortens the file waits until nobody needs it any more.
TEST_F(Kept, OutlivesThatItsFileIsShortened) {
  for (int i = 0; i < 20; ++i) {
    kept.put("a", value);
    const Tensor found = find("a");
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fs::resize_file(only_file(), 0);
    EXPECT_TRUE(same_bits(found, value));
  }
}
TEST_F(Kept, DamagedFilesAreNoFiles) {
  kept.put("a", value);
  const fs::path file = only_file();
  const auto size = fs::file_size(file);
  constexpr size_t kPage = 4096;
  const std::string good = read_file(file);
  ASSERT_GT(size, 3 * kPage);
  const auto expect_refused = [&](std::string bytes, const std::string& what) {
    std::ofstream(file, std::ios::binary) << bytes;
    EXPECT_FALSE(find("a").defined()) << what;
    std::ofstream(file, std::ios::binary) << good;
    EXPECT_TRUE(find("a").defined()) << what;
  };
  for (const size_t at : {size_t{0}, size_t{17}, size_t{30}, size - 1}) {
    std::string bytes = good;
    bytes[at] ^= 1;
    expect_refused(bytes, "byte " + std::to_string(at));
  }
  for (size_t page = 0; page < size; page += kPage) {  // as a power cut leaves it
    std::string bytes = good;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(page), std::min(kPage, size - page), '\0');
    expect_refused(bytes, "page at " + std::to_string(page));
  }
  fs::resize_file(file, size - 1);
  EXPECT_FALSE(find("a").defined());
  fs::resize_file(file, 0);
  EXPECT_FALSE(find("a").defined());
  kept.put("a", value);  // a damaged file is replaced
  EXPECT_TRUE(find("a").defined());
}
TEST_F(Kept, AFolderThatCannotBeIsNoError) {
  std::ofstream(folder) << "a file";
  kept.put("a", value);
  EXPECT_FALSE(find("a").defined());
}
TEST_F(Kept, TheLongestUnusedMakeRoom) {
  const Tensor large = zeros({90000});  // two of them fit into a megabyte
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  kept.put("a", large);
  wait();
  kept.put("b", large);
  wait();
  EXPECT_TRUE(kept.find("a", {90000}, DType::float32).defined());
  wait();
  kept.put("c", large);
  EXPECT_TRUE(kept.find("a", {90000}, DType::float32).defined());
  EXPECT_FALSE(kept.find("b", {90000}, DType::float32).defined());
  EXPECT_TRUE(kept.find("c", {90000}, DType::float32).defined());
}

// Two networks with the same numbers in different tensors: the second one may read what the first has left; one with other numbers
// may not.
TEST(KeptAcrossNetworks, DependsOnTheNumbers) {
  const Tensor weight = random_tensor({300, 300}, DType::float32, 5), x = random_tensor({4, 300}, DType::float32, 6);
  const auto answer = [&](const Tensor& w) {
    nn::Dense dense(300, {.use_bias = false});
    dense.initialize();
    dense(x);
    for (const auto& [name, p] : dense.collect_params()) p->set_data(w.copy());
    dense.hybridize();
    return dense(x);
  };
  const Tensor first = answer(weight);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(same_bits(answer(weight), first));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until it has been written, on most machines
  }
  Tensor other = weight.copy();
  other.mutable_data<float>()[12345] += 1;
  EXPECT_TRUE(close(answer(other), call("FullyConnected", {x, other}, {{"num_hidden", int64_t{300}}, {"no_bias", true}}), 1e-6, 1e-6));
}

}  // namespace
}  // namespace gluino::test
