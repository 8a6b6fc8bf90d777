// Values that follow from parameters alone, such as rearranged weights: computed when first needed and again when a
// parameter has changed, shared by all plans and threads that need the same one.
#pragma once
#include <memory>

#include "base/fork.h"
#include "plan/plan.h"
#include "tensor/impl.h"

namespace gluino {

// What a value was computed from: the memory, held so that no other takes its address, and how often it was written.
struct SourceStamp {
  Ref<Storage> storage;
  uint64_t writes = 0;
};

class DerivedValue {
 public:
  // The value for what the sources hold now; `stamps` becomes what it was computed from.
  Tensor current(const Plan& plan, const Derived& derived, std::vector<SourceStamp>& stamps);

 private:
  PerProcessMutex computing_;
  NoForkMutex mutex_;  // of what follows
  Tensor value_;
  std::vector<SourceStamp> stamps_;
};

std::shared_ptr<DerivedValue> find_derived_value(const std::string& key);
// Whether the sources still hold what the stamps say.
bool is_current(const Plan& plan, const Derived& derived, const std::vector<SourceStamp>& stamps);

}  // namespace gluino
