// Views that the caller made before anything was recorded, of tensors that join the tape later: they follow them there, in every mode.
#include <fmt/format.h>

#include "hybrid/every_mode.h"

namespace gluino::test {
namespace {

struct NamedView {
  const char* name;
  Tensor (*of)(const Tensor& base);
  bool is_detached = false;
};
const NamedView kViews[] = {
    {"reshape", [](const Tensor& x) { return x.reshape({-1}); }},
    {"row", [](const Tensor& x) -> Tensor { return x[1]; }},
    {"rows", [](const Tensor& x) -> Tensor { return x[Slice(0, 2)]; }},
    {"row of reshape",
     [](const Tensor& x) -> Tensor {
       return x.reshape({4, 2})[2];
     }},
    {"reshape of rows", [](const Tensor& x) { return Tensor(x[Slice(1, 2)]).reshape({-1}); }},
    {"detach", [](const Tensor& x) { return x.detach(); }, true},
    {"row of detach", [](const Tensor& x) -> Tensor { return x.detach()[0]; }, true},
    {"detached row", [](const Tensor& x) { return Tensor(x[0]).detach(); }, true},
};
struct NamedUpdate {
  const char* name;
  void (*run)(Tensor& base, Tensor& view, const Tensor& weight);
  bool writes_view = false;
};
const NamedUpdate kUpdates[] = {
    {"base *= weight", [](Tensor& b, Tensor&, const Tensor& w) { b *= w; }},
    {"base[0] = weight", [](Tensor& b, Tensor&, const Tensor& w) { b[0] = w * 3; }},
    {"base *= weight twice", [](Tensor& b, Tensor&, const Tensor& w) { b *= w, b += w; }},
    {"base *= weight, then a number", [](Tensor& b, Tensor&, const Tensor& w) { b *= w, b[1] = 0.5; }},
    {"base *= 0.5", [](Tensor& b, Tensor&, const Tensor&) { b *= 0.5; }},
    {"view *= weight", [](Tensor&, Tensor& v, const Tensor& w) { v *= w; }, true},
    {"both", [](Tensor& b, Tensor& v, const Tensor& w) { b *= w, v += 1, b[1] = w, v *= w; }, true},
    {"paused base",
     [](Tensor& b, Tensor&, const Tensor& w) {
       const auto pause = autograd::pause();
       b *= w;
     }},
};
// Who updates, and how the function knows the two.
enum class Place {
  caller_and_view_given,
  caller_and_base_given,
  caller_and_both_captured,
  function_with_captured,
  function_with_base_given
};
constexpr Place kPlaces[] = {Place::caller_and_view_given, Place::caller_and_base_given, Place::caller_and_both_captured,
                             Place::function_with_captured, Place::function_with_base_given};

template <class Mode>
Seen run_views(const Mode& mode, const NamedView& kind, const NamedUpdate& update, Place place, bool recorded, bool is_view_made_late) {
  Seen seen;
  Tensor weight = full({1}, 1.5), base = numbers({2, 4}).copy(), view = kind.of(base);
  weight.attach_grad();
  const auto now = [&] { return is_view_made_late ? kind.of(base) : view; };
  const bool is_updated_inside = place == Place::function_with_captured || place == Place::function_with_base_given;
  const auto f = mode([&](const Tensor& x) {
    Tensor given = place == Place::function_with_base_given ? x : base;
    if (is_updated_inside) update.run(given, view, weight);
    if (place == Place::caller_and_view_given || place == Place::caller_and_base_given) return Tensors{x * weight, x + 1};
    return Tensors{given * weight, now() * 1, now() * weight};
  });
  try {
    for (int k = 0; k < 3; ++k) {
      std::ostringstream values;
      Tensors results;
      {
        const auto scope = recorded ? autograd::record() : autograd::pause();
        if (!is_updated_inside) update.run(base, view, weight);
        results = f(place == Place::caller_and_view_given ? now() : base);
        results.push_back(now() * 2);
        results.push_back(base * 2);
      }
      for (const Tensor& r : results) show(values, r);
      show(values, base), show(values, view);
      seen.values += values.str();
      if (recorded) seen.gradients += gradients_of_each(results, {weight});
    }
  } catch (const UserError& e) {
    seen.gradients = e.what();
  }
  return seen;
}
TEST(PromiseOutsideViews, FollowTheirBaseOntoTheTape) {
  for (const NamedView& view : kViews)
    for (const NamedUpdate& update : kUpdates)
      for (Place place : kPlaces) {
        SCOPED_TRACE(fmt::format("{}, {}, place {}", view.name, update.name, static_cast<int>(place)));
        const Seen memory = run_views(Eagerly{}, view, update, place, false, false);
        const Seen eager = run_views(Eagerly{}, view, update, place, true, false);
        EXPECT_EQ(eager.values, memory.values) << eager.gradients;
        // A view that is made when everything has happened has the gradients of one that was made before; what is recorded through a
        // detached one is its own.
        if (!view.is_detached || !update.writes_view) {
          EXPECT_EQ(eager.gradients, run_views(Eagerly{}, view, update, place, true, true).gradients);
        }
        for (bool verify : {false, true}) {
          const Hybridized mode{{.verify = verify}};
          EXPECT_EQ(run_views(mode, view, update, place, false, false).values, memory.values) << "not recorded, verify " << verify;
          const Seen hybridized = run_views(mode, view, update, place, true, false);
          EXPECT_EQ(hybridized.values, memory.values) << "verify " << verify << ": " << hybridized.gradients;
          EXPECT_EQ(hybridized.gradients, eager.gradients) << "verify " << verify;
        }
      }
}
TEST(PromiseOutsideViews, ShowTheLastValueOfABaseThatIsGone) {
  for (const NamedView& kind : kViews)
    for (const NamedUpdate& update : kUpdates) {
      SCOPED_TRACE(fmt::format("{}, {}", kind.name, update.name));
      const auto run = [&](bool is_gone, bool is_detached) {
        std::ostringstream out;
        Tensor weight = full({1}, 1.5), base = numbers({2, 4}).copy(), view = kind.of(base);
        weight.attach_grad();
        Tensor result;
        {
          const auto record = autograd::record();
          update.run(base, view, weight);
          if (is_gone) base = {};
          result = view * weight;
        }
        show(out, view);
        if (!is_detached) result.backward();
        show(out, weight.grad());
        return out.str();
      };
      EXPECT_EQ(run(true, kind.is_detached), run(false, kind.is_detached));
    }
}
TEST(PromiseOutsideViews, OfOneBaseStayOneMemoryWhenItIsGone) {
  for (bool recorded : {false, true}) {
    Tensor weight = leaf({1}), base = numbers({4, 2}).copy(), first = base[Slice(0, 3)];
    const Tensor second = base[Slice(1, 4)];
    base = {};
    const auto scope = recorded ? autograd::record() : autograd::pause();
    first *= weight * 8;
    EXPECT_EQ(second[0].to_vector(), first[1].to_vector());
    EXPECT_EQ(second[2].to_vector(), numbers({4, 2})[3].to_vector());
    if (!recorded) continue;
    second.backward();
    EXPECT_EQ(weight.grad().to_vector(), std::vector<float>{8 * (0.75F + 1 + 1.25F + 1.5F)});
  }
}
// A trace that makes its calls itself, here because it reads a value, asks as eager code does what is still on the tape.
TEST(PromiseOutsideViews, OfWhatBackwardHasReleasedAreValues) {
  for (const NamedView& kind : kViews) {
    SCOPED_TRACE(kind.name);
    expect_same([&](const auto& mode, std::ostream& out) {
      Tensor weight = leaf({1}), state = numbers({2, 4}).copy(), view = kind.of(state);
      auto f = mode([&](const Tensor& x, double number) {
        const Tensor y = x * number + view.sum();
        if (y.sum().template item<float>() < 0) return y;
        state *= weight;
        return y + state.sum();
      });
      for (double number : {1.0, 2.0, 3.0}) {
        Tensor x = leaf({3}), result;
        {
          const auto record = autograd::record();
          result = f(x, number);
          show(out, view * 1);  // it stands on the tape now, and nobody goes back from here
        }
        result.backward();
        show(out, x.grad()), show(out, weight.grad()), show(out, state);
      }
    });
  }
}

}  // namespace
}  // namespace gluino::test
