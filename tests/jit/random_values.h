// Random inputs for compiled code, special values among them, and their comparison.
#pragma once
#include <cmath>
#include <cstring>
#include <random>

#include "support/support.h"

namespace gluino::test {

// Values of a compute type, stored as their bytes.
struct Values {
  Shape shape;
  std::vector<char> bytes;
};

template <class T>
T special_or_random(std::mt19937_64& engine) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr T kSpecial[] = {0, T(-0.0), 1, -1, T(0.5), 2, T(-3), T(1e-30), T(1e30), T(88.5), T(-103), INFINITY, -INFINITY, NAN};
    if (engine() % 4 == 0) return kSpecial[engine() % std::size(kSpecial)];
    return static_cast<T>(std::normal_distribution<double>(0, engine() % 2 ? 1 : 20)(engine));
  } else {
    constexpr T kSpecial[] = {0, 1, -1, 2, 7, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
    return engine() % 4 ? static_cast<T>(engine() % 41) - 20 : kSpecial[engine() % std::size(kSpecial)];
  }
}
template <class T>
Values random_values(const Shape& shape, std::mt19937_64& engine) {
  Values v{shape, std::vector<char>(shape.elements() * sizeof(T))};
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const T x = special_or_random<T>(engine);
    std::memcpy(v.bytes.data() + i * static_cast<int64_t>(sizeof(T)), &x, sizeof(T));
  }
  return v;
}
inline Values random_values(ComputeType type, const Shape& shape, std::mt19937_64& engine) {
  switch (type) {
    case ComputeType::f32: return random_values<float>(shape, engine);
    case ComputeType::f64: return random_values<double>(shape, engine);
    case ComputeType::i32: return random_values<int32_t>(shape, engine);
    case ComputeType::i64: return random_values<int64_t>(shape, engine);
  }
  return {};
}

template <class T>
::testing::AssertionResult same_bits(const std::vector<char>& a, const std::vector<char>& b) {
  for (size_t i = 0; i < a.size() / sizeof(T); ++i) {
    T x, y;
    std::memcpy(&x, a.data() + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b.data() + i * sizeof(T), sizeof(T));
    if (std::memcmp(&x, &y, sizeof(T)) != 0 && !(x != x && y != y))
      return ::testing::AssertionFailure() << "element " << i << ": interpreted " << x << ", compiled " << y;
  }
  return ::testing::AssertionSuccess();
}
inline ::testing::AssertionResult same_bits(ComputeType type, const std::vector<char>& a, const std::vector<char>& b) {
  switch (type) {
    case ComputeType::f32: return same_bits<float>(a, b);
    case ComputeType::f64: return same_bits<double>(a, b);
    case ComputeType::i32: return same_bits<int32_t>(a, b);
    case ComputeType::i64: return same_bits<int64_t>(a, b);
  }
  return ::testing::AssertionFailure();
}

}  // namespace gluino::test
