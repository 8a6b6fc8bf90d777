#include "exec/derived_values.h"

#include <map>
#include <unordered_map>

#include "base/fork.h"
#include "base/format.h"
#include "exec/kept_values.h"
#include "kernels/isa/primitives.h"
#include "tensor/pool.h"

namespace gluino {

static const detail::TensorImpl& source(const Plan& plan, int slot) { return impl_of(plan.constants[slot]); }

bool is_current(const Plan& plan, const Derived& derived, const std::vector<SourceStamp>& stamps) {
  if (stamps.size() != derived.sources.size()) return false;
  for (size_t i = 0; i < stamps.size(); ++i) {
    const Storage* storage = source(plan, derived.sources[i]).storage.get();
    if (storage != stamps[i].storage.get() || storage->writes() != stamps[i].writes || storage->is_shared_outside()) return false;
  }
  return true;
}

static Tensor compute(const Plan& plan, const Derived& derived) {
  const FreesToSystem scope;   // what the steps give each other is as large as weights, and not needed again
  std::map<int, Tensor> made;  // by slot
  const auto value_of = [&](int s) {
    const Slot& slot = plan.slots[s];
    const Slot& root = plan.slots[slot.root];
    const Tensor& t = root.kind == Slot::Kind::constant ? plan.constants[slot.root] : made.at(slot.root);
    return slot.root == s ? t : make_view(t, slot.shape, 0);
  };
  for (int k : derived.steps) {
    const Step& step = plan.hoisted[k];
    Tensors inputs, outputs;
    for (int s : step.inputs) inputs.push_back(value_of(s));
    for (int s : step.outputs) {
      const Slot& slot = plan.slots[s];
      outputs.push_back(made[s] = make_tensor(slot.shape, slot.dtype, current_device()));
    }
    apply_into(*step.op, inputs, step.attrs, outputs);
  }
  return made.at(derived.slot);
}

// Whether another process may need the same value: not that of random numbers, nor of parameters that are being trained or belong
// to someone else.
static bool is_worth_keeping(const std::vector<SourceStamp>& sources) {
  constexpr uint64_t kWritesOfLoading = 8;  // a parameter that was initialised and loaded has been written no more often
  const SourceStamp* largest = nullptr;
  for (const SourceStamp& s : sources) {
    if (s.writes > kWritesOfLoading || s.storage->is_shared_outside()) return false;
    if (!largest || s.storage->bytes() > largest->storage->bytes()) largest = &s;
  }
  return largest && !largest->storage->is_as_initialised();
}

// Everything that the value depends on.
static std::string identity_of(const Plan& plan, const Derived& derived) {
  const Slot& slot = plan.slots[derived.slot];
  std::string text = fmt::format("{} {} {} {}", derived.recipe, slot.shape, dtype_name(slot.dtype), kernels::primitives().name);
  for (int s : derived.sources) {
    const Tensor& t = plan.constants[s];
    text += fmt::format(" {} {} {}", t.shape(), dtype_name(t.dtype()), hash_of(t));
  }
  return text;
}

// What another process has left, or computed now and left for others.
static Tensor find_or_compute(const Plan& plan, const Derived& derived) {
  const Slot& slot = plan.slots[derived.slot];
  const KeptValues* kept = KeptValues::get();
  if (!kept || slot.shape.elements() * dtype_bytes(slot.dtype) < KeptValues::kSmallest) return compute(plan, derived);
  const std::string identity = identity_of(plan, derived);
  if (Tensor found = kept->find(identity, slot.shape, slot.dtype); found.defined()) return found;
  Tensor value = compute(plan, derived);
  kept->put_later(identity, value);
  return value;
}

Tensor DerivedValue::current(const Plan& plan, const Derived& derived, std::vector<SourceStamp>& stamps) {
  const auto known = [&] {
    const std::lock_guard lock(mutex_);
    if (!value_.defined() || !is_current(plan, derived, stamps_)) return Tensor();
    stamps = stamps_;
    return value_;
  };
  if (Tensor value = known(); value.defined()) return value;
  const PerProcessMutex::Lock one_at_a_time = computing_.lock();
  if (Tensor value = known(); value.defined()) return value;
  stamps.clear();
  for (int s : derived.sources) stamps.push_back({source(plan, s).storage, source(plan, s).storage->writes()});
  // What has changed will change again. Fresh memory: a run in another thread may still read the old value.
  const bool is_first = !value_.defined();
  const Tensor value = is_first && is_worth_keeping(stamps) ? find_or_compute(plan, derived) : compute(plan, derived);
  const std::lock_guard lock(mutex_);
  stamps_ = stamps;
  return value_ = value;
}

std::shared_ptr<DerivedValue> find_derived_value(const std::string& key) {
  static auto* mutex = new NoForkMutex;
  static auto* values = new std::unordered_map<std::string, std::weak_ptr<DerivedValue>>;
  static size_t most = 64;  // entries, before those of values that are gone are taken out: each is looked at a few times in all
  const std::lock_guard lock(*mutex);
  if (const auto known = values->find(key); known != values->end())
    if (auto value = known->second.lock()) return value;
  if (values->size() >= most) {
    std::erase_if(*values, [](const auto& entry) { return entry.second.expired(); });
    most = std::max<size_t>(64, 2 * values->size());
  }
  auto value = std::make_shared<DerivedValue>();
  (*values)[key] = value;
  return value;
}

}  // namespace gluino
