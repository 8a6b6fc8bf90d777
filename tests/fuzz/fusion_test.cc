// Random programs of what passes fuse, in every floating dtype: the plan with fused kernels gives the bits of the plan without.
#include <random>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

struct Instruction {
  int kind, a, b;
  DType dtype;
};

// Shapes that broadcast to (rows, length): whole, one row, one column. One index per row, some out of range. Whole numbers, some of them
// too large for a float.
struct Inputs {
  Tensors values;
  int64_t rows, length;
  Tensor index, numbers;
};
Inputs random_inputs(std::mt19937_64& engine) {
  constexpr int64_t kLengths[] = {3, 7, 64, 130};
  constexpr DType kTypes[] = {DType::float32, DType::float32, DType::float16, DType::bfloat16, DType::float64};
  const int64_t length = kLengths[engine() % std::size(kLengths)], rows = 1 + static_cast<int64_t>(engine() % 40);
  const DType common = kTypes[engine() % std::size(kTypes)];
  constexpr DType kIndexTypes[] = {DType::int32, DType::float32, DType::int64, DType::uint8, DType::float16};
  Inputs in{{}, rows, length, random_tensor({rows}, DType::float32, engine(), 0, static_cast<double>(length + 2))};
  in.index = in.index.astype(kIndexTypes[engine() % std::size(kIndexTypes)]);
  if (engine() % 2) in.index = in.index.reshape({rows, 1});
  for (const Shape& shape : {Shape{rows, length}, Shape{rows, length}, Shape{length}, Shape{rows, 1}}) {
    const DType dtype = engine() % 3 ? common : kTypes[engine() % std::size(kTypes)];
    in.values.push_back(random_tensor(shape, dtype, engine(), -3, 3));
  }
  constexpr DType kWholeTypes[] = {DType::int32, DType::int64, DType::int8, DType::uint8};
  in.numbers = random_tensor({rows, length}, DType::float32, engine(), 0, 5).astype(kWholeTypes[engine() % std::size(kWholeTypes)]);
  if (dtype_bytes(in.numbers.dtype()) > 1 && engine() % 2) in.numbers = in.numbers * 8388609.0 + 1.0;
  return in;
}

std::vector<Instruction> random_program(std::mt19937_64& engine, size_t inputs) {
  constexpr DType kTypes[] = {DType::float32, DType::float32, DType::float16, DType::bfloat16};
  std::vector<Instruction> program;
  const size_t length = 2 + engine() % 12;
  for (size_t i = 0; i < length; ++i) {
    // Mostly the newest values, so that chains grow.
    const auto pick = [&] {
      const size_t known = inputs + i;
      return static_cast<int>(engine() % 2 ? known - 1 - engine() % std::min<size_t>(known, 3) : engine() % known);
    };
    program.push_back({static_cast<int>(engine() % 36), pick(), pick(), kTypes[engine() % std::size(kTypes)]});
  }
  return program;
}

Tensor run_instruction(const Instruction& in, const Tensor& a, const Tensor& b, const Inputs& inputs, const Tensor& gamma) {
  const int64_t length = inputs.length;
  const int last = a.ndim() - 1;
  switch (in.kind) {
    case 0: return broadcast_add(a, b);
    case 1: return broadcast_sub(a, b * 0.75);
    case 2: return broadcast_mul(a, b);
    case 3: return broadcast_div(a, abs(b) + 1);
    case 4: return tanh(a);
    case 5: return broadcast_mul(sigmoid(a), b);
    case 6: return broadcast_maximum(a, b);
    case 7: return exp(clip(a, {.a_min = -4, .a_max = 4}));
    case 8: return broadcast_mul(broadcast_greater(a, b), a);
    case 9: return where(a > 0, a, a * 0.5);
    case 10:
    case 11: return a.astype(in.dtype);
    case 12: return tanh(a).astype(in.dtype) * 2;
    case 13: return softmax(a);
    case 14: return log_softmax(a * 0.5);
    case 15: return broadcast_sub(a, a.mean(Shape{last}, true));
    case 16: return broadcast_div(a, sqrt(square(a).mean(Shape{last}, true) + 0.01));
    case 17: return broadcast_add(a, b.sum(Shape{0}, true));
    case 18: return broadcast_mul(a, square(a).max(Shape{last}, true) * 0.1);
    case 19: return softmax(broadcast_add(a * 0.125, b)) * 3;
    case 20:
    case 21: {
      if (a.shape()[last] != length) return a - 1;
      const Tensor beta = full({length}, 0.25, {.dtype = a.dtype()});
      const Tensor y = layer_norm(a, gamma.astype(a.dtype()), beta);
      return in.kind == 20 ? y : broadcast_add(y, b);
    }
    case 22: return abs(a).sum(Shape{last}, true) + 1;
    case 23: return broadcast_like(a.mean(Shape{last}, true), a) * ones_like(a) - a;
    case 24: return a.shape() == Shape{inputs.rows, length} ? pick(a, inputs.index, {.keepdims = true, .mode = "clip"}) : a;
    case 25:
      return a.shape() == Shape{inputs.rows, length}
                 ? broadcast_sub(b, pick(log_softmax(a), inputs.index, {.keepdims = true, .mode = "clip"}))
                 : b;
    case 26: {
      if (a.shape()[last] != length) return a * 2;
      const Tensor y = layer_norm(a * 0.5, gamma.astype(a.dtype()), gamma.astype(a.dtype()), {.eps = 0.01});
      return broadcast_mul(y + a, b);
    }
    case 27: return where(inputs.numbers > 2, a, b);
    case 28: return broadcast_mul(broadcast_logical_and(inputs.numbers >= 1, inputs.numbers != 3), a);
    case 29: return broadcast_mul((inputs.numbers + 1).astype(a.dtype()), a);
    case 30: return where(broadcast_equal(inputs.numbers, slice_axis(inputs.numbers, {.axis = 0, .begin = 0, .end = 1})), b, a * 0.5);
    case 31: return broadcast_add(b, expand_dims(square(a).mean(Shape{last}), {.axis = last}));
    case 32: return a.shape() == Shape{inputs.rows, length} ? broadcast_add(a, pick(softmax(a), inputs.index, {.mode = "clip"}).mean()) : a;
    case 33: return broadcast_add(tanh(a), (tanh(a) * 0.5).sum(Shape{0}, true));
    case 34: return broadcast_sub(b, (log_softmax(a) * a).mean());
    default: return square(a) - a;
  }
}

// The newest value, and one from the middle.
Tensors run_program(const std::vector<Instruction>& program, const Inputs& in, const Tensors& given) {
  Tensors values = given;
  for (const Instruction& i : program)
    values.push_back(clip(run_instruction(i, values[i.a], values[i.b], in, given[2]), {.a_min = -50, .a_max = 50}));
  return {values.back(), values[values.size() / 2] * 1};
}

// Outputs, and the gradients of the inputs when recording.
Tensors outcome(const std::vector<Instruction>& program, const Inputs& in, bool recorded) {
  auto f = hybrid([&](const Tensors& given) { return run_program(program, in, given); });
  Tensors given;
  for (const Tensor& t : in.values) given.push_back(t.copy());
  if (!recorded) return f(given);
  for (Tensor& t : given) t.attach_grad();
  Tensors results;
  {
    const auto record = autograd::record();
    results = f(given);
  }
  Tensors all;
  for (const Tensor& t : results) all.push_back(t.detach().copy());
  autograd::backward(results);
  for (const Tensor& t : given) all.push_back(t.grad().copy());
  return all;
}

TEST(FusedPrograms, HaveTheBitsOfThePlanWithoutFusion) {
  const char* wanted = std::getenv("GLUINO_FUZZ_PROGRAMS");
  const int count = wanted ? std::atoi(wanted) : 300;
  for (int number = 0; number < count; ++number) {
    std::mt19937_64 engine(static_cast<uint64_t>(number));
    const Inputs in = random_inputs(engine);
    const std::vector<Instruction> program = random_program(engine, in.values.size());
    for (const bool recorded : {false, true}) {
      SCOPED_TRACE("program " + std::to_string(number) + (recorded ? ", recorded" : ""));
      const Tensors fused = outcome(program, in, recorded);
      const SkippedPasses skipped("fuse_elementwise,fuse_rows,fuse_reductions");
      const Tensors plain = outcome(program, in, recorded);
      ASSERT_EQ(fused.size(), plain.size());
      for (size_t i = 0; i < fused.size(); ++i) ASSERT_TRUE(same_bits(fused[i], plain[i])) << "value " << i;
    }
  }
}

}  // namespace
}  // namespace gluino::test
