// Shape and dtype rules applied to one call: shared by eager execution and graphs.
#pragma once
#include "gluino/op.h"

namespace gluino {

void check_input_count(const OpDef& op, const Attrs& attrs, int count);
// The dtype arithmetic is done in; raises DTypeError when an input's dtype does not fit the operator.
DType promote_inputs(const OpDef& op, const Attrs& attrs, std::span<const DType> in);
// How many outputs a call has; raises AttrError when the attributes ask for none or absurdly many.
size_t checked_output_count(const OpDef& op, const Attrs& attrs);
void infer_dtypes(const OpDef& op, const Attrs& attrs, std::span<const DType> in, std::vector<DType>& out);
void infer_shapes(const OpDef& op, const Attrs& attrs, std::span<const Shape> in, std::vector<Shape>& out);
// What a call with these inputs gives.
struct ResultTypes {
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
};
ResultTypes infer_results(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs);
std::vector<DType> dtypes_of(std::span<const Tensor> tensors);
// Whether it holds whole numbers or truth values. Variables of a symbol without a dtype count as floating.
bool is_whole(const Tensor& t);

// Inside a catch block: throws the current error again with "<who>: " before its message, once.
[[noreturn]] void rethrow_located(std::string_view who);
// Inside a catch block: throws an error of the same type with another message, which says where it came up.
[[noreturn]] void rethrow_as(const std::string& message, Located located = Located::in_operator);

}  // namespace gluino
