// Random impure programs: state, aliases, modes, arguments of all kinds, custom gradients, second order, branches, rebinding, hooks,
// deferred shapes, casts, views from outside, calls that fail half way, loops whose bodies have effects, update what they find and pass it
// on. Each keeps a transcript of all
// that its user could see; the transcript is the same eagerly, hybridized and with verify.
#include <cstdlib>
#include <random>
#include <set>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

constexpr int kKinds = 62, kCalls = 15;

struct Instruction {
  int kind, a, b;
  double number;
};
struct Program {
  std::vector<Instruction> body;
  std::vector<int> calls;  // what the driver does
  uint64_t seed;
};

Program random_program(uint64_t number) {
  std::mt19937_64 engine(number);
  Program p{.seed = engine()};
  const int length = 2 + static_cast<int>(engine() % 8);
  for (int i = 0; i < length; ++i) {
    auto pick = [&] { return static_cast<int>(engine() % static_cast<uint64_t>(i + 4)); };
    p.body.push_back({static_cast<int>(engine() % kKinds), pick(), pick(), 0.25 + static_cast<double>(engine() % 8) / 4});
  }
  const int calls = 3 + static_cast<int>(engine() % 4);
  for (int i = 0; i < calls; ++i) p.calls.push_back(static_cast<int>(engine() % kCalls));
  return p;
}

std::string text_of(const Program& p, int number) {
  std::string text = "program " + std::to_string(number) + ":";
  for (const Instruction& in : p.body)
    text += " " + std::to_string(in.kind) + "(" + std::to_string(in.a) + ", " + std::to_string(in.b) + ")";
  text += "; calls";
  for (int call : p.calls) text += " " + std::to_string(call);
  return text;
}

struct Straight final : autograd::Function {  // a step whose gradient is that of a line
  double slope = 1;
  Tensor seen;
  Tensors forward(const Tensors& in) override {
    seen = in[0] * slope;
    return {sign(in[0])};
  }
  Tensors backward(const Tensors& heads) override { return {heads[0] * slope + seen * 0}; }
};

// What the program's function knows from outside.
struct World {
  Tensor weight, state, flag;
  Tensor state_row;  // a view of the state
  Tensor member;     // rebound by the function
  Setting<double> factor{1.0};
  nn::HybridSequential net;     // shapes deferred until it is used
  nn::HybridSequential hooked;  // counts its calls
  double hook_calls = 0;
};
// Arguments that are no tensors.
struct Rest {
  double number = 1;
  bool is_doubled = false;
  std::string label;
  std::optional<double> shift;
  std::vector<int64_t> counts;
  auto members() { return std::tie(number, is_doubled, label, shift, counts); }
};
Rest rest_of(int call) {
  Rest rest{.number = call % 3 == 0 ? 0.5 : 1.5 + 1e-9 * call, .is_doubled = call % 4 == 1};
  if (call % 5 == 2) rest.label = call % 2 ? "a" : "bc";
  if (call % 5 == 3) rest.shift = call * 1e-7;
  rest.counts.resize(static_cast<size_t>(call % 3), call);
  return rest;
}

using Results = std::vector<Tensor>;

Tensor run_instruction(World& w, const Instruction& in, Tensor a, const Tensor& b, const Rest& rest) {
  switch (in.kind) {
    case 0: return a + b * in.number;
    case 1: return tanh(a) * b;
    case 2: return softmax(a) - b;
    case 3: return a * rest.number;
    case 4: return a * w.weight + w.state;
    case 5: w.state += a.detach() * 0.25; return a + w.state;
    case 6: {
      const auto pause = autograd::pause(autograd::is_training());
      w.state.assign(w.state * 0.5 + a * 0.25);
      return a * b;
    }
    case 7: {
      Tensor scale;
      {
        const auto pause = autograd::pause();
        scale = a * b;
      }
      return a + scale;
    }
    case 8: {
      const auto train = autograd::train_mode();
      return dropout(a, {.p = 0.3});
    }
    case 9: {
      const auto predict = autograd::predict_mode();
      return dropout(a, {.p = 0.3}) * b;
    }
    case 10: return dropout(a, {.p = 0.5}) + b;
    case 11: {
      const auto f = std::make_shared<Straight>();
      f->slope = in.number;
      return autograd::call(f, {a})[0] + b;
    }
    case 12: {
      Tensor v = a.reshape({-1});
      v += 1;
      return a * b;
    }
    case 13: a += b; return a * in.number;  // an argument may be changed
    case 14: {
      Tensor d = a.detach();
      d *= 0.5;
      return a + b;
    }
    case 15: return w.member * 0.5 + a;
    case 16: w.member = tanh(a).detach() + w.member * 0.5; return a - b;
    case 17: return a.sum() > b.sum() ? a * 2 : b + 1;
    case 18: return w.flag.item<int64_t>() % 2 == 0 ? a : a * b;
    case 19: return a * w.factor.get();
    case 20: return a * static_cast<double>(a.extent(0));
    case 21: {
      Tensor z = (a * in.number).copy();
      z.attach_grad();
      {
        const auto record = autograd::record(autograd::is_training());
        (z * z).sum().backward();
      }
      return b + z.grad() * 0.125;
    }
    case 22: return autograd::is_training() ? a * 2 : autograd::is_recording() ? a * 3 : a + b;
    case 23: a[0] = b[1]; return a;
    case 24: return where(a > b, a, b * in.number);
    case 25: return w.net(a) + b;
    case 26: return random::uniform(0, 1, {4, 6}) * a;
    case 27: return a[{Slice(0, 2)}].sum() * b;
    case 28: return concat({a[{Slice(), Slice(3, 6)}], b[{Slice(), Slice(0, 3)}]}, {.dim = 1});
    case 29: {
      Tensor row = a[2];
      row *= w.weight[1];
      return a * b;
    }
    case 30: {
      const auto pause = autograd::pause(autograd::is_training());
      a *= 0.5;
      return b * in.number;
    }
    case 31: {
      Tensor row = a.detach()[1];
      row.assign(b[0] * in.number);
      return a + row;
    }
    case 32: {
      const Tensor flat = a.reshape({-1}), rows = a[Slice(1, 3)];
      {
        const auto pause = autograd::pause(autograd::is_training());
        a[1] = b[0];
      }
      return a + flat.sum() + rows.sum();
    }
    case 33: {
      Tensor flat = a.reshape({6, 4});
      a += b * w.weight;
      flat[0] *= 0.5;
      return a;
    }
    case 34: {
      const auto pause = autograd::pause(autograd::is_training());
      w.weight *= 0.75;
      return a * w.weight;
    }
    case 35: w.state[0] *= 0.5; return a + w.state[{Slice(0, 1)}];
    case 36: return a.astype(DType::float64).astype(DType::float32) * 0.5 + sign(b).astype(DType::int64).astype(DType::float32);
    case 37: return w.hooked(a) + b;
    case 38: return a + w.state_row;
    case 39: w.state_row *= 0.5; return a + w.state;
    case 40: {
      const auto pause = autograd::pause(autograd::is_training());
      w.state_row.assign(b[0]);
      return a + w.state;
    }
    case 41: w.state += b * w.weight; return a + w.state_row;
    case 42:  // an error of the user's, half way
      w.state += 0.25;
      if (rest.number < 1) throw std::logic_error("half way");
      return a + w.state;
    case 43: {  // an index that may be out of range, in something that is needed
      w.state *= 0.5;
      const Tensor picked = b[w.flag * 3];
      w.state += picked.detach() * 0.1;
      return a + picked;
    }
    case 44: {  // the same in something that nothing needs, before a variable is bound
      [[maybe_unused]] const Tensor picked = b[w.flag * 3];
      w.member = a.detach() * 0.5;
      return a + b;
    }
    case 45: try { return a + b[w.flag * 3];
      } catch (const IndexError&) {
        return a * 2;
      }
    case 46: {
      Tensor sum = rest.label.empty() ? a : a * static_cast<double>(rest.label.size());
      for (int64_t n : rest.counts) sum = sum + static_cast<double>(n);
      return (rest.is_doubled ? sum * 2 : sum) + rest.shift.value_or(0.25);
    }
    case 47: try { return a + dot(a, b);  // shapes that do not fit
      } catch (const ShapeError&) {
        return a * 0.75;
      }
    case 48: {  // as many rows as steps
      const auto [rows, vars] = while_loop([](const Tensors& v) { return (v[0] * v[0]).sum() < 12; },
                                           [&](const Tensors& v) -> TensorsPair {
                                             return {{v[0] * in.number}, {v[0] * 1.5 + 0.5}};
                                           },
                                           {a}, 4);
      return vars[0] + rows[0].sum() * static_cast<double>(rows[0].extent(0));
    }
    case 49: {
      Tensor middle = a * in.number;
      if (!autograd::is_recording()) middle.attach_grad();
      return middle * b;
    }
    case 50: {
      const auto [rows, states] = foreach (
          [&](const Tensors& row, const Tensors& state) -> TensorsPair {
            return {{tanh(row[0] * w.weight[0]) + state[0]}, {state[0] * 0.5 + row[0]}};
          },
          {a}, {b[1]});
      return rows[0] + states[0];
    }
    case 51: w.factor = w.factor.get() > 1.5 ? 0.5 : w.factor.get() + 0.5; return a * w.factor.get();
    case 52: {
      const Tensor row = a[kEllipsis];
      return a[{kEllipsis, kNewAxis}].reshape({4, 6}) + row * b[{Slice(), Slice(5, std::nullopt, -1)}];
    }
    case 53: {  // a body that updates what the function has updated before
      w.state += 0.125;
      const auto [rows, states] = foreach (
          [&](const Tensors& row, const Tensors& state) -> TensorsPair {
            w.state *= 0.75;
            return {{row[0] + w.state[0]}, {state[0] * 0.5 + row[0]}};
          },
          {a}, {b[1]});
      return rows[0] + states[0] + w.state;
    }
    case 54: {  // a body that updates a value of the function, or what it was given
      Tensor middle = b * in.number, start = a[0] * 0.5;
      const auto [rows, ends] = while_loop([](const Tensors& v) { return v[0].sum() < 4; },
                                           [&](const Tensors& v) -> TensorsPair {
                                             middle[1] = v[0];
                                             Tensor next = v[0];
                                             if (in.b % 2) next += 0.25;
                                             return {{next * 1}, {next * 1.5 + 0.5}};
                                           },
                                           {start}, 3);
      return middle + ends[0] + start + rows[0].sum();
    }
    case 55: {  // what a branch passes on is updated, or what it may have passed on
      Tensor middle = a * in.number;
      Tensor passed = cond([](const Tensors& v) { return v[0].sum() > 0; }, [&](const Tensors&) { return Tensors{middle}; },
                           [](const Tensors& v) { return Tensors{v[1] * 2}; }, {a, b})[0];
      if (in.b % 2)
        passed += 0.5;
      else
        middle *= 0.5;
      return passed + middle;
    }
    case 56: {  // zeros flow into a gradient of the user's own
      const auto f = std::make_shared<Straight>();
      f->slope = in.number;
      return sign(autograd::call(f, {a})[0]) + b;
    }
    case 57: {  // a body keeps its values
      Tensors kept;
      const auto [rows, ends] = foreach (
          [&](const Tensors& row, const Tensors&) -> TensorsPair {
            kept.push_back(row[0] * 2);
            return {{row[0] * w.weight[0]}, {}};
          },
          {a}, {});
      return rows[0] + kept.back() * static_cast<double>(kept.size());
    }
    case 58: {
      const Tensors out = cond([](const Tensors& v) { return v[0].sum() > v[1].sum(); },
                               [&](const Tensors& v) {
                                 w.state += 0.25;
                                 return Tensors{v[0] + w.state_row};
                               },
                               [&](const Tensors& v) { return Tensors{v[1] * w.state}; }, {a, b});
      return out[0] + w.state;
    }
    case 59: {  // made of numbers, and changed
      Tensor made = tensor({0.5, -1.0, 2.0, in.number, rest.number, 0.25});
      made += b[0];
      const Tensor before = made * 2.0;
      made[Slice(1, 3)] = a[1][Slice(1, 3)];
      if (rest.is_doubled) made *= 2;
      return a + made + before;
    }
    case 60: {  // made of values that were read, and kept
      Tensor made = tensor({a[0][0].item<float>(), 1.0f, 0.5f, 0.0f, 2.0f, 1.0f});
      Tensor view = made.reshape({1, 6});
      made -= 0.5;
      w.member = made;
      return a * view + b;
    }
    default: return clip(a, {.a_min = -1, .a_max = 1}) + in.number;
  }
}

Results run_body(World& w, const Program& p, const Tensor& x, const Tensor& y, const Rest& rest) {
  Tensors values{x, y, w.state, x * 0.5};
  for (const Instruction& in : p.body) {
    Tensor a = values[in.a];
    if (std::set{12, 13, 14, 23, 29, 30, 31, 32, 33, 52}.contains(in.kind))  // while recording only what is no leaf may be changed
      if (in.a < 2 && autograd::is_recording()) a = a * 1.0;
    if (in.a == 2 && autograd::is_recording()) a = a.copy();
    values.push_back(tanh(run_instruction(w, in, a, values[in.b], rest)));
  }
  Results results{values.back() + values[values.size() / 2]};
  if (p.seed % 3 == 0) results.push_back(values[p.seed % values.size()]);
  if (p.seed % 5 == 0) results.push_back(Tensor());
  if (p.seed % 7 == 0 && rest.number > 1) results.push_back(values.back().reshape({-1}));
  if (p.seed % 4 == 1) results.push_back(values.back() + values[values.size() / 2]);  // equal to the first, and another tensor
  return results;
}

template <class Wrap>
Tensors transcript(const Program& p, Wrap wrap) {
  seed(p.seed);
  std::mt19937_64 engine(p.seed);
  World w;
  auto tensor_of = [&] { return random_tensor({4, 6}, DType::float32, engine()); };
  w.weight = tensor_of();
  w.weight.attach_grad();
  w.state = tensor_of();
  w.state_row = w.state[1];
  w.member = tensor_of();
  w.flag = zeros({1}, {DType::int64});
  w.net.add(nn::Dense(5, {.flatten = false}), nn::Dropout(0.3), nn::Dense(6, {.flatten = false}));
  w.net.initialize(init::uniform(0.5));
  w.hooked.add(nn::Dense(6, {.flatten = false, .in_units = 6}));
  w.hooked.initialize(init::uniform(0.5));
  w.hooked.add_hook([&](nn::Block&, const Tensors&, const Tensors&) { w.hook_calls += 1; });
  auto f = wrap([&](const Tensor& x, const Tensor& y, const Rest& rest) { return run_body(w, p, x, y, rest); });
  Tensors seen;
  auto note = [&](const Tensor& t) {
    if (t.is_symbolic()) throw UserError("a tensor has no value after a call");
    seen.push_back(t.defined() ? t.detach().copy() : Tensor());
  };
  auto note_world = [&] {
    for (const Tensor& t : {w.state, w.state_row, w.member, full({1}, w.factor.get())}) note(t);
    note(full({1}, w.hook_calls));
    note(random::uniform(0, 1, {2}));
  };
  Tensor x = tensor_of(), y = tensor_of();
  Tensors waiting;
  for (int call : p.calls) {
    const Rest rest = rest_of(call);
    if (call == 3) w.factor = w.factor.get() + 0.5;
    if (call == 4) w.flag.assign(static_cast<double>(w.flag.item<int64_t>() + 1));
    if (call == 5) w.member = tensor_of();
    if (call == 6 || call == 13) w.weight.attach_grad(call == 13 ? GradReq::add : GradReq::write);
    const bool recorded = call % 2 == 1 || call == 12 || call == 14;
    Tensor in = recorded ? x.copy() : x;
    if (recorded) in.attach_grad();
    Tensor joins = concat({y, y[Slice(0, 1)]}, {.dim = 0}), view = joins[Slice(0, 4)];
    Results results;
    try {
      const autograd::Scope scope(recorded, call >= 6);
      if (call == 12) joins += concat({in[Slice(0, 1)], in}, {.dim = 0});  // its view from outside joins the tape with it
      results = call == 2    ? f(x, x, rest)
                : call == 8  ? f(x, x.reshape({4, 6}), rest)
                : call == 11 ? f(in, tanh(in * w.weight) + y, rest)  // one argument is computed from the other
                : call == 12 ? f(in, view, rest)
                             : f(in, y, rest);
      for (const Tensor& r : results) note(r);
      if (call == 7 || call == 11) {  // second order
        const Tensor g = autograd::grad({results[0]}, {in}, {}, {.create_graph = true})[0];
        note(g);
        results[0] = (g * g).sum() + results[0].sum();
      }
    } catch (const std::logic_error&) {  // of case 42
      note({});
      note_world();
      continue;
    } catch (const IndexError&) {  // of cases 43 and 44
      note({});
      note_world();
      continue;
    }
    if (recorded && call == 9) {
      waiting.push_back(results[0]);  // its backward pass comes after the next calls
    } else if (recorded) {
      if (call == 14)  // each result by itself: what it does not depend on keeps its gradient
        for (size_t i = results.size(); i-- > 1;) {
          if (!results[i].defined()) continue;
          w.weight.grad().assign(7.0), in.grad().assign(7.0);
          try {
            results[i].backward({}, true);
          } catch (const UserError& e) {
            if (std::string(e.what()).find("was not computed inside") == std::string::npos) throw;
          }
          note(in.grad());
          note(w.weight.grad());
        }
      results[0].backward();
      note(in.grad());
      note(w.weight.grad());
    }
    if ((recorded && call != 9 && p.seed % 2 == 1) || call == 10) {  // each may be the caller's own tensor, or a view of another
      const autograd::Scope paused(false, std::nullopt);
      for (Tensor& r : results)
        if (r.defined()) r += 1;
      for (const Tensor& r : results) note(r);
    }
    note(x), note(y), note(view);
    note_world();
  }
  for (const Tensor& t : waiting) {
    t.backward();
    note(w.weight.grad());
  }
  return seen;
}

// What a mode gives, or the error it ends with.
template <class Wrap>
std::pair<Tensors, std::string> outcome(const Program& p, Wrap wrap) {
  try {
    return {transcript(p, wrap), ""};
  } catch (const UserError& e) {
    return {{}, e.what()};
  }
}

TEST(ImpurePrograms, GiveTheSameInEveryMode) {
  const char* wanted = std::getenv("GLUINO_FUZZ_PROGRAMS");
  const char* first = std::getenv("GLUINO_FUZZ_FIRST");
  const int begin = first ? std::atoi(first) : 0, count = wanted ? std::atoi(wanted) : 500;
  int with_errors = 0;
  for (int number = begin; number < begin + count; ++number) {
    const Program p = random_program(static_cast<uint64_t>(number));
    SCOPED_TRACE(text_of(p, number));
    const auto [eager, eager_error] = outcome(p, [](auto f) { return f; });
    with_errors += !eager_error.empty();
    const bool has_loop = std::ranges::any_of(p.body, [](const Instruction& in) { return std::set{48, 50, 53, 54, 57}.contains(in.kind); });
    // Eager code sees at backward that a value it needs is gone; a compiled program may still have it. A compiled call is released as a
    // whole, so that state is a value afterwards; of an eager one a part may be left that nothing flows through any more.
    if (eager_error.find("was changed in place after it was recorded") != std::string::npos) continue;
    if (eager_error.find("has already been released") != std::string::npos) continue;
    for (bool verify : {false, true}) {
      SCOPED_TRACE(verify ? "with verify" : "hybridized");
      const auto [compiled, error] = outcome(p, [&](auto f) { return hybrid(f, {.verify = verify}); });
      // A variable is bound to another tensor, and then something in the call cannot be compiled: an error that says so.
      if (error.find("the function binds a variable from outside to another tensor") != std::string::npos) continue;
      // A loop's backward pass runs its body again from what the loop was given.
      if (has_loop && error.find("was changed in place after it was recorded") != std::string::npos) continue;
      // What is left of a call after one backward pass is made again from what it was given, and that has been changed: an error, too.
      if (error.find("is made again to be differentiated once more") != std::string::npos) continue;
      ASSERT_EQ(error.empty(), eager_error.empty()) << "eager: " << eager_error << "\ncompiled: " << error;
      ASSERT_EQ(compiled.size(), eager.size());
      for (size_t i = 0; i < eager.size(); ++i) {
        ASSERT_EQ(compiled[i].defined(), eager[i].defined()) << "entry " << i;
        if (!eager[i].defined()) continue;
        ASSERT_TRUE(close(compiled[i], eager[i], 1e-3, 1e-4)) << "entry " << i << "\n" << compiled[i] << "\n" << eager[i];
      }
    }
  }
  EXPECT_LE(with_errors, count / 4 + 1) << "most programs must be legal";
}

}  // namespace
}  // namespace gluino::test
