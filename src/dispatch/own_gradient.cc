#include "dispatch/own_gradient.h"

#include <unordered_set>

namespace gluino {

static std::unordered_set<std::string>& names() {
  static std::unordered_set<std::string> all;
  return all;
}
void gives_own_gradient(const std::string& op) { names().insert(op); }
static std::unordered_set<std::string>& ends() {
  static std::unordered_set<std::string> all;
  return all;
}
void ends_gradients(const std::string& op) { ends().insert(op); }
bool passes_gradients(const OpDef& op) { return op.gradient && !ends().contains(op.name); }
bool has_own_gradient(const OpDef& op) { return op.other_attrs_of || names().contains(op.name); }

}  // namespace gluino
