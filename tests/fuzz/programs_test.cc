// Random small programs: eager = hybridized = exported and imported, forward and backward.
#include <cstdlib>
#include <random>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

// A program is a list of instructions over a growing list of (4, 6) tensors; the same list runs in every mode.
struct Instruction {
  int kind, a, b;
  double number;
};

std::vector<Instruction> random_program(std::mt19937_64& engine) {
  std::vector<Instruction> program;
  const int length = 3 + static_cast<int>(engine() % 12);
  for (int i = 0; i < length; ++i) {
    auto pick = [&] { return static_cast<int>(engine() % static_cast<uint64_t>(i + 3)); };  // inputs, the parameter, earlier results
    program.push_back({static_cast<int>(engine() % 20), pick(), pick(), 0.25 + static_cast<double>(engine() % 8) / 4});
  }
  return program;
}

Tensor run_instruction(const Instruction& in, const Tensor& a, const Tensor& b, bool branches) {
  switch (in.kind) {
    case 0: return a + b;
    case 1: return a - b * in.number;
    case 2: return a * b;
    case 3: return a / (abs(b) + 1);
    case 4: return tanh(a);
    case 5: return sigmoid(a) * b;
    case 6: return broadcast_maximum(a, b);
    case 7: return softmax(a);
    case 8: return a - a.mean(Shape{1}, true);
    case 9: return a.reshape({6, 4}).transpose().copy();
    case 10: return dot(a, b, {.transpose_b = true}).reshape({-1})[Slice(0, 8)].sum() * a;
    case 11: return concat({a[{Slice(), Slice(3, 6)}], b[{Slice(), Slice(0, 3)}]}, {.dim = 1});
    case 12: {
      Tensor c = a.copy();
      c += b;
      c *= full({6}, in.number);
      return c;
    }
    case 13: {
      Tensor c = a.copy();
      c[{Slice(1, 3), Slice({}, {}, 2)}] = b[{Slice(0, 2), Slice(0, 3)}];
      return c;
    }
    case 14: return where(a > 0, a, b * in.number);
    case 15: return dropout(a, {.p = 0.3});
    case 16: return a * random::uniform(0.5, 1.5, {4, 6}, {a.dtype()});
    case 17: return branches && a.sum() > b.sum() ? a * 2 : b + in.number;
    case 18: return a[{Slice(), 2}].reshape({4, 1}) * b;
    default: return clip(a, {.a_min = -1, .a_max = 1}) + ones_like(b) * in.number;
  }
}

// One result of shape (4, 6), kept in range so that long products do not overflow.
Tensor run_program(const std::vector<Instruction>& program, const Tensor& x, const Tensor& y, const Tensor& w, bool branches) {
  Tensors values{x, y, w};
  for (const Instruction& in : program) values.push_back(tanh(run_instruction(in, values[in.a], values[in.b], branches)));
  return values.back() + values[values.size() / 2];
}

bool exportable(const std::vector<Instruction>& program) {
  return std::none_of(program.begin(), program.end(), [](const Instruction& i) { return i.kind == 15 || i.kind == 16 || i.kind == 17; });
}

class Programs : public ::testing::Test {
 protected:
  struct Outcome {
    Tensor y;
    Tensors gradients;
  };
  static Outcome outcome(const std::function<Tensor(const Tensor&, const Tensor&)>& f, Tensor x, Tensor y, Tensor w) {
    for (Tensor* t : {&x, &y, &w}) t->attach_grad();
    seed(99);
    Tensor result;
    {
      const auto record = autograd::record();
      result = f(x, y);
    }
    const Tensor kept = result.detach().copy();
    result.backward();
    return {kept, {x.grad().copy(), y.grad().copy(), w.grad().copy()}};
  }
};

TEST_F(Programs, GiveTheSameInEveryMode) {
  const char* wanted = std::getenv("GLUINO_FUZZ_PROGRAMS");
  const int count = wanted ? std::atoi(wanted) : 400;
  for (int number = 0; number < count; ++number) {
    SCOPED_TRACE("program " + std::to_string(number));
    std::mt19937_64 engine(static_cast<uint64_t>(number));
    const std::vector<Instruction> program = random_program(engine);
    const Tensor x = random_tensor({4, 6}, DType::float32, engine()), y = random_tensor({4, 6}, DType::float32, engine());
    const Tensor w = random_tensor({4, 6}, DType::float32, engine());
    auto body = [&](const Tensor& a, const Tensor& b) { return run_program(program, a, b, w, true); };
    const Outcome eager = outcome(body, x, y, w);
    auto f = hybrid(body);
    for (int call = 0; call < 2; ++call) {
      const Outcome compiled = outcome([&](const Tensor& a, const Tensor& b) { return f(a, b); }, x, y, w);
      ASSERT_TRUE(close(compiled.y, eager.y)) << "call " << call;
      for (size_t i = 0; i < 3; ++i)
        ASSERT_TRUE(close(compiled.gradients[i], eager.gradients[i], 1e-4, 1e-5)) << "gradient " << i << ", call " << call;
    }
    if (!exportable(program)) continue;
    const Symbol loaded = Symbol::from_json(f.cache().symbol().to_json());
    TensorMap inputs{{"data0", x}, {"data1", y}};
    for (const std::string& name : loaded.list_arguments())
      if (const Tensor t = f.cache().captured(name); t.defined()) inputs[name] = t.detach();
    for (const char* name : {"data0", "data1"}) {
      const std::vector<std::string> names = loaded.list_inputs();
      if (std::find(names.begin(), names.end(), name) == names.end()) inputs.erase(name);
    }
    const autograd::Scope training(false, true);
    ASSERT_TRUE(close(loaded.eval(inputs)[0], eager.y)) << loaded;
  }
}

}  // namespace
}  // namespace gluino::test
