#include "dispatch/infer.h"

#include "base/extents.h"
#include "base/format.h"
#include "dispatch/composition.h"
#include "tensor/impl.h"

namespace gluino {

void check_input_count(const OpDef& op, const Attrs& attrs, int count) {
  if (op.is_variadic) {
    const auto least = static_cast<int>(op.inputs.size());  // the last of them stands for one or more
    if (count < least) raise<UserError>("{} inputs were given, but at least {} {} needed", count, least, least == 1 ? "is" : "are");
    return;
  }
  if (!op.has_optional_inputs && count == static_cast<int>(op.inputs.size())) return;
  const auto present = op.present_inputs(attrs);
  if (count == static_cast<int>(present.size())) return;
  std::vector<std::string> names;
  for (const InputSpec* i : present) names.push_back(i->name);
  raise<UserError>("{} input{} given, but {} {} needed: {}", count, count == 1 ? " was" : "s were", names.size(),
                   names.size() == 1 ? "is" : "are", names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

static void check_dtype(const OpDef& op, const InputSpec& spec, DType dtype) {
  if (op.dtypes == DTypeSet::any || is_floating(dtype)) return;
  if (op.dtypes == DTypeSet::floating)
    raise<DTypeError>("input '{}' is {}, but a floating dtype is needed; call astype(float32) first", spec.name, dtype);
  if (dtype == DType::boolean) raise<DTypeError>("input '{}' is bool, but a number is needed; call astype(int32) first", spec.name);
}

DType promote_inputs(const OpDef& op, const Attrs& attrs, std::span<const DType> in) {
  std::optional<DType> common;
  for (size_t i = 0; i < in.size(); ++i) {
    const InputSpec& spec = op.input_spec(attrs, i);
    if (spec.own_dtype) continue;
    check_dtype(op, spec, in[i]);
    common = common ? promote(*common, in[i]) : in[i];
  }
  return common.value_or(in.empty() ? DType::float32 : in[0]);
}

size_t checked_output_count(const OpDef& op, const Attrs& attrs) {
  constexpr int kMost = 1 << 16;
  const int count = op.num_outputs(attrs);
  if (count < 1 || count > kMost)
    throw AttrError(fmt::format("{}: {} outputs, but 1 to {} are possible", op.name, count, kMost), Located::in_operator);
  return static_cast<size_t>(count);
}

static void check_output_count(size_t found, size_t promised) {
  if (found != promised) raise<AttrError>("the attributes tell of {} outputs, but the inputs give {}", promised, found);
}

void infer_dtypes(const OpDef& op, const Attrs& attrs, std::span<const DType> in, std::vector<DType>& out) {
  const DType promoted = promote_inputs(op, attrs, in);
  const size_t count = checked_output_count(op, attrs);
  out.assign(count, promoted);
  if (!op.infer_dtype) return;
  op.infer_dtype(attrs.get(), in, promoted, out);
  check_output_count(out.size(), count);
}

void infer_shapes(const OpDef& op, const Attrs& attrs, std::span<const Shape> in, std::vector<Shape>& out) {
  const size_t count = checked_output_count(op, attrs);
  out.resize(count);
  if (op.infer_shape)
    op.infer_shape(attrs.get(), in, out);
  else
    out = composed_shapes(op, attrs.get(), in);
  check_output_count(out.size(), count);
  for (const Shape& s : out)
    for (int64_t extent : s)
      if (extent < 0 || extent > kMaxExtent) raise<ShapeError>("the output would have shape {}, but extents are 0 to {}", s, kMaxExtent);
}

std::vector<DType> dtypes_of(std::span<const Tensor> tensors) {
  std::vector<DType> dtypes;
  for (const Tensor& t : tensors) dtypes.push_back(impl_of(t).dtype);
  return dtypes;
}

ResultTypes infer_results(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) {
  std::vector<Shape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(impl_of(t).shape);
  ResultTypes results;
  infer_shapes(op, attrs, shapes, results.shapes);
  infer_dtypes(op, attrs, dtypes_of(inputs), results.dtypes);
  return results;
}

void rethrow_as(const std::string& message, Located located) {
  try {
    throw;
  } catch (const ShapeError&) {
    throw ShapeError(message, located);
  } catch (const DTypeError&) {
    throw DTypeError(message, located);
  } catch (const AttrError&) {
    throw AttrError(message, located);
  } catch (const IndexError&) {
    throw IndexError(message, located);
  } catch (const UserError&) {
    throw UserError(message, located);
  } catch (const SystemError&) {
    throw SystemError(message, located);
  }
}

void rethrow_located(std::string_view who) {
  try {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    if (e.located() != Located::nowhere) throw;
    rethrow_as(fmt::format("{}: {}", who, e.what()));
  }
}

}  // namespace gluino
