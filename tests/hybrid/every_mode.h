// Programs that run in every mode: a program is a function of a way to wrap functions, and writes down all that its user could see.
#pragma once
#include <sstream>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {

struct Eagerly {
  template <class F>
  auto operator()(F f) const {
    return f;
  }
  void block(nn::HybridBlock&) const {}
};
struct Hybridized {
  HybridOptions options;
  template <class F>
  auto operator()(F f) const {
    return hybrid(f, options);
  }
  void block(nn::HybridBlock& net) const { net.hybridize(true, options); }
};

inline void show(std::ostream& out, const Tensor& t) {
  if (!t.defined()) {
    out << "null\n";
    return;
  }
  for (double v : t.detach().to_vector<double>()) out << static_cast<float>(v) << ' ';
  out << t.shape().str() << ' ' << dtype_name(t.dtype()) << '\n';
}
inline void show(std::ostream& out, double v) { out << v << '\n'; }
template <class T>
void show(std::ostream& out, const std::vector<T>& v) {
  out << "[\n";
  for (const T& e : v) show(out, e);
  out << "]\n";
}

template <class Program>
void expect_same(Program program) {
  const auto text = [&](const auto& mode) {
    seed(7);
    std::ostringstream out;
    program(mode, out);
    return out.str();
  };
  const std::string eager = text(Eagerly{});
  EXPECT_FALSE(eager.empty());
  EXPECT_EQ(text(Hybridized{}), eager);
  EXPECT_EQ(text(Hybridized{{.verify = true}}), eager) << "verify";
}

// What an enumeration of aliases looks at, beside each other: values in plain memory, and what flows back.
struct Seen {
  std::string values, gradients;
};
// The gradients of the leaves by each result alone, or that it has none.
inline std::string gradients_of_each(const Tensors& results, Tensors leaves) {
  std::ostringstream out;
  for (const Tensor& r : results) {
    for (Tensor& leaf : leaves) leaf.zero_grad();
    try {
      r.backward({}, true);
      for (const Tensor& leaf : leaves) show(out, leaf.grad());
    } catch (const UserError&) {
      out << "none\n";
    }
  }
  return out.str();
}

inline Tensor numbers(const Shape& shape) { return arange(1, static_cast<double>(shape.elements()) + 1).reshape(shape) / 4; }
inline Tensor leaf(const Shape& shape) {
  Tensor t = numbers(shape).copy();
  t.attach_grad();
  return t;
}

}  // namespace gluino::test
