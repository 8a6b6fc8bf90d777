#include "dispatch/deferred_calls.h"

#include <algorithm>
#include <bit>
#include <map>

#include "dispatch/composition.h"
#include "dispatch/infer.h"
#include "dispatch/mode.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/isa/primitives.h"
#include "program/rounded.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

// A longer program needs more registers than the first-level cache holds blocks.
constexpr int kMostInstructions = 64;

class Waiting;
const Tensor& value_of(Waiting& w);

class Waiting final : public SymbolicValue {
 public:
  Waiting(const Shape& s, DType t, Device d) : shape(s), dtype(t), device(d) { has_shape = has_dtype = true; }
  std::string describe() const override { return "<a value of a gradient>"; }
  void on_shape_read(int) override {}
  Tensor read_value() override { return value_of(*this); }

  Shape shape;
  DType dtype;
  Device device;
  Tensor value;        // once it is there; then the call is forgotten
  Tensor destination;  // where it shall be written; null: anywhere
  const OpDef* op = nullptr;
  Attrs attrs;
  Tensors inputs;
  std::optional<ComputeType> type;  // null: no function of single elements, so that it runs by itself
  int instructions = 0;             // at most, with those of what it reads
};
Tensor place_for(const Waiting& w) { return w.destination.defined() ? w.destination : make_tensor(w.shape, w.dtype, w.device); }

Waiting* waiting(const Tensor& t) { return static_cast<Waiting*>(impl_of(t).symbolic.get()); }
bool is_there(const Tensor& t) { return !impl_of(t).symbolic || waiting(t)->value.defined(); }
const Tensor& value_of(const Tensor& t) { return impl_of(t).symbolic ? value_of(*waiting(t)) : t; }
bool is_read(const Waiting& w, size_t input) { return !w.op->input_spec(w.attrs, input).shape_only; }

Tensor handle_of(const Ref<Waiting>& w) {
  Tensor t = make_shape_only(w->shape, w->dtype, w->device);
  impl_of(t).symbolic = w;
  return t;
}

// The program without what is computed twice or for nobody.
Program condensed(const Program& p, std::span<const int> results) {
  std::array<bool, Program::kMaxInstructions> needed{};
  for (int r : results) needed[r] = true;
  for (int i = p.size(); i-- > 0;)
    for (int k = 0; needed[i] && p[i].fn != ScalarFn::input && k < arity(p[i].fn); ++k) needed[p[i].args[k]] = true;
  Program out(p.type());
  std::array<uint8_t, Program::kMaxInstructions> place{};
  for (int i = 0; i < p.size(); ++i) {
    if (!needed[i]) continue;
    Instruction in = p[i];
    for (int k = 0; in.fn != ScalarFn::input && k < arity(in.fn); ++k) in.args[k] = place[in.args[k]];
    int same = 0;
    const auto is_same = [&](const Instruction& o) {
      return o.fn == in.fn && std::equal(o.args, o.args + 3, in.args) &&
             std::bit_cast<uint64_t>(o.value) == std::bit_cast<uint64_t>(in.value);
    };
    while (same < out.size() && !is_same(out[same])) ++same;
    place[i] = static_cast<uint8_t>(same < out.size() ? same : out.append(in));
  }
  for (int r : results) out.add_result(place[r]);
  return out;
}

// Computes values of one shape and type in one sweep.
class Sweep {
 public:
  explicit Sweep(const Waiting& like) : shape_(like.shape), program_(*like.type) {}

  void run(std::span<Waiting* const> targets) {
    std::vector<int> positions;
    for (Waiting* w : targets) positions.push_back(expression(*w).position());
    const Program program = condensed(program_, positions);
    std::vector<kernels::Operand> operands;
    for (const Tensor& t : read_) operands.push_back({bytes_of(t), impl_of(t).dtype, &impl_of(t).shape});
    std::vector<kernels::Result> results;
    for (Waiting* w : targets) {
      w->value = place_for(*w);
      w->inputs.clear();
      results.push_back({bytes_of(w->value), w->dtype});
    }
    kernels::run_elementwise(program, operands, results, shape_);
  }

 private:
  Expr expression(const Tensor& t) {
    if (!impl_of(t).symbolic) return operand(t);
    Waiting& w = *waiting(t);
    const bool is_part = !w.value.defined() && w.type == program_.type() && w.shape == shape_;
    return is_part ? expression(w) : operand(value_of(w));
  }
  Expr expression(Waiting& w) {
    if (const auto known = known_.find(&w); known != known_.end()) return known->second;
    std::vector<Expr> arguments;
    for (size_t i = 0; i < w.inputs.size(); ++i)  // any number will do where only a shape is read
      arguments.push_back(is_read(w, i) ? expression(w.inputs[i]) : Expr::constant(program_, 0));
    return known_.emplace(&w, rounded(w.op->expression(w.attrs.get(), arguments), w.dtype)).first->second;
  }
  Expr operand(const Tensor& t) {
    size_t i = 0;
    while (i < read_.size() && !read_[i].is_same(t)) ++i;
    if (i == read_.size()) read_.push_back(t);
    return Expr::input(program_, static_cast<int>(i));
  }

  Shape shape_;
  Program program_;
  Tensors read_;
  std::map<const Waiting*, Expr> known_;
};

Tensors concrete(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) {
  Tensors result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const detail::TensorImpl& t = impl_of(inputs[i]);
    const bool is_needed = is_there(inputs[i]) || !op.input_spec(attrs, i).shape_only;
    result.push_back(is_needed ? value_of(inputs[i]) : make_shape_only(t.shape, t.dtype, t.device));
  }
  return result;
}

// A call whose inputs are all there has a way of its own, perhaps with a kernel.
bool stands_alone(const Waiting& w) {
  if (!w.type) return true;
  for (size_t i = 0; i < w.inputs.size(); ++i)
    if (is_read(w, i) && !is_there(w.inputs[i])) return false;
  return true;
}

const Tensor& value_of(Waiting& w) {
  if (w.value.defined()) return w.value;
  if (stands_alone(w)) {
    const Tensors inputs = concrete(*w.op, w.attrs, w.inputs);
    Tensor out = place_for(w);
    apply_into(*w.op, inputs, w.attrs, {&out, 1});
    w.value = out;
    w.inputs.clear();
  } else {
    Waiting* const one = &w;
    Sweep(w).run({&one, 1});
  }
  return w.value;
}

// The type in which an elementwise call computes its elements; null for other calls, and where a program cannot.
std::optional<ComputeType> type_of(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs, DType result) {
  if (!op.is_elementwise()) return {};
  const auto has_first_rank = [&](const Tensor& t) { return impl_of(t).shape.ndim() == impl_of(inputs[0]).shape.ndim(); };
  if (op.kernel && !std::ranges::all_of(inputs, has_first_rank)) return {};  // it may have a way of its own with other ranks
  const ComputeType type = kernels::compute_type(promote_inputs(op, attrs, dtypes_of(inputs)));
  const bool is_real = type == ComputeType::f32 || type == ComputeType::f64;
  return is_real && holds(type, result) ? std::optional(type) : std::nullopt;
}

// The call as one that waits; null where it must be made at once, because its result is not one new tensor of a known shape.
Ref<Waiting> defer(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) {
  if (op.is_view || op.is_dynamic_shape || is_composed(op) || op.has_states || op.draws_random(attrs) || inputs.empty()) return {};
  const auto [shapes, dtypes] = infer_results(op, attrs, inputs);
  if (dtypes.size() != 1) return {};
  auto w = make_ref<Waiting>(shapes[0], dtypes[0], impl_of(inputs[0]).device);
  w->op = &op;
  w->attrs = attrs;
  w->inputs.assign(inputs.begin(), inputs.end());
  w->type = type_of(op, attrs, inputs, dtypes[0]);
  if (!w->type) return w;
  Program program(*w->type);
  std::vector<Expr> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(Expr::input(program, static_cast<int>(i)));
    if (!is_there(inputs[i])) w->instructions += waiting(inputs[i])->instructions;
  }
  rounded(op.expression(attrs.get(), arguments), dtypes[0]);
  if (w->instructions + program.size() > kMostInstructions) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (is_read(*w, i)) value_of(inputs[i]);
    w->instructions = 0;
  }
  w->instructions += program.size();
  return w;
}

// Some calls only hand on what they read, where it has the shape of the result already.
bool hands_on(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) {
  if (!op.is_identity || op.is_elementwise() || op.is_dynamic_shape || !op.is_identity(attrs.get(), mode().training)) return false;
  const auto [shapes, dtypes] = infer_results(op, attrs, inputs);
  return shapes.size() == 1 && shapes[0] == impl_of(inputs[0]).shape && dtypes[0] == impl_of(inputs[0]).dtype;
}

}  // namespace

thread_local int DeferredCalls::depth_ = 0;

DeferredCalls::DeferredCalls() { ++depth_; }
DeferredCalls::~DeferredCalls() { --depth_; }

Tensor DeferredCalls::deferred(const Tensor& concrete) {
  const detail::TensorImpl& t = impl_of(concrete);
  auto w = make_ref<Waiting>(t.shape, t.dtype, t.device);
  w->value = concrete;
  return handle_of(w);
}

Tensors DeferredCalls::values(Tensors tensors, std::span<const Tensor> destinations) {
  for (size_t i = 0; i < std::min(tensors.size(), destinations.size()); ++i) {
    if (!destinations[i].defined() || !tensors[i].defined() || is_there(tensors[i])) continue;
    Waiting& w = *waiting(tensors[i]);
    const detail::TensorImpl& d = impl_of(destinations[i]);
    if (!w.destination.defined() && d.shape == w.shape && d.dtype == w.dtype) w.destination = make_view(destinations[i], d.shape, 0);
  }
  std::vector<Waiting*> open;
  for (const Tensor& t : tensors)
    if (t.defined() && !is_there(t) && !stands_alone(*waiting(t)) && std::ranges::find(open, waiting(t)) == open.end())
      open.push_back(waiting(t));
  // Those of one shape and type share what they read.
  while (!open.empty()) {
    std::vector<Waiting*> together;
    int instructions = 0;
    std::erase_if(open, [&](Waiting* w) {
      const bool fits = together.empty() || (w->shape == together[0]->shape && w->type == together[0]->type &&
                                             together.size() < Program::kMaxResults && instructions + w->instructions <= kMostInstructions);
      if (!fits) return false;
      instructions += w->instructions;
      together.push_back(w);
      return true;
    });
    Sweep(*together[0]).run(together);
  }
  for (Tensor& t : tensors)
    if (t.defined()) t = value_of(t);
  return tensors;
}

Tensors DeferredCalls::call(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) {
  check_input_count(op, attrs, static_cast<int>(inputs.size()));
  if (hands_on(op, attrs, inputs)) return {inputs[0]};
  if (const Ref<Waiting> one = defer(op, attrs, inputs)) return {handle_of(one)};
  Tensors outputs = apply(op, concrete(op, attrs, inputs), attrs);
  for (Tensor& t : outputs) t = deferred(t);
  return outputs;
}

}  // namespace gluino
