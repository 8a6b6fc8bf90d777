// Bodies of foreach, while_loop and cond that update what they were not given, or what they were: the same in every mode.
#include "every_mode.h"

namespace gluino::test {
namespace {

// What a body finds outside of it.
struct Outside {
  Tensor state, row;  // the row is a view of the state
  Tensor value;       // computed by the function around the body
};
using Change = std::function<void(Outside&, Tensor& given, const Tensor& by)>;
const std::vector<std::pair<const char*, Change>> kChanges = {
    {"nothing", [](Outside&, Tensor&, const Tensor&) {}},
    {"a state", [](Outside& o, Tensor&, const Tensor& by) { o.state += by; }},
    {"a part of a state", [](Outside& o, Tensor&, const Tensor& by) { o.state[0] = by; }},
    {"a state under pause",
     [](Outside& o, Tensor&, const Tensor& by) {
       const auto pause = autograd::pause(autograd::is_training());
       o.state.assign(o.state * 0.5 + by);
     }},
    {"a view of a state", [](Outside& o, Tensor&, const Tensor& by) { o.row *= by; }},
    {"a value", [](Outside& o, Tensor&, const Tensor& by) { o.value *= by; }},
    {"a part of a value", [](Outside& o, Tensor&, const Tensor& by) { o.value[1] = by; }},
    {"a view of a value",
     [](Outside& o, Tensor&, const Tensor& by) {
       Tensor flat = o.value.reshape({-1});
       flat += by.mean();
     }},
    {"what it was given", [](Outside&, Tensor& given, const Tensor& by) { given += by; }},
    {"a part of what it was given", [](Outside&, Tensor& given, const Tensor& by) { given[1] = by[0]; }},
};

using Loop = std::function<Tensor(Outside&, const Change&, const Tensor& x, Tensor& start)>;
const std::vector<std::pair<const char*, Loop>> kLoops = {
    {"foreach over states",
     [](Outside& o, const Change& change, const Tensor& x, Tensor& start) {
       const auto [rows, ends] = foreach (
           [&](const Tensors& row, const Tensors& state) -> TensorsPair {
             Tensor given = state[0];
             change(o, given, row[0]);
             return {{row[0] + o.state.sum() + o.value.sum()}, {given * 0.5 + row[0]}};
           },
           {x}, {start});
       return rows[0] + ends[0];
     }},
    {"foreach over rows",
     [](Outside& o, const Change& change, const Tensor& x, Tensor& start) {
       const auto [rows, ends] = foreach (
           [&](const Tensors& row, const Tensors& state) -> TensorsPair {
             Tensor given = row[0];
             change(o, given, state[0]);
             return {{given + o.state.sum()}, {state[0] * 0.5 + given}};
           },
           {x}, {start});
       return rows[0] + ends[0];
     }},
    {"while_loop",
     [](Outside& o, const Change& change, const Tensor& x, Tensor& start) {
       const auto [rows, ends] = while_loop([](const Tensors& v) { return v[0].sum() < 20; },
                                            [&](const Tensors& v) -> TensorsPair {
                                              Tensor given = v[0];
                                              change(o, given, x[0]);
                                              return {{given + o.state.sum() + o.value.sum()}, {given * 1.5 + 0.5}};
                                            },
                                            {start}, 5);
       return x + ends[0] + rows[0].sum();
     }},
    {"condition of while_loop",
     [](Outside& o, const Change& change, const Tensor& x, Tensor& start) {
       const auto [rows, ends] = while_loop(
           [&](const Tensors& v) {
             Tensor given = v[0];
             change(o, given, x[0]);
             return given.sum() < 20;
           },
           [&](const Tensors& v) -> TensorsPair {
             return {{v[0] + o.state.sum()}, {v[0] * 1.5 + 0.5}};
           },
           {start}, 5);
       return x + ends[0] + o.value.sum();
     }},
    {"cond",
     [](Outside& o, const Change& change, const Tensor& x, Tensor& start) {
       return cond([](const Tensors& in) { return in[0].sum() > 6; },
                   [&](const Tensors& in) -> Tensors {
                     Tensor given = in[0];
                     change(o, given, x[0]);
                     return {x * given + o.state.sum() + o.value.sum()};
                   },
                   [&](const Tensors& in) -> Tensors {
                     Tensor given = in[0];
                     change(o, given, x[1]);
                     return {x - given};
                   },
                   {start})[0];
     }},
};

// How the function comes to the loop.
enum class Before { nothing, updated, updated_under_pause };

TEST(PromiseBodies, UpdateWhatTheyLike) {
  for (const auto& [loop_name, loop] : kLoops)
    for (const auto& [change_name, change] : kChanges)
      for (const Before before : {Before::nothing, Before::updated, Before::updated_under_pause})
        for (const bool is_recorded : {false, true}) {
          SCOPED_TRACE(std::string(loop_name) + " that changes " + change_name + ", before it " + std::to_string(static_cast<int>(before)) +
                       (is_recorded ? ", recorded" : ""));
          expect_same([&](const auto& mode, std::ostream& out) {
            Outside o;
            o.state = numbers({3, 4}).copy();
            o.row = o.state[1];
            auto f = mode([&](const Tensor& x, Tensor start) {
              o.value = Tensor();
              Outside inside = o;
              inside.value = x * 0.5;
              if (before == Before::updated) inside.state += x * 0.125;
              if (before == Before::updated_under_pause) {
                const auto pause = autograd::pause(autograd::is_training());
                inside.state *= 0.75;
                inside.value[0] = x[1];
              }
              if (is_recorded) start = start * 1;
              const Tensor y = loop(inside, change, x, start);
              return Tensors{y, inside.value, start, inside.state * 2};
            });
            for (int call = 0; call < 3; ++call) {
              Tensor x = leaf({3, 4}), start = leaf({4});
              if (!is_recorded) start = start.detach().copy();
              try {
                const autograd::Scope scope(is_recorded, true);
                const Tensors results = f(x, start);
                show(out, results);
                if (is_recorded) (results[0].sum() + results[1].sum()).backward();
              } catch (const UserError&) {
                out << "an error\n";
                return;
              }
              show(out, x.grad()), show(out, start), show(out, o.state), show(out, o.row);
            }
          });
        }
}

// What a branch or a loop passes on is the tensor itself in eager code: updates of either are seen through the other.
TEST(PromiseBodies, PassTensorsOn) {
  using Pass = std::function<Tensor(const Tensor& x, Tensor& outside)>;
  const auto positive = [](const Tensors& in) { return in[0].sum() > 0; };
  const std::vector<std::pair<const char*, Pass>> passes = {
      {"cond gives its input",
       [&](const Tensor& x, Tensor&) {
         return cond(
             positive, [](const Tensors& in) { return in; }, [](const Tensors& in) { return Tensors{in[0] * 2}; }, {x})[0];
       }},
      {"cond gives a view of its input",
       [&](const Tensor& x, Tensor&) {
         return cond(
             positive, [](const Tensors& in) { return Tensors{in[0].reshape({-1})}; },
             [](const Tensors& in) { return Tensors{in[0].reshape({-1}) * 2}; }, {x})[0];
       }},
      {"cond gives a tensor from outside",
       [&](const Tensor& x, Tensor& o) {
         return cond(
             positive, [&](const Tensors&) { return Tensors{o}; }, [](const Tensors& in) { return Tensors{in[0] * 2}; }, {x})[0];
       }},
      {"foreach gives its state",
       [&](const Tensor& x, Tensor&) {
         return foreach ([](const Tensors& r, const Tensors& s) -> TensorsPair { return {r, s}; }, {x}, {x}).second[0];
       }},
      {"foreach gives a tensor from outside",
       [&](const Tensor& x, Tensor& o) {
         return foreach ([&](const Tensors& r, const Tensors&) -> TensorsPair { return {r, {o}}; }, {x}, {x * 2}).second[0];
       }},
      {"while_loop makes no step",
       [&](const Tensor& x, Tensor&) {
         return while_loop([](const Tensors& v) { return v[0].sum() < -100; },
                           [](const Tensors& v) -> TensorsPair {
                             return {{v[0]}, {v[0] * 2}};
                           },
                           {x}, 3)
             .second[0];
       }},
  };
  const std::vector<std::pair<const char*, std::function<void(Tensor&, Tensor&, Tensor&)>>> changes = {
      {"nothing", [](Tensor&, Tensor&, Tensor&) {}},
      {"the result", [](Tensor& r, Tensor&, Tensor&) { r += 1; }},
      {"a part of the result", [](Tensor& r, Tensor&, Tensor&) { r[0] = 7; }},
      {"the input", [](Tensor&, Tensor& x, Tensor&) { x *= 3; }},
      {"a view of the input", [](Tensor&, Tensor& x, Tensor&) { x.reshape({-1}) += 2; }},
      {"what is outside", [](Tensor&, Tensor&, Tensor& o) { o -= 1; }},
  };
  for (const auto& [pass_name, pass] : passes)
    for (const auto& [change_name, change] : changes) {
      SCOPED_TRACE(std::string(pass_name) + ", then " + change_name + " is changed");
      expect_same([&](const auto& mode, std::ostream& out) {
        Tensor outside = numbers({2, 3}).copy();
        auto f = mode([&](const Tensor& given) {
          Tensor x = given * 1, r = pass(x, outside);
          change(r, x, outside);
          return Tensors{r * 1, x * 1, outside * 1};
        });
        for (const double sign : {1.0, -1.0, 1.0}) show(out, f(numbers({2, 3}) * sign)), show(out, outside);
      });
    }
}

// A value that a program stores in place must fit at every call, and is spread as at that call.
TEST(PromiseUpdates, AskForTheShapesOfTheirCall) {
  const std::vector<std::pair<const char*, std::function<void(Tensor&, const Tensor&)>>> updates = {
      {"+=", [](Tensor& x, const Tensor& y) { x += y; }},
      {"assign", [](Tensor& x, const Tensor& y) { x.assign(y); }},
      {"[:] =", [](Tensor& x, const Tensor& y) { x[Slice()] = y; }},
      {"[0] +=", [](Tensor& x, const Tensor& y) { x[0] += y[0]; }},
      {"a view", [](Tensor& x, const Tensor& y) { x.reshape({-1}) += y.reshape({-1}); }},
  };
  const std::vector<Shape> shapes{{3, 4}, {1, 4}, {3, 1}, {1, 1}};
  for (const auto& [name, update] : updates)
    for (const bool is_recorded : {false, true})
      for (const Shape& first : shapes)
        for (const Shape& second : shapes) {
          SCOPED_TRACE(std::string(name) + (is_recorded ? " while recording, first " : ", first ") + first.str() + second.str());
          expect_same([&](const auto& mode, std::ostream& out) {
            auto f = mode([&](const Tensor& given, const Tensor& y) {
              Tensor x = given * 1;
              update(x, y);
              return x * 1;
            });
            for (const auto& [a, b] : {std::pair(first, second),
                                       {Shape{3, 4}, Shape{3, 4}},
                                       {Shape{1, 4}, Shape{3, 4}},
                                       {Shape{3, 4}, Shape{1, 4}},
                                       {Shape{3, 4}, Shape{3, 1}}})
              try {
                const Tensor x = leaf(a), y = leaf(b);
                {
                  const autograd::Scope scope(is_recorded, false);
                  const Tensor z = f(x, y);
                  show(out, z);
                  if (is_recorded) z.backward();
                }
                show(out, x.grad()), show(out, y.grad());
              } catch (const UserError&) {
                out << "an error\n";
              }
          });
        }
}

struct Twice final : autograd::Function {
  Tensors forward(const Tensors& in) override { return {in[0] * 2}; }
  Tensors backward(const Tensors& heads) override { return {heads[0] * 2 + 1}; }
};
// Behind an operator without a gradient zeros flow on to the functions of users, in programs too.
TEST(PromiseFunctions, GiveTheirGradientWhateverFlowsIn) {
  const auto function = [](const Tensor& x) { return autograd::call(std::make_shared<Twice>(), {x})[0]; };
  expect_same([&](const auto& mode, std::ostream& out) {
    auto f = mode([&](const Tensor& x) { return sign(function(x)) + argmax(function(x), {.axis = 1, .keepdims = true}); });
    auto inside = mode([&](const Tensor& given) {
      Tensor x = given * 1;
      x.attach_grad();
      {
        const auto record = autograd::record();
        argmax(function(x), {.axis = 1}).backward();
      }
      return x.grad() * 1;
    });
    for (const int64_t rows : {2, 3, 2}) {
      const Tensor x = leaf({rows, 3});
      {
        const auto record = autograd::record();
        f(x).backward();
      }
      show(out, x.grad()), show(out, inside(numbers({rows, 3})));
    }
  });
}

// What a loop gives is on the tape where the steps have computed it from what is.
TEST(PromiseBodies, GiveTheTapeWhatDependsOnIt) {
  for (const int kind : {0, 1, 2, 3})
    expect_same([&](const auto& mode, std::ostream& out) {
      auto f = mode([&](const Tensor& x, const Tensor& a, const Tensor& b) {
        const auto [rows, ends] = foreach (
            [&](const Tensors& row, const Tensors& s) -> TensorsPair {
              const Tensor &first = s[0], &second = s[1];
              if (kind == 0) return {{row[0] * 2, first * row[0]}, {first + 1, second * 2}};
              if (kind == 1) return {{row[0] * 2, first * row[0]}, {second * 1, first * 1}};
              if (kind == 2) return {{row[0] * 2, second * 3}, {second * 1, second * 2}};
              const auto pause = autograd::pause();
              return {{row[0] * 2, first * 3}, {first * 1, row[0] * 2}};
            },
            {x}, {a, b});
        return Tensors{rows[0], rows[1], ends[0], ends[1]};
      });
      for (const int64_t length : {3, 1, 2}) {
        const Tensor a = leaf({2});
        Tensors results;
        {
          const auto record = autograd::record();
          results = f(numbers({length, 2}), a, numbers({2}));
        }
        show(out, results);
        out << gradients_of_each(results, {a});
      }
    });
}

}  // namespace
}  // namespace gluino::test
