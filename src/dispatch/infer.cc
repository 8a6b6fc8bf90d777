#include "dispatch/infer.h"

#include "base/format.h"

namespace gluino {

void check_input_count(const OpDef& op, const Attrs& attrs, int count) {
  if (op.is_variadic) {
    if (count == 0) raise<UserError>("at least one input is needed");
    return;
  }
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

void infer_dtypes(const OpDef& op, const Attrs& attrs, std::span<const DType> in, std::vector<DType>& out) {
  const DType promoted = promote_inputs(op, attrs, in);
  out.assign(static_cast<size_t>(op.num_outputs(attrs)), promoted);
  if (op.infer_dtype) op.infer_dtype(attrs.get(), in, promoted, out);
}

void infer_shapes(const OpDef& op, const Attrs& attrs, std::span<const Shape> in, std::vector<Shape>& out) {
  out.resize(op.num_outputs(attrs));
  op.infer_shape(attrs.get(), in, out);
  for (const Shape& s : out)
    for (int64_t extent : s)
      if (extent < 0) raise<ShapeError>("the output would have shape {}", s);
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
