// Custom: the operator behind mx.operator.CustomOp. What it computes is Python's: gluino.operator keeps one object per
// call or node, which knows the user's classes.
#include <cstring>

#include "dispatch/run_log.h"
#include "gluino/autograd.h"
#include "graph/trace.h"
#include "object.h"
#include "tensor/impl.h"

namespace gluino::python {
namespace {

// Arrays that Python may keep: the kernel's own memory is used again for other values.
Tensor private_copy(const Tensor& t) {
  Tensor copy = make_tensor(impl_of(t).shape, impl_of(t).dtype, impl_of(t).device);
  std::memcpy(bytes_of(copy), bytes_of(t), t.nbytes());
  return copy;
}
void copy_back(const Tensor& from, const Tensor& to) {
  std::memcpy(bytes_of(to), bytes_of(from), to.nbytes());
  impl_of(to).storage->note_write();
}
Tensor zeros_for(const Tensor& t) { return zeros(t.shape(), {t.dtype(), t.device()}); }

py::list list_of(const Tensors& tensors) {
  py::list all;
  for (const Tensor& t : tensors) all.append(t);
  return all;
}

// The user's operator as Python sees it, made when it is first asked for and shared by forward and backward.
class CustomCall {
 public:
  CustomCall(const std::string& op_type, const StringMap& attrs) {
    py::dict kwargs;
    for (const auto& [key, value] : attrs) kwargs[key.c_str()] = value;
    call_ = keep(py::module_::import("gluino.operator").attr("Call")(op_type, kwargs));
    num_arguments_ = py::len(call_->attr("arguments"));
    num_states_ = py::len(call_->attr("states"));
    for (py::handle name : call_->attr("outputs")) outputs_.push_back(py::cast<std::string>(name));
  }
  size_t num_arguments() const { return num_arguments_; }
  size_t num_inputs() const { return num_arguments_ + num_states_; }
  size_t num_outputs() const { return outputs_.size(); }
  const std::vector<std::string>& outputs() const { return outputs_; }
  py::object method(const char* name) const { return call_->attr(name); }

 private:
  std::shared_ptr<py::object> call_;
  size_t num_arguments_ = 0, num_states_ = 0;
  std::vector<std::string> outputs_;
};

struct CustomAttrs {
  std::string op_type;
  StringMap others;
  std::vector<int> wanted;  // of the gradient: the arguments whose gradients it gives
  std::shared_ptr<std::optional<CustomCall>> shared = std::make_shared<std::optional<CustomCall>>();

  static void fields(AttrFields<CustomAttrs>& f) {
    f.required("op_type", &CustomAttrs::op_type, "the name that mx.operator.register gave it");
  }
  const CustomCall& call() const {
    const py::gil_scoped_acquire lock;
    if (!*shared) shared->emplace(op_type, others);
    return **shared;
  }
};

// What Python's rules raise becomes an error of the graph, which inference may have to try again without.
template <class F>
auto ruled(const CustomAttrs& a, F f) {
  const CustomCall& call = a.call();
  const py::gil_scoped_acquire lock;
  try {
    return f(call);
  } catch (const py::error_already_set& e) {
    throw UserError("the rules of '" + a.op_type + "' failed: " + e.what());
  }
}
void check_count(const CustomAttrs& a, size_t given) {
  if (const size_t wanted = a.call().num_inputs(); given != wanted)
    throw UserError("'" + a.op_type + "' was given " + std::to_string(given) + " inputs, but takes " + std::to_string(wanted));
}

// (shapes of all inputs, shapes of outputs); an input's shape that is not known is None.
std::pair<std::vector<Shape>, std::vector<Shape>> infer_shapes(const CustomAttrs& a, const OptionalShapes& in) {
  check_count(a, in.size());
  return ruled(a, [&](const CustomCall& call) {
    py::list known;
    for (size_t i = 0; i < call.num_arguments(); ++i) known.append(in[i] ? py::object(from_shape(*in[i])) : py::none());
    const py::tuple found = call.method("infer_shape")(known);
    auto shapes = [](const py::object& list) {
      std::vector<Shape> out;
      for (py::handle s : list) out.push_back(to_shape(s));
      return out;
    };
    return std::make_pair(shapes(found[0]), shapes(found[1]));
  });
}
const Shape kRunShape{1};  // of the hidden output that tells backward which run of the node it belongs to

std::vector<Shape> output_shapes(const CustomAttrs& a, std::span<const Shape> in) {
  std::vector<Shape> out = infer_shapes(a, OptionalShapes(in.begin(), in.end())).second;
  out.push_back(kRunShape);
  return out;
}
void complete_inputs(const CustomAttrs& a, OptionalShapes& in, const OptionalShapes&) {
  if (in.empty() || !in[0] || !in[0]->is_known()) return;
  const std::vector<Shape> inputs = infer_shapes(a, in).first;
  for (size_t i = 0; i < in.size(); ++i)
    if (!in[i] || !in[i]->is_known()) in[i] = inputs[i];
}
std::vector<DType> output_types(const CustomAttrs& a, std::span<const DType> in, DType) {
  check_count(a, in.size());
  return ruled(a, [&](const CustomCall& call) {
    py::list known;
    for (size_t i = 0; i < call.num_arguments(); ++i) known.append(std::string(dtype_name(in[i])));
    std::vector<DType> out;
    for (py::handle type : call.method("infer_type")(known)) out.push_back(to_dtype(type));
    out.push_back(DType::int64);
    return out;
  });
}

Tensors copies(const KernelContext& k, size_t begin, size_t count) {
  Tensors out;
  for (size_t i = begin; i < begin + count; ++i) out.push_back(private_copy(k.in(static_cast<int>(i))));
  return out;
}

// Ctrl-C and exit() are no errors.
template <class... Arguments>
py::object call_python(const py::object& method, Arguments&&... arguments) {
  try {
    return method(std::forward<Arguments>(arguments)...);
  } catch (const py::error_already_set& e) {
    if (!e.matches(PyExc_Exception)) throw;
    throw PythonError(e);
  }
}

// The number of a run is in memory of its own, which keeps what the run needs: whoever may go back from it has that memory, a tape or the
// arena of a plan.
void put_number(int64_t number, const std::shared_ptr<py::object>& needed, const Tensor& to) {
  Tensor memory = make_tensor(kRunShape, DType::int64, impl_of(to).device);
  *memory.mutable_data<int64_t>() = number;
  detail::TensorImpl& t = impl_of(to);
  t.data = bytes_of(memory);
  t.storage = make_ref<Storage>(t.data, static_cast<int64_t>(sizeof number), t.device, [memory, needed] {});
}

// What a run has given, for a call that is made again.
struct KnownRun {
  const void* call;
  int64_t number;
  std::shared_ptr<py::object> needed;
  Tensors out, states;

  void store(KernelContext& k, size_t first_state) const {
    for (size_t i = 0; i < out.size(); ++i) copy_back(out[i], k.out(static_cast<int>(i)));
    for (size_t i = 0; i < states.size(); ++i) copy_back(states[i], k.state(static_cast<int>(first_state + i)));
    put_number(number, needed, k.out(static_cast<int>(out.size())));
  }
};

void forward_kernel(const CustomAttrs& a, KernelContext& k) {
  const CustomCall& call = a.call();
  if (const auto known = std::static_pointer_cast<KnownRun>(RunLog::next()); known && known->call == &call)
    return known->store(k, call.num_arguments());
  const PauseTracing pause;
  const autograd::Scope off_tape(false, k.training());
  const py::gil_scoped_acquire lock;
  const Tensors in = copies(k, 0, call.num_arguments());
  auto run = std::make_shared<KnownRun>();
  run->call = &call;
  run->states = copies(k, call.num_arguments(), call.num_inputs() - call.num_arguments());
  for (size_t i = 0; i < call.num_outputs(); ++i) run->out.push_back(zeros_for(k.out(static_cast<int>(i))));
  {
    const RunLog::Pause unlogged;
    const py::tuple made = call_python(call.method("forward"), k.training(), list_of(in), list_of(run->out), list_of(run->states));
    run->number = py::cast<int64_t>(made[0]);
    run->needed = keep(made[1]);
  }
  run->store(k, call.num_arguments());
  RunLog::add(std::move(run));
}

// Inputs: heads, inputs and outputs of the forward call, its run.
void backward_kernel(const CustomAttrs& a, KernelContext& k) {
  const CustomCall& call = a.call();
  const PauseTracing pause;
  const autograd::Scope off_tape(false, true);
  const py::gil_scoped_acquire lock;
  const size_t num_out = call.num_outputs(), num_in = call.num_arguments();
  const Tensors heads = copies(k, 0, num_out), in = copies(k, num_out, num_in),
                states = copies(k, num_out + num_in, call.num_inputs() - num_in), out = copies(k, num_out + call.num_inputs(), num_out);
  Tensors gradients;
  for (const Tensor& t : in) gradients.push_back(zeros_for(t));
  std::vector<const char*> requests(num_in, "null");
  for (int i : a.wanted) requests[i] = "write";
  const RunLog::Pause unlogged;
  py::list req;
  for (const char* r : requests) req.append(r);
  call_python(call.method("backward"), k.in(k.num_inputs() - 1).item<int64_t>(), req, list_of(heads), list_of(in), list_of(out),
              list_of(gradients), list_of(states));
  for (size_t i = 0; i < a.wanted.size(); ++i) copy_back(gradients[a.wanted[i]], k.out(static_cast<int>(i)));
}

Tensors gradient(const CustomAttrs& a, const Gradient& g) {
  const CustomCall& call = a.call();
  auto attrs = std::make_shared<CustomAttrs>(a);
  for (size_t i = 0; i < call.num_arguments(); ++i)
    if (g.wants(static_cast<int>(i))) attrs->wanted.push_back(static_cast<int>(i));
  Tensors result(call.num_inputs()), inputs;
  if (attrs->wanted.empty()) return result;
  for (size_t i = 0; i < call.num_outputs(); ++i) inputs.push_back(g.head(static_cast<int>(i)));
  for (size_t i = 0; i < call.num_inputs(); ++i) inputs.push_back(g.in(static_cast<int>(i)));
  for (size_t i = 0; i <= call.num_outputs(); ++i) inputs.push_back(g.out(static_cast<int>(i)));
  const Tensors found = apply(OpRegistry::global().get("_backward_Custom"), inputs, attrs);
  for (size_t i = 0; i < found.size(); ++i) result[attrs->wanted[i]] = found[i];
  return result;
}
Uses everything() {
  Uses uses{.inputs = {}, .outputs = {}, .all_inputs = true, .last_output = true};
  for (int i = 0; i < 256; ++i) uses.outputs.push_back(i);
  return uses;
}

OpBuilder<CustomAttrs>& define(OpBuilder<CustomAttrs>& op) {
  // What a user's code does is not known: it may draw numbers, so that calls are neither merged nor left out.
  return op.variadic("data").own_dtype().dtypes(DTypeSet::any).other_attrs(&CustomAttrs::others).random();
}

GLUINO_OP(Custom, CustomAttrs) {
  define(op.doc("An operator that is written in Python and registered with mx.operator.register."))
      .num_outputs([](const CustomAttrs& a) { return a.call().num_outputs() + 1; })
      .output_names([](const CustomAttrs& a) { return a.call().outputs(); })
      .hidden_outputs(1)
      .state_if([](const CustomAttrs& a, int input) { return static_cast<size_t>(input) >= a.call().num_arguments(); })
      .shape(output_shapes)
      .complete(complete_inputs)
      .dtype(output_types)
      .mode_dependent()
      .refuses_values()  // with whatever Python raises
      .kernel(forward_kernel)
      .gradient(everything(), gradient);
}
GLUINO_OP(_backward_Custom, CustomAttrs) {
  define(op.doc("The gradients of Custom."))
      .num_outputs([](const CustomAttrs& a) { return a.wanted.size(); })
      .shape([](const CustomAttrs& a, std::span<const Shape> in) {
        std::vector<Shape> out;
        for (int i : a.wanted) out.push_back(in[a.call().num_outputs() + static_cast<size_t>(i)]);
        return out;
      })
      .dtype([](const CustomAttrs& a, std::span<const DType> in, DType) {
        std::vector<DType> out;
        for (int i : a.wanted) out.push_back(in[a.call().num_outputs() + static_cast<size_t>(i)]);
        return out;
      })
      .kernel(backward_kernel)
      .not_differentiable("a user's operator defines one gradient");
}

}  // namespace
}  // namespace gluino::python
