// An operator of one's own, defined in user code exactly as the library defines its own: one place says what it
// computes, for which inputs, and how it is differentiated. It then works eagerly, traced, differentiated and in files.
#include <gluino/gluino.h>

#include <iostream>

using namespace gluino;

struct SoftplusAttrs {
  double beta = 1;
  static void fields(AttrFields<SoftplusAttrs>& f) { f.field("beta", &SoftplusAttrs::beta, "how sharp the bend at 0 is"); }
};

GLUINO_OP(my_softplus, SoftplusAttrs) {
  op.doc("A smooth relu: log(1 + exp(beta * x)) / beta.")
      .input("data")
      .same_shape()
      // What happens to one element. The eager kernel and the fused one both come from this line.
      .scalar([](const SoftplusAttrs& a, Expr x) { return (maximum(a.beta * x, 0.0) + log1p(exp(-abs(a.beta * x)))) / a.beta; })
      // Written with operators on tensors, so that gradients trace and can be differentiated again.
      .gradient({.inputs = {0}},
                [](const SoftplusAttrs& a, const Gradient& g) -> Tensors { return {g.head() * sigmoid(g.in(0) * a.beta)}; })
      .sample({{3, 4}})
      .sample({{5}}, {.beta = 0.5});
}

Tensor softplus(const Tensor& x, double beta) { return call("my_softplus", {x}, {{"beta", beta}}); }

// Attributes are checked by name and type, as for any operator.
static bool refuses_a_wrong_name() {
  try {
    call("my_softplus", {ones({2})}, {{"bta", 2.0}});
  } catch (const AttrError& e) {
    std::cout << e.what() << "\n";
    return true;
  }
  return false;
}

int main() {
  Tensor x = tensor({-2, -0.5, 0, 0.5, 2});
  const Tensor eager = softplus(x, 2);
  std::cout << eager << "\n";

  auto f = hybrid([](const Tensor& t) { return softplus(t, 2) * 3; });
  const bool same = all_close(f(x), eager * 3);

  x.attach_grad();
  {
    const auto record = autograd::record();
    f(x).backward();
  }
  const bool right_slope = all_close(x.grad(), 3 * sigmoid(x * 2), 1e-5, 1e-6);
  std::cout << x.grad() << "\n";

  const Symbol net = Symbol(softplus(sym::var("data"), 2));
  std::cout << net << "\n";
  const bool loads = all_close(Symbol::from_json(net.to_json()).eval({{"data", x}})[0], eager);
  return same && right_slope && loads && refuses_a_wrong_name() ? 0 : 1;
}
