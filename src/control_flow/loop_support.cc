#include "control_flow/loop_support.h"

#include <cstring>

#include "base/format.h"

namespace gluino {

void ForeachAttrs::fields(AttrFields<ForeachAttrs>& f) {
  f.required("num_args", &ForeachAttrs::num_args, "number of inputs and bodies")
      .required("num_outputs", &ForeachAttrs::num_outputs, "number of outputs and states")
      .required("num_out_data", &ForeachAttrs::num_out_data, "number of outputs that are stacked")
      .required("in_state_locs", &ForeachAttrs::in_state_locs, "which inputs of the body the states are")
      .required("in_data_locs", &ForeachAttrs::in_data_locs, "which inputs of the body the data are")
      .required("remain_locs", &ForeachAttrs::remain_locs, "which inputs of the body the remaining inputs are");
}
void WhileLoopAttrs::fields(AttrFields<WhileLoopAttrs>& f) {
  f.required("num_args", &WhileLoopAttrs::num_args, "number of inputs and bodies")
      .required("num_outputs", &WhileLoopAttrs::num_outputs, "number of outputs and loop variables")
      .required("num_out_data", &WhileLoopAttrs::num_out_data, "number of outputs that are stacked")
      .required("max_iterations", &WhileLoopAttrs::max_iterations, "the loop ends after so many steps")
      .required("cond_input_locs", &WhileLoopAttrs::cond_input_locs, "which inputs the condition gets")
      .required("func_input_locs", &WhileLoopAttrs::func_input_locs, "which inputs the body gets")
      .required("func_var_locs", &WhileLoopAttrs::func_var_locs, "which inputs of the body the loop variables are");
}
void CondAttrs::fields(AttrFields<CondAttrs>& f) {
  f.required("num_args", &CondAttrs::num_args, "number of inputs and bodies")
      .required("num_outputs", &CondAttrs::num_outputs, "number of outputs")
      .required("cond_input_locs", &CondAttrs::cond_input_locs, "which inputs the condition gets")
      .required("then_input_locs", &CondAttrs::then_input_locs, "which inputs the first branch gets")
      .required("else_input_locs", &CondAttrs::else_input_locs, "which inputs the second branch gets");
}

namespace loops {

LoopTrace LoopTrace::load(const Tensor& t) {
  const auto* v = t.data<int64_t>();
  return {v[0] != 0, v[kPlaceOfSteps], {static_cast<uint64_t>(v[2]), static_cast<uint64_t>(v[3])}};
}
void LoopTrace::store(Tensor& t, Dependence of_run) const {
  auto* v = t.mutable_data<int64_t>();
  v[0] = training;
  v[kPlaceOfSteps] = steps;
  v[2] = static_cast<int64_t>(first.seed);
  v[3] = static_cast<int64_t>(first.stream);
  const std::span<const uint64_t> words = of_run.words();
  std::memcpy(v + kNumbers, words.data(), words.size_bytes());
}
Shape trace_shape(int64_t num_outputs, size_t num_inputs) {
  Dependence nothing(static_cast<size_t>(num_outputs), num_inputs);
  return {LoopTrace::kNumbers + static_cast<int64_t>(nothing.words().size())};
}
Dependence dependence_in(const Tensor& trace, size_t num_outputs, size_t num_inputs) {
  Dependence d(num_outputs, num_inputs);
  const std::span<uint64_t> words = d.words();
  std::memcpy(words.data(), trace.data<int64_t>() + LoopTrace::kNumbers, words.size_bytes());
  return d;
}

LoopDependence::LoopDependence(size_t rows, Dependence states, bool is_any)
    : rows_(rows, states.num_inputs()), states_(std::move(states)), is_any_(is_any) {}
bool LoopDependence::add_step(const Dependence& body, const Dependence& given) {
  const Dependence after = body.through(given), before = rows_;
  const size_t rows = rows_.num_outputs();
  for (size_t j = 0; j < rows; ++j) rows_.add(j, after, j);
  Dependence next = is_any_ ? states_ : Dependence(states_.num_outputs(), states_.num_inputs());
  for (size_t j = 0; j < next.num_outputs(); ++j) next.add(j, after, rows + j);
  const bool is_new = !(next == states_) || !(before == rows_);
  states_ = std::move(next);
  return is_new;
}
Dependence LoopDependence::result() const {
  Dependence all(rows_.num_outputs() + states_.num_outputs(), states_.num_inputs());
  for (size_t j = 0; j < rows_.num_outputs(); ++j) all.add(j, rows_, j);
  for (size_t j = 0; j < states_.num_outputs(); ++j) all.add(rows_.num_outputs() + j, states_, j);
  return all;
}

ForwardRun::ForwardRun(KernelContext& k)
    : device_(impl_of(k.out(k.num_outputs() - 1)).device),
      off_tape_(false, std::nullopt),
      trace_{k.training(), 0, peek_random_stream(device_)} {
  random_.emplace(device_, trace_.first);
}
void ForwardRun::finish(KernelContext& k, int64_t steps, Dependence of_run) {
  const RandomStream next = random_->next();
  random_.reset();
  if (next.stream != trace_.first.stream) advance_random_stream(device_, next);
  trace_.steps = steps;
  trace_.store(k.out(k.num_outputs() - 1), std::move(of_run));
}

Shape row_shape(const Shape& s) {
  Shape row = s;
  row.erase(0);
  return row;
}
Tensor row_of(const Tensor& t, int64_t i) {
  const Shape row = row_shape(impl_of(t).shape);
  return make_view(t, row, i * row.elements());
}
Tensors rows_at(std::span<const Tensor> tensors, int64_t step) {
  Tensors rows;
  for (const Tensor& t : tensors) rows.push_back(row_of(t, step));
  return rows;
}
void copy_into(const Tensor& from, const Tensor& to) {
  const detail::TensorImpl &f = impl_of(from), &t = impl_of(to);
  if (!(f.shape == t.shape) || f.dtype != t.dtype)
    throw InternalError(fmt::format("a body gave {} {} where {} {} was inferred", f.dtype, f.shape, t.dtype, t.shape));
  std::memcpy(t.data, bytes_of(from), t.shape.elements() * dtype_bytes(t.dtype));
}
void clear_rows(Tensor& t, int64_t first) {
  const int64_t row = row_shape(impl_of(t).shape).elements() * dtype_bytes(impl_of(t).dtype);
  std::memset(bytes_of(t) + first * row, 0, (impl_of(t).shape[0] - first) * row);
}
Tensor zeros_for(const Tensor& like) {
  Tensor t = make_tensor(impl_of(like).shape, impl_of(like).dtype, impl_of(like).device);
  std::memset(bytes_of(t), 0, t.nbytes());
  return t;
}
void add_to(Tensor& sum, const Tensor& t) {
  if (t.defined()) sum = sum.defined() ? call("elemwise_add", {sum, t}) : t;
}
Tensors kernel_inputs(const KernelContext& k) {
  Tensors inputs;
  for (int i = 0; i < k.num_inputs(); ++i) inputs.push_back(k.in(i));
  return inputs;
}

Tensors run_again(const Body& body, Tensors inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (body.is_state(static_cast<int>(i))) inputs[i] = inputs[i].copy();
  return Body::Runner(body, inputs)(inputs);
}

Tensors body_gradients(const Body& body, Tensors inputs, const std::vector<bool>& wanted, const Tensors& heads, bool training) {
  Tensors leaves, outputs, reached, reached_heads;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = make_view(inputs[i], impl_of(inputs[i]).shape, 0);
    if (!wanted[i] || !is_floating(inputs[i].dtype())) continue;
    auto entry = make_ref<autograd::TapeEntry>();
    entry->req = GradReq::write;
    impl_of(inputs[i]).autograd = entry;
    leaves.push_back(inputs[i]);
    numbers.push_back(i);
  }
  {
    const autograd::Scope scope(true, training);
    outputs = run_again(body, inputs);
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (heads[i].defined() && autograd::entry_of(outputs[i])) {
      reached.push_back(outputs[i]);
      reached_heads.push_back(heads[i]);
    }
  Tensors gradients(inputs.size());
  if (reached.empty() || leaves.empty()) return gradients;
  const Tensors found = autograd::grad(reached, leaves, reached_heads, {.train_mode = training});
  for (size_t i = 0; i < found.size(); ++i) gradients[numbers[i]] = found[i];
  return gradients;
}

void need(bool ok, std::string_view what) {
  if (!ok) raise<UserError>("the attributes do not fit the body: {}", what);
}
void check_places(const OptionalInts& locs, size_t end, std::string_view name) {
  for (const auto& loc : locs)
    need(!loc || (*loc >= 0 && *loc < static_cast<int64_t>(end)), fmt::format("{} names input {} of {}", name, loc.value_or(0), end));
}
void check_same_shape(const char* role, size_t i, const Shape& before, const Shape& after) {
  if (!(before == after))
    raise<ShapeError>("{} {} has shape {}, but the body returns shape {}; it must stay the same", role, i, before, after);
}
void check_same_type(const char* role, size_t i, DType before, DType after) {
  if (before != after) raise<DTypeError>("{} {} is {}, but the body returns {}; it must stay the same", role, i, before, after);
}
Shape with_rows(const Shape& row, int64_t rows) {
  Shape s = row;
  s.insert(0, rows);
  return s;
}

BackwardInputs::BackwardInputs(const KernelContext& k, int64_t num_outputs) : trace(LoopTrace::load(k.in(k.num_inputs() - 1))) {
  for (int i = 0; i + 1 < k.num_inputs(); ++i) (i < num_outputs ? heads : inputs).push_back(k.in(i));
}
void store_gradients(KernelContext& k, const std::vector<int>& wanted, const Tensors& gradients) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    Tensor& out = k.out(static_cast<int>(i));
    const Tensor& g = gradients[wanted[i]];
    if (g.defined())
      copy_into(g, out);
    else
      std::memset(bytes_of(out), 0, out.nbytes());
  }
}
std::vector<bool> wanted_flags(const std::vector<int>& wanted, size_t count) {
  std::vector<bool> flags(count, false);
  for (int i : wanted) flags[i] = true;
  return flags;
}
Tensors tape_gradients(const Tensors& outputs, const Tensors& variables, const Tensors& heads, const LoopTrace& trace) {
  Tensors reached, reached_heads;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (autograd::entry_of(outputs[i])) {
      reached.push_back(outputs[i]);
      reached_heads.push_back(heads[i]);
    }
  if (reached.empty()) return {};
  return autograd::grad(reached, variables, reached_heads, {.create_graph = true, .train_mode = trace.training});
}

}  // namespace loops
}  // namespace gluino
