// Image data sets in the files their authors publish, and transforms of images.
#pragma once
#include "gluino/block.h"
#include "gluino/data.h"
#include "gluino/image.h"

namespace gluino::vision {

// ---- data sets: uint8 images (height, width, channels) and int32 labels

// An IDX file, gzipped or not.
Tensor read_idx(const std::string& path);
// MNIST's four files in a folder, gzipped or not; Fashion-MNIST's have the same names.
data::DatasetPtr mnist(const std::string& root, bool train = true);
data::DatasetPtr fashion_mnist(const std::string& root, bool train = true);
// The binary versions: data_batch_1.bin ... test_batch.bin; train.bin, test.bin.
data::DatasetPtr cifar10(const std::string& root, bool train = true);
data::DatasetPtr cifar100(const std::string& root, bool train = true, bool fine_label = false);

// root/class/image.jpg: one folder per class; classes are numbered in alphabetical order.
class ImageFolderDataset : public data::Dataset {
 public:
  explicit ImageFolderDataset(const std::string& root, image::Channels channels = image::Channels::colour);
  int64_t size() const override { return static_cast<int64_t>(items_.size()); }
  Tensors get(int64_t index) const override;
  const std::vector<std::string>& synsets() const { return synsets_; }  // the classes' names

 private:
  image::Channels channels_;
  std::vector<std::string> synsets_;
  std::vector<std::pair<std::string, int>> items_;
};

// ---- transforms of one image (height, width, channels); the hybrid ones also of a batch

class Cast : public HybridBlock {
 public:
  explicit Cast(DType dtype = DType::float32) : dtype_(dtype) {}
  Tensor forward(const Tensor& x) override { return x.astype(dtype_); }

 private:
  DType dtype_;
};
// 0 to 255 with channels last becomes 0 to 1 with channels first.
class ToTensor : public HybridBlock {
 public:
  Tensor forward(const Tensor& x) override;
};
// (x - mean) / std per channel, with channels first: after ToTensor.
class Normalize : public HybridBlock {
 public:
  explicit Normalize(std::vector<double> mean = {0}, std::vector<double> std = {1}) : mean_(std::move(mean)), std_(std::move(std)) {}
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<double> mean_, std_;
};
// size: width and height, or one number for both; with keep_ratio one number is the shorter edge's.
class Resize : public HybridBlock {
 public:
  explicit Resize(Shape size, bool keep_ratio = false, int interpolation = 1)
      : size_(std::move(size)), keep_ratio_(keep_ratio), interpolation_(interpolation) {}
  Tensor forward(const Tensor& x) override;

 private:
  Shape size_;
  bool keep_ratio_;
  int interpolation_;
};
// The middle; smaller images are enlarged first.
class CenterCrop : public HybridBlock {
 public:
  explicit CenterCrop(Shape size) : size_(std::move(size)) {}
  Tensor forward(const Tensor& x) override;

 private:
  Shape size_;
};

// Draw their numbers from data::random_engine(), hence not hybrid.
class RandomCrop : public Block {
 public:
  explicit RandomCrop(Shape size, int64_t pad = 0) : size_(std::move(size)), pad_(pad) {}  // pad: zeros on every side first
  Tensor forward(const Tensor& x) override;

 private:
  Shape size_;
  int64_t pad_;
};
// A part of random area and shape, resized.
class RandomResizedCrop : public Block {
 public:
  explicit RandomResizedCrop(Shape size, std::pair<double, double> scale = {0.08, 1}, std::pair<double, double> ratio = {3.0 / 4, 4.0 / 3})
      : size_(std::move(size)), scale_(scale), ratio_(ratio) {}
  Tensor forward(const Tensor& x) override;

 private:
  Shape size_;
  std::pair<double, double> scale_, ratio_;
};
class RandomFlipLeftRight : public Block {
 public:
  explicit RandomFlipLeftRight(double p = 0.5) : p_(p) {}
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
};
class RandomFlipTopBottom : public Block {
 public:
  explicit RandomFlipTopBottom(double p = 0.5) : p_(p) {}
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
};
// Each by a random factor between 1 - x and 1 + x (hue: turned by up to x of a circle), in random order. float32 comes out.
class RandomColorJitter : public Block {
 public:
  explicit RandomColorJitter(double brightness = 0, double contrast = 0, double saturation = 0, double hue = 0)
      : brightness_(brightness), contrast_(contrast), saturation_(saturation), hue_(hue) {}
  Tensor forward(const Tensor& x) override;

 private:
  double brightness_, contrast_, saturation_, hue_;
};
class RandomBrightness : public RandomColorJitter {
 public:
  explicit RandomBrightness(double brightness) : RandomColorJitter(brightness) {}
};
class RandomContrast : public RandomColorJitter {
 public:
  explicit RandomContrast(double contrast) : RandomColorJitter(0, contrast) {}
};
class RandomSaturation : public RandomColorJitter {
 public:
  explicit RandomSaturation(double saturation) : RandomColorJitter(0, 0, saturation) {}
};
class RandomHue : public RandomColorJitter {
 public:
  explicit RandomHue(double hue) : RandomColorJitter(0, 0, 0, hue) {}
};

// One transform after the other: transform_first(dataset, compose(RandomCrop({28, 28}, 2), ToTensor())).
template <class... B>
std::function<Tensor(const Tensor&)> compose(B... transforms) {
  std::vector<std::shared_ptr<Block>> all{std::make_shared<B>(std::move(transforms))...};
  return [all = std::move(all)](Tensor x) {
    for (const auto& block : all) x = (*block)(x);
    return x;
  };
}

}  // namespace gluino::vision
