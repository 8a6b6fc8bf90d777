// What branches and loops pass on: a result that eagerly is the caller's tensor, or another result, is that in every mode.
#include "every_mode.h"

namespace gluino::test {
namespace {

struct Around {
  Tensor given;    // to the function
  Tensor outside;  // which the function knows
  Tensor value;    // that the function has computed
  Tensor view;     // of what was given
};
using Pass = std::function<Tensors(const Around&)>;

const auto positive = [](const Tensors& in) { return in[0].sum() > 0; };
Tensors choose(const Tensor& by, const Branch& yes, const Branch& no) { return cond(positive, yes, no, {by}); }
// A loop of as many steps as the first element of the given tensor says, at most five, over these states.
Tensors some_steps(const Around& a, const Tensors& states, const std::function<Tensors(const Tensors&)>& next) {
  Tensors vars{a.given.reshape({-1})[0] * 1};
  vars.insert(vars.end(), states.begin(), states.end());
  Tensors all = while_loop([](const Tensors& v) { return v[0] > 0; },
                           [&](const Tensors& v) -> TensorsPair {
                             Tensors after{v[0] - 1};
                             for (const Tensor& t : next(Tensors(v.begin() + 1, v.end()))) after.push_back(t);
                             return {{v[0]}, after};
                           },
                           vars, 5)
                    .second;
  return {all.begin() + 1, all.end()};
}
Tensors over_rows(const Around& a, const Tensors& states, const std::function<Tensors(const Tensors&)>& next) {
  return foreach ([&](const Tensors& row, const Tensors& s) -> TensorsPair { return {row, next(s)}; }, {a.given}, states).second;
}
Tensors doubled(const Tensors& in) { return {in[0] * 2}; }

const std::vector<std::pair<const char*, Pass>> kPasses = {
    {"a branch gives its input",
     [](const Around& a) {
       return choose(
           a.given, [](const Tensors& in) { return in; }, doubled);
     }},
    {"the other branch gives its input", [](const Around& a) { return choose(a.given, doubled, [](const Tensors& in) { return in; }); }},
    {"a branch gives what is outside",
     [](const Around& a) { return choose(a.given, doubled, [&](const Tensors&) { return Tensors{a.outside}; }); }},
    {"each branch gives another tensor",
     [](const Around& a) {
       return choose(
           a.given, [&](const Tensors&) { return Tensors{a.outside}; }, [](const Tensors& in) { return in; });
     }},
    {"a branch gives a value", [](const Around& a) { return choose(a.given, doubled, [&](const Tensors&) { return Tensors{a.value}; }); }},
    {"two branches give a value",
     [](const Around& a) {
       const auto gives = [&](const Tensors&) { return Tensors{a.value}; };
       return Tensors{choose(a.given, gives, doubled)[0], choose(a.outside, gives, doubled)[0]};
     }},
    {"a branch gives a view",
     [](const Around& a) {
       return choose(
           a.given, [](const Tensors& in) { return Tensors{in[0][0] * 2}; }, [&](const Tensors&) { return Tensors{a.view}; });
     }},
    {"a branch makes a view",
     [](const Around& a) {
       return choose(
           a.given, [](const Tensors& in) { return Tensors{in[0].reshape({-1}) * 2}; },
           [](const Tensors& in) { return Tensors{in[0].reshape({-1})}; });
     }},
    {"a branch gives two",
     [](const Around& a) {
       return choose(
           a.given,
           [&](const Tensors& in) {
             return Tensors{a.outside, in[0]};
           },
           [](const Tensors& in) {
             return Tensors{in[0], in[0]};
           });
     }},
    {"a branch inside gives its input",
     [](const Around& a) {
       return choose(
           a.given,
           [&](const Tensors& in) {
             return choose(
                 a.outside, [&](const Tensors&) { return in; }, doubled);
           },
           doubled);
     }},
    {"a branch after another",
     [](const Around& a) {
       const Tensor first = choose(
           a.given, [](const Tensors& in) { return in; }, doubled)[0];
       return choose(
           a.outside, [&](const Tensors&) { return Tensors{first}; }, doubled);
     }},
    {"a view of what a branch gives",
     [](const Around& a) {
       return Tensors{choose(
           a.given, [](const Tensors& in) { return in; }, doubled)[0][0]};
     }},
    {"what a branch gives, and a view of it",
     [](const Around& a) {
       const Tensor r = choose(
           a.given, [](const Tensors& in) { return in; }, doubled)[0];
       return Tensors{r[1], r, a.given};
     }},
    {"a value beside it",
     [](const Around& a) {
       return Tensors{choose(
                          a.given, [&](const Tensors&) { return Tensors{a.value}; }, doubled)[0],
                      a.value, a.view};
     }},
    {"a loop keeps its state", [](const Around& a) { return some_steps(a, {a.given}, [](const Tensors& s) { return s; }); }},
    {"a loop doubles its state", [](const Around& a) { return some_steps(a, {a.given}, doubled); }},
    {"a loop gives what is outside",
     [](const Around& a) { return some_steps(a, {a.given}, [&](const Tensors&) { return Tensors{a.outside}; }); }},
    {"a loop exchanges its states",
     [](const Around& a) {
       return some_steps(a, {a.given, a.outside}, [](const Tensors& s) { return Tensors{s[1], s[0]}; });
     }},
    {"a loop has one state twice",
     [](const Around& a) {
       return some_steps(a, {a.given, a.given}, [](const Tensors& s) { return Tensors{s[1], s[0] * 2}; });
     }},
    {"a loop hands its states on",
     [](const Around& a) {
       return some_steps(a, {a.given, a.outside, a.value, a.given * 2}, [](const Tensors& s) {
         return Tensors{s[1], s[2], s[1], s[3] + s[0]};
       });
     }},
    {"a loop turns its states round",
     [](const Around& a) {
       return some_steps(a, {a.given, a.outside, a.value}, [](const Tensors& s) { return Tensors{s[1], s[2], s[0]}; });
     }},
    {"a loop ends with what is outside",
     [](const Around& a) {
       return some_steps(a, {a.given, a.value, a.given}, [&](const Tensors& s) { return Tensors{s[1], a.outside, s[0]}; });
     }},
    {"foreach gives its rows",
     [](const Around& a) {
       return foreach (
                  [&](const Tensors& row, const Tensors& s) -> TensorsPair {
                    return {{s[0]}, {row[0], s[0]}};
                  },
                  {a.given}, {a.view, a.outside[0]})
           .second;
     }},
    {"foreach keeps its state",
     [](const Around& a) {
       return over_rows(a, {a.outside, a.value}, [](const Tensors& s) { return s; });
     }},
    {"foreach gives what is outside",
     [](const Around& a) { return over_rows(a, {a.given}, [&](const Tensors&) { return Tensors{a.outside}; }); }},
    {"foreach exchanges its states",
     [](const Around& a) {
       return over_rows(a, {a.given, a.outside}, [](const Tensors& s) { return Tensors{s[1], s[0]}; });
     }},
};

// Every element says its tensor: what is changed, is seen wherever it is that tensor.
void change_each(std::ostream& out, const Tensors& results, Tensors known) {
  const autograd::Scope off_tape(false, std::nullopt);
  Tensors all = results;
  all.insert(all.end(), known.begin(), known.end());
  for (size_t i = 0; i < all.size(); ++i) {
    Tensor changed = all[i].detach();
    changed += static_cast<double>(100 << i);
    out << i << " is changed\n";
    for (const Tensor& t : all) show(out, t);
    for (const Tensor& t : all) out << t.is_same(all[i]) << ' ';
  }
}

TEST(PromisePassedOn, IsTheTensorItself) {
  for (const auto& [name, pass] : kPasses)
    for (const bool is_recorded : {false, true}) {
      SCOPED_TRACE(std::string(name) + (is_recorded ? " while recording" : ""));
      expect_same([&](const auto& mode, std::ostream& out) {
        const Tensor outside = leaf({2, 3});
        auto f = mode([&](const Tensor& given) { return pass({given, outside, given * 3, given[0]}); });
        for (const double sign : {1.0, -1.0, 0.0, 1.0, -1.0, 4.0, 8.0, 12.0, 16.0, 20.0}) {
          Tensor x = numbers({2, 3}) * sign;
          x.attach_grad();
          Tensors results;
          {
            const autograd::Scope scope(is_recorded, false);
            results = f(x);
          }
          if (is_recorded) out << gradients_of_each(results, {x, outside});
          change_each(out, results, {x, outside});
        }
      });
    }
}

// They are programs still, but for those whose results a run alone could tell apart.
TEST(PromisePassedOn, IsKnownByTheProgram) {
  for (const auto& [name, pass] : kPasses) {
    const std::string what = name;
    const bool is_refused = what.find("makes a view") != what.npos || what.find("inside") != what.npos;
    const Tensor outside = numbers({2, 3});
    auto f = hybrid([&](const Tensor& given) { return pass({given, outside, given * 3, given[0]}); });
    for (const double sign : {1.0, -1.0, 1.0, -1.0}) f(numbers({2, 3}) * sign);
    EXPECT_EQ(f.cache().stats().plans > 0, !is_refused) << name;
  }
}

}  // namespace
}  // namespace gluino::test
