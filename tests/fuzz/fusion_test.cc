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

// Shapes that broadcast to (rows, length): whole, one row, one column.
struct Inputs {
  Tensors values;
  int64_t length;
};
Inputs random_inputs(std::mt19937_64& engine) {
  constexpr int64_t kLengths[] = {3, 7, 64, 130};
  constexpr DType kTypes[] = {DType::float32, DType::float32, DType::float16, DType::bfloat16, DType::float64};
  const int64_t length = kLengths[engine() % std::size(kLengths)], rows = 1 + static_cast<int64_t>(engine() % 40);
  const DType common = kTypes[engine() % std::size(kTypes)];
  Inputs in{{}, length};
  for (const Shape& shape : {Shape{rows, length}, Shape{rows, length}, Shape{length}, Shape{rows, 1}}) {
    const DType dtype = engine() % 3 ? common : kTypes[engine() % std::size(kTypes)];
    in.values.push_back(random_tensor(shape, dtype, engine(), -3, 3));
  }
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
    program.push_back({static_cast<int>(engine() % 25), pick(), pick(), kTypes[engine() % std::size(kTypes)]});
  }
  return program;
}

Tensor run_instruction(const Instruction& in, const Tensor& a, const Tensor& b, int64_t length) {
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
      const Tensor gamma = full({length}, 1.5, {.dtype = a.dtype()}), beta = full({length}, 0.25, {.dtype = a.dtype()});
      const Tensor y = layer_norm(a, gamma, beta);
      return in.kind == 20 ? y : broadcast_add(y, b);
    }
    case 22: return abs(a).sum(Shape{last}, true) + 1;
    case 23: return broadcast_like(a.mean(Shape{last}, true), a) * ones_like(a) - a;
    default: return square(a) - a;
  }
}

// The newest value, and one from the middle.
Tensors run_program(const std::vector<Instruction>& program, const Inputs& in, const Tensors& given) {
  Tensors values = given;
  for (const Instruction& i : program)
    values.push_back(clip(run_instruction(i, values[static_cast<size_t>(i.a)], values[static_cast<size_t>(i.b)], in.length),
                          {.a_min = -50, .a_max = 50}));
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
