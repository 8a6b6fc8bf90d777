// Einstein summation: operands are multiplied pairwise as batches of matrices.
#include <array>
#include <cctype>
#include <set>

#include "kernels/elementwise/strided.h"
#include "kernels/gemm/gemm.h"
#include "kernels/reduce/reduce.h"
#include "ops/linear/matrices.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

struct EinsumAttrs {
  std::string subscripts;
  int num_args = 0;
  static void fields(AttrFields<EinsumAttrs>& f) {
    f.required("subscripts", &EinsumAttrs::subscripts, "labels of the axes of each input and of the result, as in \"ij,jk->ik\"")
        .field("num_args", &EinsumAttrs::num_args, "number of inputs; follows from the call");
  }
};

// One letter per axis of every operand and of the result; "..." is spelled out with letters that are not used otherwise.
struct Subscripts {
  std::vector<std::string> inputs;
  std::string output, ellipsis;

  Subscripts(const std::string& text, std::span<const int> ranks) {
    std::string clean;
    for (char c : text)
      if (c != ' ') clean += c;
    const size_t arrow = clean.find("->");
    split(clean.substr(0, arrow));
    if (inputs.size() != ranks.size())
      raise<AttrError>("subscripts '{}' name {} operands, but {} were given", text, inputs.size(), ranks.size());
    std::string right = arrow == std::string::npos ? "" : clean.substr(arrow + 2);
    int longest = 0;
    for (size_t i = 0; i < inputs.size(); ++i) longest = std::max(longest, check_rank(text, inputs[i], ranks[i]));
    for (char c = 'A'; static_cast<int>(ellipsis.size()) < longest && c <= 'Z'; ++c)
      if (clean.find(c) == std::string::npos) ellipsis += c;
    if (static_cast<int>(ellipsis.size()) < longest) raise<AttrError>("there are not enough letters for the axes of '...' in '{}'", text);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = spelled(inputs[i], ranks[i] - static_cast<int>(inputs[i].size()) + 3);
    output = arrow == std::string::npos ? implied() : spelled(right, longest);
    for (char c : output)
      if (!std::isalpha(static_cast<unsigned char>(c)) || std::count(output.begin(), output.end(), c) != 1 || !appears(c))
        raise<AttrError>("subscripts '{}' have a bad result '{}'", text, right);
  }

 private:
  void split(const std::string& left) {
    size_t from = 0;
    for (size_t comma; (comma = left.find(',', from)) != std::string::npos; from = comma + 1)
      inputs.push_back(left.substr(from, comma - from));
    inputs.push_back(left.substr(from));
  }
  // How many axes "..." stands for.
  static int check_rank(const std::string& text, const std::string& labels, int rank) {
    const bool dots = labels.find("...") != std::string::npos;
    const int named = static_cast<int>(labels.size()) - (dots ? 3 : 0);
    if (std::count(labels.begin(), labels.end(), '.') != (dots ? 3 : 0))
      raise<AttrError>("subscripts '{}' have dots that are no '...'", text);
    for (char c : labels)
      if (c != '.' && !std::isalpha(static_cast<unsigned char>(c))) raise<AttrError>("subscripts '{}' contain '{}'", text, c);
    if (dots ? named > rank : named != rank) raise<ShapeError>("subscripts '{}' name {} axes, but the operand has {}", labels, named, rank);
    return rank - named;
  }
  std::string spelled(const std::string& labels, int count) const {
    const size_t at = labels.find("...");
    if (at == std::string::npos) return labels;
    return labels.substr(0, at) + ellipsis.substr(ellipsis.size() - static_cast<size_t>(count)) + labels.substr(at + 3);
  }
  bool appears(char c) const {
    return std::any_of(inputs.begin(), inputs.end(), [&](const std::string& s) { return s.find(c) != std::string::npos; });
  }
  // Without "->": first "...", then the labels that appear once, in alphabetical order.
  std::string implied() const {
    std::string all, out = ellipsis;
    for (const std::string& s : inputs) all += s;
    for (char c : std::set<char>(all.begin(), all.end()))
      if (ellipsis.find(c) == std::string::npos && std::count(all.begin(), all.end(), c) == 1) out += c;
    return out;
  }
};

using Extents = std::array<int64_t, 128>;
static Extents extents_of(const Subscripts& s, std::span<const Shape> shapes) {
  Extents extents;
  extents.fill(1);
  for (size_t i = 0; i < shapes.size(); ++i)
    for (int j = 0; j < shapes[i].ndim(); ++j) {
      const char c = s.inputs[i][j];
      int64_t& e = extents[c];
      if (e != 1 && shapes[i][j] != 1 && e != shapes[i][j]) raise<ShapeError>("axis '{}' has extents {} and {}", c, e, shapes[i][j]);
      if (e == 1) e = shapes[i][j];
    }
  return extents;
}
static std::vector<int> ranks_of(std::span<const Shape> shapes) {
  std::vector<int> ranks;
  for (const Shape& s : shapes) ranks.push_back(s.ndim());
  return ranks;
}

// A tensor whose axes carry different labels.
struct Labelled {
  Tensor data;
  std::string labels;
  bool has(char c) const { return labels.find(c) != std::string::npos; }
  Shape shape_of(const std::string& order, const Extents& e) const {
    Shape s;
    for (char c : order) s.push_back(e[c]);
    return s;
  }
};
// Takes diagonals where a label stands twice, and drops axes of extent 1 that other operands repeat.
static Labelled labelled(const Tensor& t, const std::string& labels, const Extents& e) {
  Labelled out;
  Shape shape, strides;
  const Shape own = kernels::row_major_strides(t.shape());
  for (int i = 0; i < t.ndim(); ++i) {
    const char c = labels[i];
    if (t.shape()[i] != e[c]) continue;
    if (const size_t at = out.labels.find(c); at != std::string::npos) {
      strides[static_cast<int>(at)] += own[i];
      continue;
    }
    out.labels += c;
    shape.push_back(t.shape()[i]);
    strides.push_back(own[i]);
  }
  out.data = make_tensor(shape, t.dtype(), t.device());
  kernels::copy_strided(dtype_bytes(t.dtype()), shape, bytes_of(t), strides, bytes_of(out.data), kernels::row_major_strides(shape));
  return out;
}
static Labelled permuted(const Labelled& t, const std::string& order, const Extents& e) {
  if (t.labels == order) return t;
  const Shape own = kernels::row_major_strides(t.data.shape()), shape = t.shape_of(order, e);
  Shape strides;
  for (char c : order) strides.push_back(own[static_cast<int>(t.labels.find(c))]);
  Labelled out{make_tensor(shape, t.data.dtype(), t.data.device()), order};
  kernels::copy_strided(dtype_bytes(t.data.dtype()), shape, bytes_of(t.data), strides, bytes_of(out.data),
                        kernels::row_major_strides(shape));
  return out;
}
// Sums all labels for which `keep` is false.
template <class F>
static Labelled summed(const Labelled& t, const Extents& e, F&& keep) {
  bool reduced[Shape::kMaxAxes] = {}, any = false;
  std::string kept;
  for (size_t i = 0; i < t.labels.size(); ++i) {
    reduced[i] = !keep(t.labels[i]);
    any |= reduced[i];
    if (!reduced[i]) kept += t.labels[i];
  }
  if (!any) return t;
  Labelled out{make_tensor(t.shape_of(kept, e), t.data.dtype(), t.data.device()), kept};
  kernels::reduce(kernels::ReduceOp::sum, kernels::ReduceFinish::none, bytes_of(t.data), t.data.dtype(), t.data.shape(), reduced,
                  bytes_of(out.data), t.data.dtype());
  return out;
}
// Multiplies two operands and sums the labels that nobody needs afterwards.
static Labelled contract(const Labelled& left, const Labelled& right, const std::string& needed, const Extents& e) {
  auto is_needed = [&](char c) { return needed.find(c) != std::string::npos; };
  Labelled a = summed(left, e, [&](char c) { return is_needed(c) || right.has(c); });
  Labelled b = summed(right, e, [&](char c) { return is_needed(c) || a.has(c); });
  std::string batch, rows, inner, columns;
  for (char c : a.labels) (b.has(c) ? (is_needed(c) ? batch : inner) : rows) += c;
  for (char c : b.labels)
    if (!a.has(c)) columns += c;
  a = permuted(a, batch + rows + inner, e);
  b = permuted(b, batch + inner + columns, e);
  const Shape shape = a.shape_of(batch + rows + columns, e);
  Labelled out{make_tensor(shape, a.data.dtype(), a.data.device()), batch + rows + columns};
  const int64_t n = a.shape_of(batch, e).elements(), m = a.shape_of(rows, e).elements(), k = a.shape_of(inner, e).elements(),
                p = a.shape_of(columns, e).elements();
  visit_float(a.data.dtype(), [&]<class T>(T*) {
    for (int64_t i = 0; i < n; ++i)
      kernels::gemm<T>({m, p, k}, {a.data.data<T>() + i * m * k, k}, {b.data.data<T>() + i * k * p, p},
                       {out.data.mutable_data<T>() + i * m * p, p});
  });
  return out;
}
static void run_einsum(const EinsumAttrs& attrs, KernelContext& k) {
  std::vector<Shape> shapes;
  for (int i = 0; i < k.num_inputs(); ++i) shapes.push_back(k.in(i).shape());
  const Subscripts s(attrs.subscripts, ranks_of(shapes));
  const Extents e = extents_of(s, shapes);
  Labelled result = labelled(k.in(0), s.inputs[0], e);
  for (int i = 1; i < k.num_inputs(); ++i) {
    std::string needed = s.output;
    for (int j = i + 1; j < k.num_inputs(); ++j) needed += s.inputs[j];
    result = contract(result, labelled(k.in(i), s.inputs[i], e), needed, e);
  }
  result = permuted(summed(result, e, [&](char c) { return s.output.find(c) != std::string::npos; }), s.output, e);
  std::copy_n(bytes_of(result.data), k.out().nbytes(), bytes_of(k.out()));
}

// The gradient of one operand is the einsum of the head and the other operands, with result and operand swapped.
static Tensor operand_gradient(const Subscripts& s, const Gradient& g, int which) {
  const std::string& own = s.inputs[which];
  if (std::set<char>(own.begin(), own.end()).size() != own.size())
    throw UserError("the gradient of an operand with a repeated label is not supported");
  Tensors in{g.head()};
  std::string left = s.output, all = s.output;
  for (int i = 0; i < g.num_inputs(); ++i) {
    if (i == which) continue;
    in.push_back(g.in(i));
    left += "," + s.inputs[i];
    all += s.inputs[i];
  }
  std::string found;
  for (char c : own)
    if (all.find(c) != std::string::npos) found += c;
  Tensor result = call("_npi_einsum", in, {{"subscripts", left + "->" + found}});
  // A label that only this operand has was summed: its gradient is the same everywhere. So it is where the others have extent 1, and
  // where the operand itself has extent 1 it is the sum.
  for (size_t i = 0; i < own.size(); ++i)
    if (found.find(own[i]) == std::string::npos) result = call("expand_dims", {result}, {{"axis", static_cast<int64_t>(i)}});
  return reduce_like(result + zeros_like(g.like(which)), g.like(which));
}
GLUINO_OP(_npi_einsum, EinsumAttrs) {
  op.doc("Products summed over the labels that the result does not have.")
      .alias("einsum")
      .variadic("data")
      .kernel_dtypes(float_dtypes())
      .ignores({"optimize"})
      .shape([](const EinsumAttrs& a, std::span<const Shape> in) {
        const Subscripts s(a.subscripts, ranks_of(in));
        const Extents e = extents_of(s, in);
        Shape out;
        for (char c : s.output) out.push_back(e[c]);
        return out;
      })
      .kernel(run_einsum)
      .gradient({{}, {}, true},
                [](const EinsumAttrs& a, const Gradient& g) -> Tensors {
                  std::vector<int> ranks;
                  for (int i = 0; i < g.num_inputs(); ++i) ranks.push_back(g.like(i).ndim());
                  const Subscripts s(a.subscripts, ranks);
                  Tensors result;
                  for (int i = 0; i < g.num_inputs(); ++i) result.push_back(g.wants(i) ? operand_gradient(s, g, i) : Tensor());
                  return result;
                })
      .sample({{2, 3}, {3, 4}}, {.subscripts = "ij,jk->ik"})
      .sample({{2, 3, 4}, {2, 5, 4}}, {.subscripts = "bij,bkj->bik"})
      .sample({{2, 3}, {3, 4}, {4}}, {.subscripts = "ij,jk,k"})
      .sample({{2, 3, 4}}, {.subscripts = "ijk->kj"})
      .sample({{2, 3, 4}, {1, 4, 2}}, {.subscripts = "...ij,...jk->...ik"});
}

}  // namespace
}  // namespace gluino::ops
