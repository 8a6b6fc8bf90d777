#include "graph/gradient.h"

#include <unordered_map>

#include "base/format.h"
#include "dispatch/dependent_outputs.h"
#include "dispatch/own_gradient.h"
#include "gluino/autograd.h"

namespace gluino {
namespace {

class Backward {
 public:
  Backward(const GradientRequest& request, GradientNotes* notes)
      : request_(request),
        ends_(notes ? &notes->ends : nullptr),
        parts_(notes && request.heads.size() > 1 ? &notes->parts : nullptr),
        places_(request.nodes.size()) {
    for (size_t i = 0; i < request.nodes.size(); ++i) {
      numbers_[request.nodes[i]] = i;
      places_[i].heads.resize(std::max<size_t>(1, request.nodes[i]->outputs.size()));
      places_[i].parts.resize(places_[i].heads.size(), HeadSets::kNone);
    }
    for (size_t i = 0; i < request.wanted.size(); ++i) {
      const auto it = numbers_.find(request.wanted[i].node.get());
      if (it == numbers_.end()) continue;
      places_[it->second].wanted.push_back(request.wanted[i].index);
      places_[it->second].keeps_rows = !request.as_rows.empty() && request.as_rows[i] && !request.wanted[i].node->op;
    }
    for (size_t i = 0; i < request.nodes.size(); ++i)
      for (const Value& v : request.nodes[i]->inputs) places_[i].reaches |= is_reached(v);
  }

  std::vector<SymbolicGradient> run() {
    for (size_t i = 0; i < request_.heads.size(); ++i)
      if (!is_hidden(request_.heads[i]))
        accumulate(request_.heads[i], request_.head_grads[i], parts_ ? parts_->of({static_cast<int>(i)}) : 0);
    for (size_t i = request_.nodes.size(); i-- > 0;) step(*request_.nodes[i], places_[i]);
    std::vector<SymbolicGradient> gradients;
    for (const Value& v : request_.wanted) {
      SymbolicGradient& gradient = gradients.emplace_back();
      const auto it = numbers_.find(v.node.get());
      if (it == numbers_.end()) continue;
      const Place& place = places_[it->second];
      gradient.dense = place.heads[v.index];
      if (!gradient.dense.defined())
        gradient.rows = place.rows;
      else
        for (const PickedRows& piece : place.rows)
          gradient.dense = call("elemwise_add", {gradient.dense, table_of(piece, tensor_of_known(v))});
    }
    return gradients;
  }

 private:
  struct Place {
    Tensors heads;                       // what has flowed into each output
    std::vector<int> parts;              // from which heads
    int blocked_part = HeadSets::kNone;  // from which heads zeros have
    std::vector<int> wanted;             // outputs whose gradients were asked for
    bool reaches = false;                // whether a wanted value lies behind it
    bool is_blocked = false;             // zeros flow in, from an operator without a gradient
    bool keeps_rows = false;
    std::vector<PickedRows> rows;  // that have flowed into it as such
  };

  // What a loop leaves for its own gradient: nothing flows in.
  static bool is_hidden(const Value& v) {
    return v.node->op && dependence_rule_of(*v.node->op) && v.index + 1 == static_cast<int>(v.node->outputs.size());
  }
  bool is_reached(const Value& v) const {
    const Place& p = places_[numbers_.at(v.node.get())];
    return (p.reaches && !v.node->mode.is_paused) || std::find(p.wanted.begin(), p.wanted.end(), v.index) != p.wanted.end();
  }
  int joined(int a, int b) const { return parts_ ? parts_->join(a, b) : HeadSets::kNone; }
  int part_of_nodes(int part) const { return parts_ ? part : -1; }
  void accumulate(const Value& v, const Tensor& g, int part) {
    Place& place = places_[numbers_.at(v.node.get())];
    Tensor& slot = place.heads[v.index];
    int& whole = place.parts[v.index];
    whole = joined(whole, part);
    const MakesNodesOfPart in_part(part_of_nodes(whole));
    slot = slot.defined() ? call("elemwise_add", {slot, g}) : g;
  }

  // Zeros flow into a value: they end the way, but for operators that give a gradient of their own.
  void block(const Value& v, int part) {
    Place& place = places_[numbers_.at(v.node.get())];
    place.is_blocked = true;
    place.blocked_part = joined(place.blocked_part, part);
  }
  void end(const GraphNode& node, size_t input, int part) {
    block(node.inputs[input], part);
    if (ends_ && is_reached(node.inputs[input])) ends_->add(node, input);
  }

  void step(GraphNode& node, Place& place) {
    const bool any = std::any_of(place.heads.begin(), place.heads.end(), [](const Tensor& t) { return t.defined(); });
    if (!node.op || !place.reaches || node.mode.is_paused || !(any || place.is_blocked)) return;
    int part = HeadSets::kNone;
    for (size_t k = 0; k < place.parts.size(); ++k) part = joined(part, place.parts[k]);
    if (has_own_gradient(*node.op) || !any) part = joined(part, place.blocked_part);
    if (!any && !has_own_gradient(*node.op)) {
      for (const Value& v : node.inputs) block(v, part);
      return;
    }
    if (place.is_blocked && !has_own_gradient(*node.op))
      for (const Value& v : node.inputs) block(v, place.blocked_part);
    if (!node.op->gradient) {
      for (size_t i = 0; i < node.inputs.size(); ++i) end(node, i, part);
      return;
    }
    const MakesNodesOfPart in_part(part_of_nodes(part));
    const Ref<GraphNode> self(&node);
    const Uses& uses = node.op->uses;
    Tensors ins(node.inputs.size()), outs(node.outputs.size()), likes, heads = place.heads;
    std::vector<bool> wanted;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      likes.push_back(tensor_of_known(node.inputs[i]));
      if (uses.all_inputs || std::find(uses.inputs.begin(), uses.inputs.end(), static_cast<int>(i)) != uses.inputs.end())
        ins[i] = likes.back();
      wanted.push_back(is_reached(node.inputs[i]));
    }
    for (int k : uses.outputs)
      if (k < static_cast<int>(outs.size())) outs[k] = tensor_of_known({self, k});
    if (uses.last_output) outs.back() = tensor_of_known({self, static_cast<int>(outs.size()) - 1});
    for (size_t k = 0; k < heads.size(); ++k)
      if (!heads[k].defined()) heads[k] = constant_like("zeros_like", tensor_of_known({self, static_cast<int>(k)}));
    const Gradient gradient(*node.op, std::move(ins), std::move(outs), std::move(heads), std::move(likes), wanted);
    if (const RowRule* rule = row_rule_of(*node.op))
      if (Place& table = places_[numbers_.at(node.inputs[rule->table].node.get())]; table.keeps_rows)
        if (auto picked = rule->rows(node.attrs.get(), gradient)) {
          table.rows.push_back(std::move(*picked));
          for (size_t i = 0; i < node.inputs.size(); ++i)
            if (i != static_cast<size_t>(rule->table)) end(node, i, part);
          return;
        }
    const Tensors gradients = node.op->gradient(node.attrs.get(), gradient);
    for (size_t i = 0; i < gradients.size(); ++i)
      if (!gradients[i].defined()) {
        end(node, i, part);
      } else if (wanted[i]) {
        check_shape(*node.op, i, gradients[i], *node.inputs[i].node->outputs[node.inputs[i].index].shape);
        const DType dtype = *node.inputs[i].node->outputs[node.inputs[i].index].dtype;
        accumulate(node.inputs[i], gradients[i].dtype() == dtype ? gradients[i] : gradients[i].astype(dtype), part);
      }
  }

  // Memory is planned by the input's shape.
  static void check_shape(const OpDef& op, size_t input, const Tensor& gradient, const Shape& needed) {
    const detail::TensorImpl& g = impl_of(gradient);
    if (g.symbolic && !g.symbolic->has_shape)
      raise<UserError>("the shape of the gradient of {} for input {} depends on values; call it without hybridize()", op.name, input);
    if (!(g.shape == needed))
      throw InternalError(fmt::format("the gradient of {} for input {} has shape {} instead of {}", op.name, input, g.shape, needed));
  }

  const GradientRequest& request_;
  DeadEnds* ends_;
  HeadSets* parts_;  // null where nobody asks, or one head is all
  std::unordered_map<const GraphNode*, size_t> numbers_;
  std::vector<Place> places_;
};

}  // namespace

Tensor constant_like(std::string_view op, const Tensor& t) {
  const autograd::Scope paused(false, std::nullopt);
  return call(op, {t});
}
Tensor tensor_of_known(const Value& v) {
  const OutputInfo& info = v.node->outputs[v.index];
  return tensor_of(v, *info.shape, *info.dtype, current_device());
}

void DeadEnds::add(const GraphNode& call, size_t input) {
  std::vector<bool>& inputs = of_calls_[call.name];
  inputs.resize(call.inputs.size(), false);
  inputs[input] = true;
}
bool DeadEnds::is_end(const Graph::Node& call, size_t input) const {
  if (!call.op->gradient) return true;
  const auto known = of_calls_.find(call.name);
  return known != of_calls_.end() && input < known->second.size() && known->second[input];
}

std::vector<SymbolicGradient> symbolic_gradients_and_rows(const GradientRequest& request, GradientNotes* notes) {
  return Backward(request, notes).run();
}
Tensors symbolic_gradients(const GradientRequest& request) {
  Tensors gradients;
  for (SymbolicGradient& g : Backward(request, nullptr).run()) gradients.push_back(std::move(g.dense));
  return gradients;
}

}  // namespace gluino
