// NumPy's indexing in terms of operators: slice and reshape for integers and slices, gather_nd for arrays and masks.
#include <cstring>

#include "base/format.h"
#include "dispatch/mode.h"
#include "dispatch/recording_as.h"
#include "gluino/op.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

// How an index takes an axis, whatever extent that has.
enum class Taken : uint8_t { whole, single, run, steps };

// An index brought into one part per axis. Arrays are kept aside: the basic part leaves their axes whole.
struct Plan {
  Shape source;
  OptionalInts begin, end, step;  // per source axis, as they were given
  Shape first;                    // where that begins on each
  std::vector<Taken> taken;       // per source axis
  Shape region;                   // extents of the slice, integers with extent 1
  Shape basic;                    // the region without integer axes, with new axes
  Shape dropped, added;           // which axes of the region those are, and which of `basic`
  bool is_open;                   // for any extents: the source is a value of a program, which is run with others
  struct Array {
    Tensor indices;  // int64; symbolic ones are checked when they are used
    int axis;        // in `basic`
  };
  std::vector<Array> arrays;
  bool is_whole = true;       // the slice is the source itself, whatever extents that has
  bool is_separated = false;  // an ellipsis stands between arrays, be it for no axis at all
};

// The positions of true elements: one int64 vector per axis of the mask.
Tensors nonzero(const Tensor& mask) {
  const std::vector<uint8_t> bits = mask.to_vector<uint8_t>();
  const Shape& shape = impl_of(mask).shape;
  std::vector<std::vector<int64_t>> positions(shape.ndim());
  for (size_t flat = 0; flat < bits.size(); ++flat) {
    if (!bits[flat]) continue;
    auto rest = static_cast<int64_t>(flat);
    for (int axis = shape.ndim() - 1; axis >= 0; --axis) {
      positions[axis].push_back(rest % shape[axis]);
      rest /= shape[axis];
    }
  }
  Tensors out;
  for (const auto& p : positions) out.push_back(from_vector(p));
  return out;
}

Tensor normalized_indices(const Tensor& indices, int64_t extent, int axis) {
  Tensor whole = indices.astype(DType::int64);
  if (whole.is_symbolic()) return whole;
  Tensor out = whole.copy();
  for (int64_t* p = out.mutable_data<int64_t>(); p < out.mutable_data<int64_t>() + out.size(); ++p) {
    if (*p < -extent || *p >= extent) raise<IndexError>("index {} is out of range for axis {} with extent {}", *p, axis, extent);
    if (*p < 0) *p += extent;
  }
  return out;
}

int axes_taken(const Index& part) {
  if (const auto* t = std::get_if<Tensor>(&part.value())) return t->dtype() == DType::boolean ? t->ndim() : 1;
  return std::holds_alternative<Ellipsis>(part.value()) || std::holds_alternative<NewAxis>(part.value()) ? 0 : 1;
}

class Planner {
 public:
  // A plan of a symbolic source is open, unless it is asked for as `of_this_shape`: then user code has looked at the shape.
  enum Extents : uint8_t { open, of_this_shape };
  Planner(const Tensor& tensor, std::span<const Index> index, Extents extents = open) : tensor_(tensor) {
    const Shape& source = extents == of_this_shape ? tensor.shape() : impl_of(tensor).shape;
    plan_.is_open = tensor.is_symbolic() && extents == open;
    plan_.source = source;
    int taken = 0, ellipses = 0;
    for (const Index& part : index) {
      has_arrays_ |= std::holds_alternative<Tensor>(part.value());
      taken += axes_taken(part);
      ellipses += std::holds_alternative<Ellipsis>(part.value());
    }
    if (taken > source.ndim()) raise<IndexError>("{} indices for a tensor of shape {}, which has {} axes", taken, source, source.ndim());
    if (ellipses > 1) throw IndexError("an index can hold only one ellipsis");
    for (const Index& part : index) {
      if (std::holds_alternative<Ellipsis>(part.value())) {
        arrays_before_ellipsis_ = plan_.arrays.size();
        for (int i = 0; i < source.ndim() - taken; ++i) add_slice({});
      } else {
        std::visit([&](const auto& v) { add(v); }, part.value());
      }
    }
    while (axis_ < source.ndim()) add_slice({});
  }
  Plan take() { return std::move(plan_); }

 private:
  void add(int64_t i) {
    const int64_t extent = plan_.source[axis_];
    if (i < -extent || i >= extent) raise<IndexError>("index {} is out of range for axis {} with extent {}", i, axis_, extent);
    // Beside arrays an integer is an array too: it decides where the common axes go.
    if (has_arrays_) return add_array(full({}, static_cast<double>(i < 0 ? i + extent_read() : i), DType::int64));
    plan_.dropped.push_back(axis_);
    plan_.first.push_back(i < 0 ? i + extent : i);
    push(Taken::single, i, i == -1 ? std::optional<int64_t>() : i + 1, 1, 1);
  }
  // Of the axis, where what follows depends on it: a program is then for no other.
  int64_t extent_read() const { return tensor_.extent(axis_); }
  void add(const Slice& s) { add_slice(s); }
  void add(Ellipsis) {}
  void add(NewAxis) {
    plan_.added.push_back(plan_.basic.ndim());
    plan_.basic.push_back(1);
  }
  void add(const Tensor& t) {
    if (is_floating(t.dtype()) && (!impl_of(t).symbolic || impl_of(t).symbolic->has_dtype))
      raise<IndexError>("a tensor of {} cannot be an index; whole numbers and truth values can: astype(int64), or x[x > 0]", t.dtype());
    Tensors arrays{t.to(tensor_.device())};
    if (t.dtype() == DType::boolean && t.ndim() == 0) return add_truth(t.to_vector<uint8_t>().at(0));
    if (t.dtype() == DType::boolean) {
      for (int i = 0; i < t.ndim(); ++i)
        if (t.extent(i) != plan_.source[axis_ + i])
          raise<IndexError>("a mask of shape {} does not fit axis {} of a tensor of shape {}", impl_of(t).shape, axis_ + i, plan_.source);
      arrays = nonzero(arrays[0]);
    }
    for (const Tensor& a : arrays) add_array(a.is_symbolic() ? a.astype(DType::int64) : normalized_indices(a, extent_read(), axis_));
  }
  // A new axis of which all or nothing is taken.
  void add_truth(bool all) {
    add(NewAxis{});
    plan_.is_separated |= arrays_before_ellipsis_ > 0;
    plan_.arrays.push_back({from_vector(std::vector<int64_t>(all ? 1 : 0)), plan_.basic.ndim() - 1});
  }
  void add_array(Tensor indices) {
    plan_.is_separated |= arrays_before_ellipsis_ > 0;
    plan_.arrays.push_back({std::move(indices), plan_.basic.ndim()});
    add_slice({});
  }
  void add_slice(const Slice& s) {
    const int64_t extent = plan_.source[axis_];
    if (s.step == 0) throw IndexError("a slice with step 0");
    auto clamp = [&](int64_t v) {
      if (v < 0) v += extent;
      return s.step > 0 ? std::clamp<int64_t>(v, 0, extent) : std::clamp<int64_t>(v, -1, extent - 1);
    };
    const int64_t first = s.begin ? clamp(*s.begin) : (s.step > 0 ? 0 : extent - 1);
    const int64_t last = s.end ? clamp(*s.end) : (s.step > 0 ? extent : -1);
    const int64_t span = s.step > 0 ? last - first : first - last;
    const int64_t count = span > 0 ? (span - 1) / std::abs(s.step) + 1 : 0;
    const Taken taken = s.step != 1 ? Taken::steps : s.begin || s.end ? Taken::run : Taken::whole;
    plan_.first.push_back(first);
    push(taken, s.begin, s.end, s.step, count);
    plan_.basic.push_back(count);
  }
  void push(Taken taken, std::optional<int64_t> begin, std::optional<int64_t> end, int64_t step, int64_t count) {
    plan_.taken.push_back(taken);
    plan_.begin.push_back(begin);
    plan_.end.push_back(end);
    plan_.step.push_back(step);
    plan_.region.push_back(count);
    plan_.is_whole &= taken == Taken::whole;
    ++axis_;
  }
  const Tensor& tensor_;
  Plan plan_;
  int axis_ = 0;
  bool has_arrays_ = false;
  size_t arrays_before_ellipsis_ = 0;
};

bool is_empty(const Plan& p) { return p.region.elements() == 0; }

// The region is one run of memory: whole axes after the first axis that is cut, single positions before it.
std::optional<int64_t> contiguous_offset(const Plan& p) {
  int64_t offset = 0;
  bool cut = false;
  for (int i = 0; i < p.source.ndim(); ++i) {
    const bool whole = p.region[i] == p.source[i] && p.step[i] == 1;
    if (cut && !whole) return std::nullopt;
    if (!whole && p.step[i] != 1) return std::nullopt;
    offset += p.first[i] * p.source.elements(i + 1, p.source.ndim());
    cut |= p.region[i] != 1;
  }
  return offset;
}

// Whether a part shares the memory of its source: a run of it whatever extents there are, so that it is one in every call or in none.
bool is_view(const Plan& p) {
  bool cut = false;
  for (const Taken t : p.taken) {
    if (t == Taken::steps || (cut && t != Taken::whole)) return false;
    cut |= t != Taken::single;
  }
  return p.is_open || !is_empty(p);
}

// Between the region and what the index gives. Extents of a program's values are not written down, and an extent of 0 has another meaning
// for reshape.
Tensor to_basic(Tensor region, const Plan& p) {
  if (!p.is_open && !is_empty(p)) return p.basic == p.region ? region : region.reshape(p.basic.empty() ? Shape{} : p.basic);
  if (!p.dropped.empty() && p.dropped.ndim() == p.region.ndim())  // squeeze would leave an axis
    region = region.reshape(Shape{});
  else if (!p.dropped.empty())
    region = call("squeeze", {region}, {{"axis", p.dropped}});
  for (const int64_t axis : p.added) region = call("expand_dims", {region}, {{"axis", axis}});
  return region;
}
Tensor to_region(Tensor part, const Plan& p) {
  if (!p.is_open && !is_empty(p)) return part.reshape(p.region);
  if (!p.added.empty()) part = call("squeeze", {part}, {{"axis", p.added}});
  for (const int64_t axis : p.dropped) part = call("expand_dims", {part}, {{"axis", axis}});
  return part;
}

// Whether a part of it can be a view of its memory. In a trace all parts are values of the program.
bool is_plain(const Tensor& t) {
  if (impl_of(t).view) refresh_view(t);
  return !t.is_symbolic() && !mode().tracing && !(mode().recording && impl_of(t).autograd);
}

Tensor basic_part(const Tensor& source, const Plan& p) {
  const bool is_recorded = source.is_symbolic() || (mode().recording && impl_of(source).autograd);
  if (!is_recorded && is_empty(p)) return make_tensor(p.basic, source.dtype(), source.device());
  std::optional<int64_t> offset;
  if (!source.is_symbolic() && !mode().tracing && is_view(p)) offset = contiguous_offset(p);
  if (offset && is_plain(source)) return make_view(source, p.basic, *offset);
  Tensor region = source;
  if (!p.is_whole) {
    const OpDef& slice = OpRegistry::global().get("slice");
    const std::pair<std::string_view, AttrValue> range[] = {{"begin", p.begin}, {"end", p.end}, {"step", OptionalInts(p.step)}};
    const Attrs attrs = slice.make_attrs(range);
    region = offset ? make_view(source, p.region, *offset) : apply_one(slice, {&source, 1}, attrs);
    if (offset) record_view(slice, attrs, source, region);
  }
  return to_basic(region, p);
}

// Moves the indexed axes to the front, gathers, and puts the result where NumPy puts it.
Tensor gather(const Tensor& data, const Plan& p) {
  if (p.arrays.size() == 1)
    return call("take", {data, p.arrays[0].indices}, {{"axis", int64_t{p.arrays[0].axis}}, {"mode", std::string("raise")}});
  std::vector<Shape> shapes;
  Shape order, moved;
  for (const Plan::Array& a : p.arrays) {
    shapes.push_back(a.indices.shape());
    order.push_back(a.axis);
  }
  bool adjacent = !p.is_separated;
  for (size_t i = 1; i < p.arrays.size(); ++i) adjacent &= p.arrays[i].axis == p.arrays[i - 1].axis + 1;
  for (int i = 0; i < data.ndim(); ++i)
    if (std::find(order.begin(), order.end(), i) == order.end()) moved.push_back(i);
  for (int64_t axis : moved) order.push_back(axis);
  const Shape common = broadcast_shapes(shapes);
  const int first = p.arrays[0].axis, k = common.ndim();
  if (common.elements() == 0 && !data.is_symbolic()) {  // extents of 0 mean something else to the operators below
    Shape out = common;
    for (int i = 0; i < moved.ndim(); ++i) out.insert(adjacent && moved[i] < first ? i : out.ndim(), data.extent(moved[i]));
    const Tensor none = call("take", {data, from_vector(std::vector<int64_t>())}, {{"axis", order[0]}});
    return call("_np_reshape", {none}, {{"newshape", out}});
  }
  Tensors stacked;
  for (const Plan::Array& a : p.arrays)
    stacked.push_back(impl_of(a.indices).shape == common ? a.indices : call("broadcast_to", {a.indices}, {{"shape", common}}));
  Tensor result = call("gather_nd", {data.transpose(order), call("stack", stacked)});
  if (!adjacent || first == 0) return result;
  Shape back;  // (common, before, after) -> (before, common, after)
  for (int i = 0; i < first; ++i) back.push_back(k + i);
  for (int i = 0; i < k; ++i) back.push_back(i);
  for (int i = k + first; i < result.ndim(); ++i) back.push_back(i);
  return result.transpose(back);
}

// A run of leading rows shares memory with its source; where there is none to share, a link does the same. What it is a part of may have
// other extents later, so the index is kept and not the plan.
class SliceLink final : public OperatorLink {
 public:
  SliceLink(const Tensor& base, Holds holds, std::span<const Index> index)
      : OperatorLink(base, holds), index_(index.begin(), index.end()) {}
  Tensor project(const Tensor& base) const override {
    const RecordingAs scope(follows_onto_tape());
    return basic_part(base, Planner(base, index_).take());
  }
  Tensor embed(const Tensor& base, const Tensor& value) const override {
    const Plan plan = Planner(base, index_).take();
    return call("_slice_assign", {base, to_region(value, plan)},
                {{"begin", plan.begin}, {"end", plan.end}, {"step", OptionalInts(plan.step)}});
  }
  std::function<Tensor(const Tensor&)> replay() const override {
    return [index = index_, recorded = follows_onto_tape()](const Tensor& base) {
      const RecordingAs scope(recorded && mode().recording);
      return linked_part(base, index, Planner(base, index).take());
    };
  }
  bool depends_on_shape() const override { return true; }
  static Tensor linked_part(const Tensor& base, std::span<const Index> index, const Plan& plan) {
    Tensor part = basic_part(base, plan);
    const bool is_linked = !is_plain(base) || may_be_linked(base);
    if (!is_linked || !is_view(plan) || part.is_same(base)) return part;
    const bool is_recorded = impl_of(part).autograd || part.is_symbolic();
    const Tensor held = is_recorded ? base : base_off_tape(base);
    if (held.defined()) impl_of(part).view = make_ref<SliceLink>(held, holds_of(held, is_recorded), index);
    return part;
  }

 private:
  std::vector<Index> index_;
};

Tensor index_tensor(const Tensor& t, std::span<const Index> index) {
  const DeviceScope scope(t.device());
  const Plan plan = Planner(t, index).take();
  return plan.arrays.empty() ? SliceLink::linked_part(t, index, plan) : gather(basic_part(t, plan), plan);
}

// Row-major numbers of the elements that an index names.
Tensor positions_of(const Shape& shape, std::span<const Index> index) {
  const Tensor numbers = arange(static_cast<double>(shape.elements()), DType::int64);
  // A plain view: in reshape an extent of 0 would mean something else. A trace must see the operator.
  return index_tensor(numbers.is_symbolic() ? numbers.reshape(shape) : make_view(numbers, shape, 0), index);
}

Tensor fitted(const Tensor& value, const Shape& shape, DType dtype) {
  Tensor v = value.dtype() == dtype ? value : value.astype(dtype);
  if (impl_of(v).shape == shape) return v;
  Shape given = impl_of(v).shape;
  while (given.ndim() > shape.ndim() && given[0] == 1) given.erase(0);
  const Shape both[] = {given, shape};
  if (given.ndim() > shape.ndim() || !(broadcast_shapes(both) == shape))
    raise<ShapeError>("a value of shape {} does not fit into the indexed shape {}", impl_of(v).shape, shape);
  if (!(given == impl_of(v).shape)) v = v.reshape(given);
  return call("broadcast_to", {v}, {{"shape", shape}});
}

void scatter_into(Tensor& target, const Tensor& positions, const Tensor& values) {
  const auto width = static_cast<size_t>(dtype_bytes(target.dtype()));
  const int64_t* at = positions.data<int64_t>();
  impl_of(target).storage->note_write();
  for (int64_t i = 0; i < positions.size(); ++i)
    std::memcpy(bytes_of(target) + static_cast<size_t>(at[i]) * width, bytes_of(values) + static_cast<size_t>(i) * width, width);
}

}  // namespace

Tensor Tensor::index(std::span<const Index> index) const {
  if (!impl_) throw UserError("a null tensor cannot be indexed");
  return index_tensor(*this, index);
}
IndexedTensor Tensor::operator[](const Index& one) const { return {index({&one, 1}), *this, {one}}; }
IndexedTensor Tensor::operator[](std::initializer_list<Index> many) const {
  return {index({many.begin(), many.size()}), *this, std::vector<Index>(many)};
}

void Tensor::assign(std::span<const Index> index, const Tensor& value) {
  if (!impl_) throw UserError("a null tensor cannot be assigned to");
  if (!value.defined()) throw UserError("a null tensor cannot be assigned through an index");
  const DeviceScope scope(device());
  const Tensor here = value.to(device());
  const Plan plan = Planner(*this, index, Planner::of_this_shape).take();
  const bool plain = is_plain(*this) && is_plain(here) && !mode().recording;
  if (plan.arrays.empty()) {
    if (is_empty(plan)) return;
    const Tensor part = fitted(here, plan.basic, dtype());
    if (plain) {
      if (const auto offset = contiguous_offset(plan)) return make_view(*this, plan.basic, *offset).assign(part);
      return scatter_into(*this, positions_of(impl_->shape, index), part.copy());
    }
    return assign(call("_slice_assign", {*this, part.reshape(plan.region)},
                       {{"begin", plan.begin}, {"end", plan.end}, {"step", OptionalInts(plan.step)}}));
  }
  const Tensor positions = positions_of(impl_->shape, index);
  if (impl_of(positions).shape.elements() == 0) return;
  const Tensor part = fitted(here, impl_of(positions).shape, dtype());
  if (plain && !positions.is_symbolic()) return scatter_into(*this, positions, part.copy());
  const Tensor flat =
      call("_scatter_set_nd", {reshape({-1}), part.reshape({-1}), positions.reshape({1, -1})}, {{"shape", Shape{impl_->shape.elements()}}});
  assign(flat.reshape(impl_->shape));
}

}  // namespace gluino
