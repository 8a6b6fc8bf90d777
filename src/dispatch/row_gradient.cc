#include "dispatch/row_gradient.h"

#include <unordered_map>

namespace gluino {

static std::unordered_map<std::string, RowRule>& rules() {
  static std::unordered_map<std::string, RowRule> all;
  return all;
}
void picks_rows(const std::string& op, RowRule rule) { rules().insert_or_assign(op, rule); }
const RowRule* row_rule_of(const OpDef& op) {
  const auto found = rules().find(op.name);
  return found == rules().end() ? nullptr : &found->second;
}

Tensor table_of(const PickedRows& rows, const Tensor& like) {
  return call("_take_backward", {rows.values, rows.indices, like}, {{"axis", int64_t{0}}, {"mode", rows.mode}});
}

}  // namespace gluino
