// Views, copies and their bases: an update of one is seen by the other, in every mode and wherever it is looked at.
#include <fmt/format.h>

#include "gluino/parameter.h"
#include "hybrid/every_mode.h"

namespace gluino::test {
namespace {

TEST(PromiseAlias, AViewIsReadAsItsBaseIsNow) {
  expect_same([](auto mode, std::ostream& out) {
    const auto f = mode([](const Tensor& x) {
      Tensor changed = x;
      const Tensor view = changed.reshape({-1}).reshape({2, 3});
      changed.assign(changed * 0.5 + 1);
      return view;
    });
    Tensor source = leaf({2, 3});
    for (int i = 0; i < 2; ++i) {
      const auto record = autograd::record();
      const Tensor y = f(source * 1.0);
      show(out, y.detach());  // memory, before any operator has looked at it
      for (float v : y.to_vector()) out << v << ' ';
    }
  });
}
TEST(PromiseAlias, AViewFollowsItsBaseOnTheTapeWhereverItIsLookedAt) {
  expect_same([](auto mode, std::ostream& out) {
    const auto f = mode([](const Tensor& x) {
      Tensor changed = x;
      const Tensor view = changed.reshape({-1}), part = changed[0];
      changed *= 0.5;
      const auto pause = autograd::pause();
      return Tensors{view, part, view * 2};  // seen first while nothing is recorded
    });
    for (int k = 0; k < 3; ++k) {
      Tensor source = leaf({2, 3}), y;
      {
        const auto record = autograd::record();
        y = f(source * 1.0)[k];
      }
      if (k < 2) y.backward();
      show(out, y);
      if (k < 2) show(out, source.grad());
    }
  });
}
TEST(PromiseAlias, StateThatJoinedTheTapeIsAValueOnceItsGraphIsReleased) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor weight = leaf({3}), state = ones({3});
    const auto f = mode([&](const Tensor& x) {
      Tensor changed = x;
      changed *= weight;
      return changed * changed;
    });
    for (int k = 0; k < 3; ++k) {
      const auto record = autograd::record();
      const Tensor y = f(state);
      y.backward();
      show(out, state);
      show(out, weight.grad());
    }
  });
}
struct CubeOfItsOwn : autograd::Function {
  Tensors forward(const Tensors& in) override {
    save_for_backward(in);
    return {in[0] * in[0] * in[0]};
  }
  Tensors backward(const Tensors& heads) override { return {heads[0] * 3 * saved()[0] * saved()[0]}; }
};
TEST(PromiseAlias, WhatAFunctionKeepsStaysWhenItsArgumentIsUpdated) {
  expect_same([](auto mode, std::ostream& out) {
    const auto f = mode([](const Tensor& x) {
      Tensor changed = x;
      const Tensor y = autograd::call(std::make_shared<CubeOfItsOwn>(), {changed})[0];
      changed *= 0.5;
      return y;
    });
    for (int i = 0; i < 2; ++i) {
      Tensor source = leaf({3});
      Tensor y;
      {
        const auto record = autograd::record();
        y = f(source * 1.0);
      }
      y.backward();
      show(out, source.grad());
    }
  });
}

// Every kind of view, of a tensor on the tape or off it, and every way to update either side.
using Made = Tensor (*)(const Tensor& base);
using Update = void (*)(Tensor& base, Tensor& view, const Tensor& weight);
struct NamedView {
  const char* name;
  Made of;
};
struct NamedUpdate {
  const char* name;
  Update run;
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
    {"expand_dims",
     [](const Tensor& x) {
       return call("expand_dims", {x}, {{"axis", 0}});
     }},
    {"detach", [](const Tensor& x) { return x.detach(); }},
    {"row of detach", [](const Tensor& x) -> Tensor { return x.detach()[0]; }},
    {"paused reshape",
     [](const Tensor& x) {
       const auto pause = autograd::pause();
       return x.reshape({-1});
     }},
    {"paused row",
     [](const Tensor& x) -> Tensor {
       const auto pause = autograd::pause();
       return x[1];
     }},
    {"detached row", [](const Tensor& x) { return Tensor(x[0]).detach(); }},
};
const NamedUpdate kUpdates[] = {
    {"base *= 0.5", [](Tensor& b, Tensor&, const Tensor&) { b *= 0.5; }},
    {"base *= weight", [](Tensor& b, Tensor&, const Tensor& w) { b *= w; }},
    {"base.assign(weight)", [](Tensor& b, Tensor&, const Tensor& w) { b.assign(b + w); }},
    {"base[0] = weight", [](Tensor& b, Tensor&, const Tensor& w) { b[0] = w * 3; }},
    {"base.assign(number)", [](Tensor& b, Tensor&, const Tensor&) { b.assign(b.detach() * 0.5); }},
    {"base[0] = number", [](Tensor& b, Tensor&, const Tensor&) { b[0] = 3.0; }},
    {"view.assign(number)", [](Tensor&, Tensor& v, const Tensor&) { v.assign(7.0); }},
    {"view[0] *= weight after base", [](Tensor& b, Tensor& v, const Tensor& w) { b *= w, v[0] *= 0.5; }},
    {"view *= 0.5", [](Tensor&, Tensor& v, const Tensor&) { v *= 0.5; }},
    {"view *= weight", [](Tensor&, Tensor& v, const Tensor& w) { v *= w; }},
    {"view.assign(weight)", [](Tensor&, Tensor& v, const Tensor& w) { v.assign(v * v + w); }},
    {"both", [](Tensor& b, Tensor& v, const Tensor& w) { b *= w, v += 1, b[1] = w, v *= w; }},
    {"paused base",
     [](Tensor& b, Tensor&, const Tensor& w) {
       const auto pause = autograd::pause();
       b *= w;
     }},
    {"paused view",
     [](Tensor&, Tensor& v, const Tensor& w) {
       const auto pause = autograd::pause();
       v *= w;
     }},
};
enum class Base { off_the_tape, on_the_tape, captured };
const char* name_of(Base b) { return b == Base::captured ? "captured" : b == Base::on_the_tape ? "on the tape" : "off the tape"; }
template <class Mode>
Seen run_aliases(const Mode& mode, const NamedView& kind, const NamedUpdate& update, Base where, bool recorded) {
  Seen seen;
  Tensor source = leaf({2, 4}), weight = full({1}, 1.5), state = numbers({2, 4}).copy();
  weight.attach_grad();
  const auto f = mode([&](const Tensor& x) {
    Tensor base = where == Base::captured ? state : x, view = kind.of(base);
    update.run(base, view, weight);
    return Tensors{base * 1, view * 1, view, base};
  });
  try {
    for (int k = 0; k < 2; ++k) {
      std::ostringstream values;
      Tensors results;
      {
        const auto scope = recorded ? autograd::record() : autograd::pause();
        const Tensor x = where == Base::on_the_tape ? source * 1.0 : source.detach().copy();
        results = f(x);
        results.push_back(where == Base::captured ? state : x);
      }
      for (const Tensor& r : results) show(values, r);
      seen.values += values.str();
      if (recorded) seen.gradients += gradients_of_each(results, {source, weight});
    }
  } catch (const UserError& e) {
    seen.gradients = e.what();
  }
  return seen;
}
TEST(PromiseAlias, EveryViewAndItsBaseAreOneMemory) {
  for (const NamedView& view : kViews)
    for (const NamedUpdate& update : kUpdates)
      for (Base base : {Base::off_the_tape, Base::on_the_tape, Base::captured}) {
        SCOPED_TRACE(fmt::format("{}, {}, {}", view.name, update.name, name_of(base)));
        const Seen memory = run_aliases(Eagerly{}, view, update, base, false);
        const Seen eager = run_aliases(Eagerly{}, view, update, base, true);
        if (eager.gradients.starts_with("a view that was made inside autograd::pause()")) {
          EXPECT_TRUE(std::string_view(view.name).starts_with("paused") && std::string_view(update.name).find("paused") != 0);
          EXPECT_EQ(run_aliases(Hybridized{}, view, update, base, true).gradients, eager.gradients);
          continue;
        }
        EXPECT_EQ(run_aliases(Hybridized{}, view, update, base, false).values, memory.values) << "hybridized, not recorded";
        EXPECT_EQ(eager.values, memory.values) << "recorded: " << eager.gradients;
        const Seen hybridized = run_aliases(Hybridized{}, view, update, base, true);
        EXPECT_EQ(hybridized.values, memory.values) << "hybridized and recorded: " << hybridized.gradients;
        EXPECT_EQ(hybridized.gradients, eager.gradients);
        const Seen verified = run_aliases(Hybridized{{.verify = true}}, view, update, base, true);
        EXPECT_EQ(verified.values, memory.values) << "verified: " << verified.gradients;
      }
}
TEST(PromiseAlias, AViewThatTheCallerMadeIsUpdatedByWhatFlowsBack) {
  expect_same([](auto mode, std::ostream& out) {
    const auto f = mode([](const Tensor& x, const Tensor& y) {
      Tensor changed = y, view = changed.detach();
      view += x.mean();
      return changed + view.sum();
    });
    Tensor rows = numbers({6, 4}).copy();
    const Tensor y = rows[Slice(2, 5)];
    for (int k = 0; k < 2; ++k) {
      Tensor x = leaf({3, 4});
      const auto record = autograd::record();
      const Tensor z = f(x * 1.0, y);
      z.backward();
      show(out, z), show(out, x.grad()), show(out, rows);
    }
  });
}
TEST(PromiseAlias, AViewFromOutsideFollowsStateThatForwardUpdates) {
  for (bool recorded : {false, true})
    expect_same([recorded](auto mode, std::ostream& out) {
      Tensor state = numbers({3, 4}).copy(), weight = leaf({3, 4});
      const Tensor row = state[1], flat = state.reshape({-1});
      const auto f = mode([&](const Tensor& x) {
        state *= 0.5;
        Tensor part = state.detach()[0];
        part += (x * weight).mean();
        return state * weight + row.sum() + flat.mean();
      });
      for (int k = 0; k < 3; ++k) {
        const auto scope = recorded ? autograd::record() : autograd::pause();
        const Tensor z = f(numbers({3, 4}));
        if (recorded) z.backward(), show(out, weight.grad());
        for (const Tensor& t : {z, state, row, flat}) show(out, t);
      }
    });
}
TEST(PromiseAlias, WhatIsDetachedFromAViewWhoseBaseIsGoneFollowsIt) {
  for (bool recorded : {false, true})
    expect_same([recorded](auto mode, std::ostream& out) {
      const Tensor weight = leaf({2, 4});
      const auto f = mode([&](const Tensor& x) {
        Tensor rows = concat({x, x}, {.dim = 0})[Slice(1, 3)];
        const Tensor off = rows.detach(), part = rows.detach()[1];
        rows.assign(weight * 0.5);
        Tensor again = rows.detach();
        again += 1;
        return rows * weight + off.sum() + part.mean();
      });
      const auto scope = recorded ? autograd::record() : autograd::pause();
      const Tensor z = f(numbers({3, 4}));
      if (recorded) z.backward(), show(out, weight.grad());
      show(out, z);
    });
}
TEST(PromiseAlias, WhatIsDetachedKeepsNothingThatWasRecorded) {
  const Tensor x = leaf({64, 64});
  for (bool in_record : {false, true})
    for (int kind = 0; kind < 4; ++kind) {
      const auto kept = [&](const Tensor& t) -> Tensor {
        if (kind == 0) return t.detach();
        if (kind == 1) return t.reshape({-1}).detach();
        if (kind == 2) return t.detach().detach()[1];
        const auto pause = autograd::pause();
        return t.reshape({-1});
      };
      const auto before = memory_stats(cpu()).live;
      Tensor small;
      {
        Tensor y;
        {
          const auto record = autograd::record();
          y = tanh(tanh(tanh(x)));
          if (in_record) small = kept(y);
        }
        if (!in_record) small = kept(y);
      }
      EXPECT_LE(memory_stats(cpu()).live, before + 64 * 64 * 4 + 4096) << "kind " << kind << (in_record ? " recorded" : "");
    }
}
TEST(PromiseAlias, AWeightThatForwardWritesUnderPauseKeepsItsGradient) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor weight = leaf({2, 4});
    const auto f = mode([&](const Tensor& x) {
      {
        const auto pause = autograd::pause();
        weight.assign(weight / (1 + (weight * weight).sum()));
        weight[0] *= 0.5;
      }
      return x * weight * weight;
    });
    for (int k = 0; k < 3; ++k) {
      const auto record = autograd::record();
      const Tensor y = f(numbers({2, 4}));
      y.backward();
      show(out, y);
      show(out, weight);
      show(out, weight.grad());
    }
  });
}
// As spectral normalisation does: what was recorded reads the old value, also outside of the function.
TEST(PromiseAlias, AParameterThatForwardStoresUnderPauseIsReadAsItWas) {
  for (const GradReq req : {GradReq::null, GradReq::write})
    expect_same([req](auto mode, std::ostream& out) {
      Parameter stored("stored", {.shape = {2, 4}, .grad_req = req});
      stored.set_data(numbers({2, 4}));
      Tensor weight = leaf({2, 4});
      const auto f = mode([&](const Tensor& x) {
        const Tensor before = stored.data();
        const Tensor y = x * before * before * weight;
        {
          const auto pause = autograd::pause();
          stored.set_data(before * 0.5 + 1);
        }
        return y;
      });
      const Tensor row = stored.data()[0], held = stored.data();
      for (int k = 0; k < 3; ++k) {
        {
          const auto record = autograd::record();
          const Tensor x = numbers({2, 4});
          (f(x) * stored.data() + f(x * 2)).backward();
        }
        for (const Tensor& t : {weight.grad(), stored.data(), row, held}) show(out, t);
        if (req == GradReq::write) show(out, stored.grad());
      }
      stored.set_data(zeros({2, 4}));
      for (const Tensor& t : {f(numbers({2, 4})), stored.data(), row, held}) show(out, t);
    });
}

}  // namespace
}  // namespace gluino::test
