// Data sets, samplers, the loader, files of images and records, transforms.
#include <zlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const { std::ofstream(path(name), std::ios::binary) << bytes; }
  const std::string folder_ = ::testing::TempDir() + "gluino_data_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

Tensor gradient_image(int64_t height, int64_t width, int64_t channels) {
  std::vector<uint8_t> v;
  for (int64_t i = 0; i < height * width * channels; ++i) v.push_back(static_cast<uint8_t>(i * 255 / (height * width * channels)));
  return from_vector(v, Shape{height, width, channels});
}
data::DatasetPtr counting(int64_t n) {
  return data::array_dataset({arange(static_cast<double>(n)).reshape({n, 1}), arange(static_cast<double>(n))});
}

// ---- sets, samplers, loader

TEST(Dataset, ArraysTransformsAndSubsets) {
  const auto base = counting(6);
  const auto twice = data::transform_first(base, [](const Tensor& x) { return x * 2; });
  EXPECT_FLOAT_EQ(twice->get(3)[0].item(), 6);
  EXPECT_FLOAT_EQ(twice->get(3)[1].item(), 3);
  EXPECT_EQ(data::filter(base, [](const Tensors& s) { return s[1].item() > 3; })->size(), 2);
  EXPECT_EQ(data::take(base, 4)->size(), 4);
  GLUINO_EXPECT_ERROR(IndexError, "sample 6 of 6", base->get(6));
  GLUINO_EXPECT_ERROR(ShapeError, "same number of rows", data::array_dataset({ones({2}), ones({3})}));
}

TEST(Sampler, BatchesKeepDiscardAndRollOver) {
  auto sizes = [](const std::string& last, uint64_t epochs) {
    data::BatchSampler s(data::sequential_sampler(10), 4, last);
    std::vector<size_t> out;
    for (uint64_t e = 0; e < epochs; ++e)
      for (const auto& b : s.batches(e)) out.push_back(b.size());
    return out;
  };
  EXPECT_EQ(sizes("keep", 1), (std::vector<size_t>{4, 4, 2}));
  EXPECT_EQ(sizes("discard", 1), (std::vector<size_t>{4, 4}));
  EXPECT_EQ(sizes("rollover", 2), (std::vector<size_t>{4, 4, 4, 4, 4}));  // 2 left over, then 2 + 10
  GLUINO_EXPECT_ERROR(UserError, "keep, discard or rollover", data::BatchSampler(data::sequential_sampler(3), 1, "drop"));
  EXPECT_EQ(data::interval_sampler(7, 3)->order(0), (std::vector<int64_t>{0, 3, 6, 1, 4, 2, 5}));
  const auto random = data::random_sampler(50, 7);
  EXPECT_EQ(random->order(3), random->order(3));
  EXPECT_NE(random->order(3), random->order(4));
  EXPECT_NE(random->order(3), data::random_sampler(50, 8)->order(3));
  const auto order = random->order(0);
  EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 50u);
}

// Everything that a loader gives in an epoch, flattened.
std::vector<float> all_of(data::DataLoader& loader) {
  std::vector<float> out;
  for (const Tensors& batch : loader)
    for (const float v : batch[0].to_vector<float>()) out.push_back(v);
  return out;
}

TEST(DataLoader, ThreadsGiveWhatNoThreadsGive) {
  const auto noisy = data::transform_first(counting(37), [](const Tensor& x) { return x + data::random_uniform(0, 1); });
  std::vector<std::vector<float>> results;
  for (const int workers : {0, 1, 3}) {
    data::DataLoader loader(noisy, 5, {.shuffle = true, .num_workers = workers, .seed = 4});
    EXPECT_EQ(loader.size(), 8);
    results.push_back(all_of(loader));
    const auto second = all_of(loader);
    EXPECT_NE(second, results.back()) << "each epoch has its own order";
    loader.set_epoch(0);
    EXPECT_EQ(all_of(loader), results.back()) << "an epoch can be repeated";
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST(DataLoader, PrefetchesNoFurtherThanAsked) {
  std::atomic<int> made = 0;
  const auto counted = data::transform(counting(100), [&](const Tensors& s) {
    ++made;
    return s;
  });
  data::DataLoader loader(counted, 1, {.num_workers = 2, .prefetch = 3});
  auto it = loader.begin();
  for (int i = 0; i < 5; ++i) ++it;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(made, 6 + 3);
}

TEST(DataLoader, AnErrorInAThreadReachesTheCaller) {
  const auto failing = data::transform(counting(10), [](const Tensors& s) {
    if (s[1].item() == 7) throw UserError("sample 7 is bad");
    return s;
  });
  data::DataLoader loader(failing, 2, {.num_workers = 2});
  GLUINO_EXPECT_ERROR(UserError, "sample 7 is bad", all_of(loader));
  GLUINO_EXPECT_ERROR(UserError, "batch_size is 0", data::DataLoader(counting(3), 0));
  GLUINO_EXPECT_ERROR(UserError, "not both", data::DataLoader(counting(3), 1, {.shuffle = true, .sampler = data::sequential_sampler(3)}));
}

TEST(DataLoader, PadsOrRefusesUnequalSamples) {
  class Ragged : public data::Dataset {
   public:
    int64_t size() const override { return 3; }
    Tensors get(int64_t i) const override { return {full({i + 1}, static_cast<double>(i)), full({}, 1)}; }
  };
  data::DataLoader padded(std::make_shared<Ragged>(), 3, {.batchify_fn = data::pad(-1)});
  const Tensors batch = *padded.begin();
  EXPECT_TRUE(same_bits(batch[0], tensor({{0, -1, -1}, {1, 1, -1}, {2, 2, 2}})));
  EXPECT_EQ(batch[1].shape().str(), "(3,)");
  data::DataLoader stacked(std::make_shared<Ragged>(), 3);
  GLUINO_EXPECT_ERROR(ShapeError, "use pad()", stacked.begin());
}

TEST(Digits, AreBundled) {
  const auto train = data::digits(), test = data::digits(false);
  EXPECT_EQ(train->size() + test->size(), 1797);
  EXPECT_EQ(test->size(), 359);
  EXPECT_EQ(train->get(0)[0].shape().str(), "(1, 8, 8)");
  EXPECT_LE(train->get(5)[0].max().item(), 1);
}

// ---- files

using DataFiles = Files;

std::string idx(uint8_t type, const std::vector<uint32_t>& extents, const std::string& content) {
  std::string bytes{'\0', '\0', static_cast<char>(type), static_cast<char>(extents.size())};
  for (const uint32_t e : extents)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(e >> shift & 0xff);
  return bytes + content;
}

TEST_F(DataFiles, IdxPlainGzippedAndDamaged) {
  write("a", idx(8, {2, 3}, "\1\2\3\4\5\6"));
  EXPECT_TRUE(array_equal(vision::read_idx(path("a")), tensor({{1, 2, 3}, {4, 5, 6}}, {.dtype = DType::uint8})));
  write("ints", idx(0x0C, {2}, std::string("\0\0\1\2\xff\xff\xff\xfe", 8)));
  EXPECT_TRUE(array_equal(vision::read_idx(path("ints")), tensor({258, -2}, {.dtype = DType::int32})));
  write("shorts", idx(0x0B, {2}, std::string("\1\2\xff\xfe", 4)));
  EXPECT_TRUE(array_equal(vision::read_idx(path("shorts")), tensor({258, -2}, {.dtype = DType::int32})));
  const gzFile gz = gzopen(path("z.gz").c_str(), "wb");
  const std::string bytes = idx(8, {3}, "abc");
  gzwrite(gz, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(gz);
  EXPECT_EQ(vision::read_idx(path("z.gz")).extent(0), 3);
  for (const std::string& bad : {std::string("abc"), idx(8, {2, 3}, "\1"), idx(8, {2}, "abc"), idx(3, {1}, "a"),
                                 idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, "a")}) {
    write("bad", bad);
    GLUINO_EXPECT_ERROR(SystemError, "is not an IDX file", vision::read_idx(path("bad")));
  }
}

TEST_F(DataFiles, MnistSaysWhichFilesGoWhere) {
  GLUINO_EXPECT_ERROR(SystemError, "download train-images-idx3-ubyte.gz", vision::mnist(folder_));
  write("t10k-images-idx3-ubyte", idx(8, {2, 2, 2}, "abcdefgh"));
  write("t10k-labels-idx1-ubyte", idx(8, {2}, "\3\4"));
  const auto set = vision::mnist(folder_, false);
  EXPECT_EQ(set->get(1)[0].shape().str(), "(2, 2, 1)");
  EXPECT_EQ(set->get(1)[1].item<int32_t>(), 4);
}

TEST_F(DataFiles, Cifar) {
  std::string record(1 + 3072, '\0');
  record[0] = 7;
  record[1] = 10;              // red of pixel (0, 0)
  record[1 + 1024 + 33] = 20;  // green of pixel (1, 1)
  for (int i = 1; i <= 5; ++i) write("data_batch_" + std::to_string(i) + ".bin", record + record);
  const auto set = vision::cifar10(folder_);
  EXPECT_EQ(set->size(), 10);
  const Tensors sample = set->get(3);
  EXPECT_EQ(sample[1].item<int32_t>(), 7);
  EXPECT_EQ((sample[0][{0, 0, 0}].item<uint8_t>()), 10);
  EXPECT_EQ((sample[0][{1, 1, 1}].item<uint8_t>()), 20);
  GLUINO_EXPECT_ERROR(SystemError, "test_batch.bin", vision::cifar10(folder_, false));
  write("train.bin", "short");
  GLUINO_EXPECT_ERROR(SystemError, "not a multiple of a record's 3074", vision::cifar100(folder_));
}

TEST_F(DataFiles, CsvErrorsNameTheLine) {
  write("a.csv", "1,2\n3,4\n");
  EXPECT_TRUE(same_bits(data::load_csv(path("a.csv")), tensor({{1, 2}, {3, 4}})));
  write("b.csv", "1,2\n3\n");
  GLUINO_EXPECT_ERROR(SystemError, "line 2: 1 columns instead of 2", data::load_csv(path("b.csv")));
  write("c.csv", "1;2\n");
  GLUINO_EXPECT_ERROR(SystemError, "line 1: ';'", data::load_csv(path("c.csv")));
}

TEST_F(DataFiles, ImagesAndFolders) {
  const Tensor colour = gradient_image(6, 5, 3), gray = gradient_image(4, 4, 1);
  EXPECT_TRUE(array_equal(image::imdecode(image::imencode(colour, ".png")), colour));
  EXPECT_TRUE(array_equal(image::imdecode(image::imencode(gray, ".png"), image::Channels::gray), gray));
  const Tensor lossy = image::imdecode(image::imencode(gray, ".jpg", 100), image::Channels::gray);
  EXPECT_TRUE(close(lossy.astype(DType::float32), gray.astype(DType::float32), 0, 4));
  fs::create_directories(path("cats"));
  fs::create_directories(path("ants"));
  image::imwrite(path("cats/1.png"), colour);
  image::imwrite(path("ants/2.jpg"), colour);
  write("ants/readme.txt", "no image");
  const vision::ImageFolderDataset set(folder_);
  EXPECT_EQ(set.synsets(), (std::vector<std::string>{"ants", "cats"}));
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.get(1)[1].item<int32_t>(), 1);
  EXPECT_TRUE(array_equal(set.get(1)[0], colour));
  const std::string jpeg = image::imencode(colour, ".jpg"), png = image::imencode(colour, ".png");
  for (const std::string& bad : {std::string("no"), jpeg.substr(0, 30), png.substr(0, 40)})
    GLUINO_EXPECT_ERROR(SystemError, "image: ", image::imdecode(bad));
  GLUINO_EXPECT_ERROR(UserError, "but uint8 (height, width, 1 or 3) is needed", image::imencode(ones({2, 2, 3})));
  GLUINO_EXPECT_ERROR(SystemError, "is not a folder", vision::ImageFolderDataset(path("none")));
}

// The bytes below follow the format's description: magic, length, content, padding.
TEST_F(DataFiles, RecordsAsBytes) {
  {
    recordio::Writer w(path("a.rec"), path("a.idx"));
    w.write("hello");
    w.write(std::string("ab\0\0\x0a\x23\xd7\xce"
                        "end",
                        11),
            9);  // holds the magic
    EXPECT_FALSE(fs::exists(path("a.rec"))) << "written under another name until closed";
  }
  std::ifstream file(path("a.rec"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(bytes.substr(0, 16), std::string("\x0a\x23\xd7\xce\x05\0\0\0hello\0\0\0", 16));
  EXPECT_EQ(bytes.substr(16, 12), std::string("\x0a\x23\xd7\xce\x04\0\0\x20"
                                              "ab\0\0",
                                              12))
      << "first part of a record that holds the magic";
  EXPECT_EQ(recordio::read_index(path("a.idx")), (recordio::IndexEntries{{0, 0}, {9, 16}}));
  write("names.idx", "one two\t8\r\n\n3 16\n");
  EXPECT_EQ(recordio::read_text_index(path("names.idx")), (std::vector<std::pair<std::string, int64_t>>{{"one two", 8}, {"3", 16}}));
  GLUINO_EXPECT_ERROR(SystemError, "the key 'one two' is no number", recordio::read_index(path("names.idx")));
  write("bad.idx", "3\t16\nseven\n");
  GLUINO_EXPECT_ERROR(SystemError, "line 2: 'seven' is not a key and an offset", recordio::read_text_index(path("bad.idx")));
  recordio::Reader r(path("a.rec"));
  EXPECT_EQ(r.read(), "hello");
  EXPECT_EQ(r.read(), std::string("ab\0\0\x0a\x23\xd7\xce"
                                  "end",
                                  11));
  EXPECT_EQ(r.read(), std::nullopt);
  EXPECT_EQ(r.read_at(0), "hello");
  write("cut.rec", bytes.substr(0, 14));
  recordio::Reader cut(path("cut.rec"));
  EXPECT_EQ(cut.read(), "hello") << "only the padding is missing";
  write("cut.rec", bytes.substr(0, 10));
  recordio::Reader shorter(path("cut.rec"));
  GLUINO_EXPECT_ERROR(SystemError, "is cut off", shorter.read());
  write("no.rec", "this is not a record file");
  recordio::Reader no(path("no.rec"));
  GLUINO_EXPECT_ERROR(SystemError, "no RecordIO file", no.read());
}

TEST_F(DataFiles, ImageRecords) {
  const Tensor picture = gradient_image(5, 4, 3);
  {
    recordio::Writer w(path("a.rec"), path("a.idx"));
    for (int i = 0; i < 3; ++i)
      w.write(recordio::pack_img({.label = {static_cast<float>(i)}, .id = static_cast<uint64_t>(i)}, picture, 95, ".png"));
    w.write(recordio::pack_img({.label = {1, 2, 3}}, picture, 95, ".png"));
  }
  for (const bool with_index : {true, false}) {
    if (!with_index) fs::remove(path("a.idx"));
    const auto set = recordio::image_record_dataset(path("a.rec"));
    ASSERT_EQ(set->size(), 4);
    EXPECT_FLOAT_EQ(set->get(2)[1].item(), 2);
    EXPECT_TRUE(array_equal(set->get(2)[0], picture));
    EXPECT_TRUE(same_bits(set->get(3)[1], tensor({1, 2, 3})));
    data::DataLoader loader(data::take(set, 3), 3, {.num_workers = 2});
    EXPECT_EQ((*loader.begin())[0].shape().str(), "(3, 5, 4, 3)");
  }
  GLUINO_EXPECT_ERROR(SystemError, "too few for the header", recordio::unpack("short"));
  for (const bool is_list : {false, true}) {
    const auto [header, content] = recordio::unpack(recordio::pack({.label = {7}, .id = 3, .id2 = 4, .is_list = is_list}, "x"));
    EXPECT_EQ(header.is_list, is_list);
    EXPECT_EQ(header.label, std::vector<float>{7});
    EXPECT_EQ(content, "x");
  }
}

// ---- transforms

TEST(Transforms, ShapesAndValues) {
  const Tensor x = gradient_image(8, 6, 3);
  const Tensor t = vision::ToTensor()(x);
  EXPECT_EQ(t.shape().str(), "(3, 8, 6)");
  EXPECT_FLOAT_EQ((t[{1, 2, 3}].item()), static_cast<float>(x[{2, 3, 1}].item<uint8_t>()) / 255);
  const Tensor n = vision::Normalize({0.5, 0.4, 0.3}, {0.1, 0.2, 0.3})(t);
  EXPECT_NEAR((n[{2, 1, 1}].item()), ((t[{2, 1, 1}].item()) - 0.3) / 0.3, 1e-6);
  EXPECT_EQ(vision::Resize({4, 5})(x).shape().str(), "(5, 4, 3)");
  EXPECT_EQ(vision::Resize({12}, true)(x).shape().str(), "(16, 12, 3)");
  EXPECT_TRUE(array_equal(vision::CenterCrop({4, 4})(x), x[{Slice(2, 6), Slice(1, 5)}]));
  EXPECT_EQ(vision::CenterCrop({10, 10})(x).shape().str(), "(10, 10, 3)") << "enlarged first";
  EXPECT_EQ(vision::RandomCrop({6, 8}, 2)(x).shape().str(), "(8, 6, 3)");
  EXPECT_EQ(vision::RandomResizedCrop({5, 7})(x).shape().str(), "(7, 5, 3)");
  EXPECT_TRUE(array_equal(vision::RandomFlipLeftRight(1)(x), flip(x, {.axis = Shape{1}})));
  EXPECT_TRUE(array_equal(vision::RandomFlipTopBottom(1)(x), flip(x, {.axis = Shape{0}})));
  EXPECT_TRUE(array_equal(vision::RandomFlipTopBottom(0)(x), x));
  GLUINO_EXPECT_ERROR(ShapeError, "(height, width, 3) is needed", vision::RandomHue(0.1)(ones({3, 4})));
}

TEST(Transforms, ColoursKeepWhatTheyShould) {
  const Tensor x = random_tensor({4, 5, 3}, DType::float32, 1, 0, 255);
  auto luma = [](const Tensor& t) { return (t * tensor({0.299, 0.587, 0.114})).sum(Shape{2}); };
  const Tensor bright = vision::RandomBrightness(0.5)(x);
  EXPECT_TRUE(close(bright / x, full({4, 5, 3}, (bright / x)[{0, 0, 0}].item<double>()), 1e-4, 1e-5)) << "one factor for all";
  EXPECT_NEAR(luma(vision::RandomContrast(0.5)(x)).mean().item(), luma(x).mean().item(), 0.1) << "contrast keeps the mean";
  EXPECT_TRUE(close(luma(vision::RandomSaturation(0.5)(x)), luma(x), 1e-3, 0.05)) << "saturation keeps each pixel's brightness";
  EXPECT_TRUE(close(luma(vision::RandomHue(0.3)(x)), luma(x), 1e-2, 1.0)) << "hue keeps each pixel's brightness";
  EXPECT_FALSE(array_equal(vision::RandomColorJitter(0.1, 0.1, 0.1, 0.1)(x), x));
}

TEST(Transforms, HybridOnesAreTheSameHybridized) {
  const Tensor x = gradient_image(8, 6, 3);
  nn::HybridSequential chain;
  chain.add(vision::Resize({6, 7}), vision::CenterCrop({5, 5}), vision::ToTensor(), vision::Normalize({0.5}, {0.2}));
  const Tensor want = chain(x);
  chain.hybridize();
  EXPECT_TRUE(close(chain(x), want));
  EXPECT_TRUE(close(
      vision::compose(vision::Resize({6, 7}), vision::CenterCrop({5, 5}), vision::ToTensor(), vision::Normalize({0.5}, {0.2}))(x), want));
}

}  // namespace
}  // namespace gluino::test
