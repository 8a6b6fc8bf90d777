#include "exec/captured.h"

#include <map>
#include <mutex>

#include "base/fork.h"

namespace gluino {
namespace {

struct Table {
  NoForkMutex mutex;
  std::map<const detail::TensorImpl*, std::weak_ptr<CapturedTensor>> tensors;
};
Table& table() {
  static auto* t = new Table;  // programs may end after static objects
  return *t;
}

}  // namespace

CapturedTensor::CapturedTensor(const Tensor& live)
    : live_(live),
      shadow_(make_view(live, impl_of(live).shape, 0)),
      has_owner_(!impl_of(live).is_made_in_trace()),
      times_overwritten_(impl_of(live).times_overwritten.load()) {
  impl_of(live_).is_captured.store(true, std::memory_order_relaxed);
}

std::shared_ptr<CapturedTensor> CapturedTensor::of(const Tensor& live) {
  std::shared_ptr<CapturedTensor> found;  // whose end, should it be here, needs the lock
  const std::lock_guard lock(table().mutex);
  std::weak_ptr<CapturedTensor>& known = table().tensors[live.impl().get()];
  found = known.lock();
  if (found && !found->is_let_go()) return found;
  std::shared_ptr<CapturedTensor> made(new CapturedTensor(live), [](CapturedTensor* c) {
    {
      const std::lock_guard inner(table().mutex);
      const auto it = table().tensors.find(c->live().impl().get());
      if (it != table().tensors.end() && it->second.expired()) table().tensors.erase(it);
    }
    delete c;  // with the last of a tensor code of its owner may run
  });
  known = made;
  return made;
}

void CapturedTensor::follow() {
  if (impl_of(live_).view) refresh_view(live_);
  const detail::TensorImpl& from = impl_of(live_);
  detail::TensorImpl& to = impl_of(shadow_);
  if (to.storage == from.storage && to.data == from.data) return;
  const std::lock_guard lock(table().mutex);
  to.storage = from.storage;
  to.data = from.data;
}

}  // namespace gluino
