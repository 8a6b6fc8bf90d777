// Exported models for the tests of the C interface, and what C++ computes with them.
#pragma once
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

#include "gluino/c_api.h"
#include "gluino/nn.h"
#include "gluino/random.h"

namespace gluino::test {

// A folder that is gone when it is left.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(std::filesystem::temp_directory_path() / ("gluino_c_api_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Eight numbers to three; exported as <path>-symbol.json, <path>-0000.params and <path>.gluino.
inline std::unique_ptr<nn::HybridSequential> export_perceptron(const std::string& path) {
  seed(7);
  auto net = std::make_unique<nn::HybridSequential>();
  net->add(nn::Dense(16, {.activation = "relu"}), nn::Dense(3));
  net->initialize();
  net->hybridize();
  (*net)(random::normal(0, 1, {2, 8}));
  net->export_model(path);
  net->save(path + ".gluino");
  return net;
}

// Pictures of any size with three channels; convolution, batch norm, pooling over all.
inline std::unique_ptr<nn::HybridSequential> export_convolutions(const std::string& path) {
  seed(8);
  auto net = std::make_unique<nn::HybridSequential>();
  net->add(nn::Conv2D(4, 3, {.padding = 1}), nn::BatchNorm(), nn::Activation("relu"), nn::GlobalAvgPool2D(), nn::Flatten(), nn::Dense(5));
  net->initialize();
  net->hybridize();
  (*net)(random::normal(0, 1, {2, 3, 16, 16}));
  net->export_model(path);
  net->save(path + ".gluino");
  return net;
}

inline gluino_buffer buffer_of(std::vector<float>& values, const Shape& shape) {
  gluino_buffer b{values.data(), values.size() * sizeof(float), GLUINO_FLOAT32, shape.ndim(), {}, nullptr};
  std::copy(shape.begin(), shape.end(), b.shape);
  return b;
}
inline gluino_buffer room_in(std::vector<float>& values) {
  return {values.data(), values.size() * sizeof(float), GLUINO_ANY_DTYPE, 0, {}, nullptr};
}

}  // namespace gluino::test
