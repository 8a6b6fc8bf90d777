#include "autograd/traced_backward.h"

#include "autograd/row_gradient.h"
#include "dispatch/mode.h"
#include "dispatch/untraceable.h"

namespace gluino::autograd {
namespace {

// Something flows on from here, to calls that are no part of the program.
bool is_from_outside(const Tensor& t) { return is_on_tape(t) && !entry_of(t)->is_leaf(); }
bool is_made_inside(const TapeEntry& leaf) { return leaf.leaf_grad.is_symbolic() || impl_of(leaf.leaf_grad).is_made_in_trace(); }

}  // namespace

Tensors trace_backward(const Tensors& heads, const Tensors& variables, const Tensors& head_grads, BackwardOptions options) {
  const Scope scope(options.create_graph, options.train_mode);
  const bool retain = options.retain_graph || options.create_graph;
  for (const Tensor& t : heads)
    if (!t.defined()) throw UserError("backward: the head is a null tensor");
  Tensors leaves = trace_hook().tensors_with_gradients(), outside;
  std::ranges::copy_if(leaves, std::back_inserter(outside), is_from_outside);
  const auto check_outside = [&](const Tensors& gradients) {
    for (const Tensor& g : gradients)
      if (g.defined()) throw Untraceable("a backward pass in it goes on to what the function was given");
  };
  if (!variables.empty()) {
    const auto is_apart = [&](const Tensor& s) {
      return !retain || std::ranges::any_of(variables, [&](const Tensor& v) {
        const TapeEntry* e = is_on_tape(v) ? entry_of(v) : nullptr;
        return e && !v.is_same(s) && !(e->is_leaf() && is_made_inside(*e));
      });
    };
    std::erase_if(outside, [&](const Tensor& s) { return !is_apart(s); });
    Tensors wanted = variables;
    wanted.insert(wanted.end(), outside.begin(), outside.end());
    Tensors gradients = trace_hook().gradients(heads, head_grads, wanted, retain);
    check_outside({gradients.begin() + static_cast<std::ptrdiff_t>(variables.size()), gradients.end()});
    gradients.resize(variables.size());
    for (size_t i = 0; i < gradients.size(); ++i)
      gradients[i] = gradients[i].defined() ? gluino::call("_copy", {gradients[i]}) : zeros_like(variables[i]);
    return gradients;
  }
  std::erase_if(leaves, [](const Tensor& t) { return !entry_of(t) || !entry_of(t)->has_own_gradient(); });
  Tensors wanted = leaves;
  wanted.insert(wanted.end(), outside.begin(), outside.end());
  const Tensors gradients = trace_hook().gradients(heads, head_grads, wanted, retain);
  check_outside({gradients.begin() + static_cast<std::ptrdiff_t>(leaves.size()), gradients.end()});
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const Ref<TapeEntry> entry(entry_of(leaves[i]));
    if (!is_made_inside(*entry)) {
      if (leaves[i].is_symbolic()) throw Untraceable("it writes the gradient of an argument");
      note_gradient_place(*entry);
    }
    dense_gradient(*entry);
    if (entry->req == GradReq::add)
      entry->leaf_grad += gradients[i];
    else
      entry->leaf_grad.assign(gradients[i]);
    entry->is_fresh = true;
    trace_hook().after_each_run([entry] { entry->is_fresh = true; });
  }
  return {};
}

}  // namespace gluino::autograd
