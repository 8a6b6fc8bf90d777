// Random numbers and scratch memory for tests of kernels.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/scratch.h"

namespace gluino::test {

using Floats = std::vector<float>;

class RandomData : public ::testing::Test {
 protected:
  explicit RandomData(unsigned seed) : engine_(seed) {}
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  Floats numbers(int64_t count) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    Floats v(static_cast<size_t>(count));
    for (float& x : v) x = uniform(engine_);
    return v;
  }
  kernels::Scratch scratch() {
    return [this](int64_t bytes) -> void* {
      memory_.emplace_back(static_cast<size_t>(bytes / 4 + 16), NAN);
      const auto address = reinterpret_cast<uintptr_t>(memory_.back().data());
      return reinterpret_cast<void*>((address + 63) / 64 * 64);  // as the pool aligns it
    };
  }

  std::mt19937 engine_;
  std::vector<Floats> memory_;  // what scratch() gave
};

}  // namespace gluino::test
