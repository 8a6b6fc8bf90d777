// What the tests share.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "gluino/op.h"
#include "gluino/tensor.h"

namespace gluino::test {

// Tolerances come from this table: how far apart the same computation may be in a dtype.
struct Tolerance {
  double relative, absolute;
};
Tolerance tolerance(DType dtype);

// Deterministic inputs for a sample: input i in `dtype`, or in float32 where it has a dtype of its own.
Tensors sample_inputs(const OpDef& op, const Sample& sample, DType dtype, uint64_t seed);
bool accepts(const OpDef& op, DType dtype);
Tensor random_tensor(const Shape& shape, DType dtype, uint64_t seed, double low = -1, double high = 1);

// Leaves passes out of what is compiled while it lives.
class SkippedPasses {
 public:
  explicit SkippedPasses(const char* names) { setenv("GLUINO_SKIP_PASSES", names, 1); }
  ~SkippedPasses() { unsetenv("GLUINO_SKIP_PASSES"); }
};

// Fails with the first differing element.
::testing::AssertionResult close(const Tensor& got, const Tensor& want, double relative, double absolute);
::testing::AssertionResult close(const Tensor& got, const Tensor& want);  // by the table
::testing::AssertionResult same_bits(const Tensor& got, const Tensor& want);

// The folder of vectors and models computed elsewhere, when it lies beside the checkout (or GLUINO_SHARED names it).
std::optional<std::string> shared_folder();

// GLUINO_EXPECT_ERROR(ShapeError, "has 2 axes", expression)
#define GLUINO_EXPECT_ERROR(Type, text, expression)                                                   \
  try {                                                                                               \
    expression;                                                                                       \
    ADD_FAILURE() << "no " #Type " was raised";                                                       \
  } catch (const Type& e) {                                                                           \
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << "the message is: " << e.what(); \
  }

}  // namespace gluino::test
