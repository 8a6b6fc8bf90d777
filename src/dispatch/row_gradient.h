// Operators that pick rows of a table: what flows back to the table are those rows alone, which need not become a table of zeros.
#pragma once
#include <optional>
#include <string>

#include "gluino/op.h"

namespace gluino {

// Rows that take() picked from a table, and what is to be added to each.
struct PickedRows {
  Tensor indices;    // any shape and dtype
  Tensor values;     // (the shape of indices, the shape of a row)
  std::string mode;  // of take: what an index out of range means
};
struct RowRule {
  int table;                                                                // the input that rows are picked from
  std::optional<PickedRows> (*rows)(const void* attrs, const Gradient& g);  // what flows back to it; none with these attributes
};

// Said where such an operator is defined.
void picks_rows(const std::string& op, RowRule rule);
const RowRule* row_rule_of(const OpDef& op);  // null: it picks no rows

// The same as a table of the shape and dtype of `like`.
Tensor table_of(const PickedRows& rows, const Tensor& like);

}  // namespace gluino
