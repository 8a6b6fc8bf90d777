#include "jit/row_ir.h"

#include <algorithm>

#include "jit/loop_writer.h"

namespace gluino::jit {
namespace {

using kernels::RowInput;
using kernels::RowInstruction;
using kernels::RowOp;
using kernels::RowOutput;
using kernels::RowsRequest;
using llvm::Value;

bool is_reduction(const RowInstruction& in) { return in.op == RowOp::reduce || in.op == RowOp::sum || in.op == RowOp::largest; }

class RowsBuilder {
 public:
  RowsBuilder(llvm::Module& module, const RowsRequest& request)
      : w_(module, request.type, request.target.isa),
        b_(w_.b),
        request_(request),
        size_(static_cast<size_t>(request.size)),
        lanes_(kLaneBytes / (request.type == ComputeType::f32 ? 4 : 8)),
        numbers_(size_) {}

  bool build() {
    w_.begin_function({b_.getPtrTy(), b_.getPtrTy(), b_.getPtrTy(), b_.getPtrTy(), b_.getInt64Ty(), b_.getInt64Ty()});
    n_ = w_.parameter(5);
    main_ = b_.CreateAnd(n_, b_.getInt64(static_cast<uint64_t>(-lanes_)));
    load_addresses();
    hide_constants();
    for (int k = 0; k < request_.num_inputs; ++k) w_.note_stored(request_.inputs[k].dtype);
    for (int r = 0; r < request_.num_outputs; ++r) w_.note_stored(request_.outputs[r].dtype);
    w_.loop(b_.getInt64(0), w_.parameter(4), 1, Kind::serial, [&](Value* row) { write_row(row); });
    w_.end_function();
    return !w_.is_missing();
  }

 private:
  using Kind = LoopWriter::Kind;
  const RowInstruction& at(size_t k) const { return request_.code[k]; }
  const RowInput& input(size_t k) const { return request_.inputs[k]; }
  static size_t argument(const RowInstruction& in, int a) { return static_cast<size_t>(in.args[a]); }
  static int arguments(const RowInstruction& in) { return in.op == RowOp::call ? arguments_of(in.fn) : in.op == RowOp::wide_log ? 1 : 0; }

  // Before the rows: what does not change from row to row.
  void load_addresses() {
    for (size_t k = 0; k < static_cast<size_t>(request_.num_inputs); ++k) {
      inputs_.push_back(w_.pointer_at(w_.parameter(0), k));
      steps_.push_back(b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), w_.parameter(1), k)));
    }
    for (size_t r = 0; r < static_cast<size_t>(request_.num_outputs); ++r) outputs_.push_back(w_.pointer_at(w_.parameter(2), r));
    for (size_t k = 0; k < size_; ++k)
      if (at(k).slot >= 0) {
        Value* offset = b_.CreateMul(n_, b_.getInt64(static_cast<uint64_t>(at(k).slot)));
        slots_.resize(size_);
        slots_[k] = b_.CreateInBoundsGEP(w_.element, w_.parameter(3), offset);
      }
  }
  void hide_constants() {
    hidden_.resize(size_);
    for (size_t k = 0; k < size_; ++k) {
      const RowInstruction& in = at(k);
      if (!reads_only_constants(in)) continue;
      for (int a = 0; a < arguments(in); ++a) {
        Value*& hidden = hidden_[argument(in, a)];
        if (!hidden) hidden = w_.hidden_constant(at(argument(in, a)).value);
      }
    }
  }
  bool reads_only_constants(const RowInstruction& in) const {
    for (int a = 0; a < arguments(in); ++a)
      if (at(argument(in, a)).op != RowOp::constant) return false;
    return arguments(in) > 0;
  }

  void write_row(Value* row) {
    row_inputs_.clear();
    row_outputs_.clear();
    for (size_t k = 0; k < inputs_.size(); ++k)
      row_inputs_.push_back(b_.CreateInBoundsGEP(w_.stored_type(input(k).dtype), inputs_[k], b_.CreateMul(row, steps_[k])));
    for (size_t r = 0; r < outputs_.size(); ++r) {
      const RowOutput& out = request_.outputs[r];
      Value* offset = out.kind == RowOutput::Kind::row      ? b_.CreateMul(row, n_)
                      : out.kind == RowOutput::Kind::number ? row
                                                            : static_cast<Value*>(b_.getInt64(0));
      row_outputs_.push_back(b_.CreateInBoundsGEP(w_.stored_type(out.dtype), outputs_[r], offset));
    }
    for (int16_t s = 0; s <= request_.sweeps; ++s) {
      compute_numbers(s);
      if (s < request_.sweeps) write_sweep(s);
    }
    for (size_t r = 0; r < outputs_.size(); ++r)
      if (request_.outputs[r].kind == RowOutput::Kind::number)
        w_.write(numbers_[request_.outputs[r].value], request_.outputs[r].dtype, row_outputs_[r], b_.getInt64(0));
  }

  // Those that are known before a sweep; reductions were finished by the one before.
  void compute_numbers(int16_t sweep) {
    for (size_t k = 0; k < size_; ++k) {
      const RowInstruction& in = at(k);
      if (in.is_row || in.sweep != sweep || is_reduction(in)) continue;
      switch (in.op) {
        case RowOp::input: numbers_[k] = w_.read(input(argument(in, 0)).dtype, row_inputs_[argument(in, 0)], b_.getInt64(0)); break;
        case RowOp::constant: numbers_[k] = w_.constant(in.value); break;
        case RowOp::count: numbers_[k] = b_.CreateSIToFP(n_, w_.element); break;
        case RowOp::pick: {
          Element element{.sweep = sweep, .place = index(argument(in, 1)), .values = std::vector<Value*>(size_)};
          numbers_[k] = value(element, argument(in, 0));
          break;
        }
        default: numbers_[k] = apply(in, [&](size_t a) { return numbers_[a]; });
      }
    }
  }
  template <class ValueOf>
  Value* apply(const RowInstruction& in, ValueOf&& value_of) {
    std::vector<Value*> values;
    for (int a = 0; a < arguments(in); ++a)
      values.push_back(reads_only_constants(in) ? hidden_[argument(in, a)] : value_of(argument(in, a)));
    return in.op == RowOp::call ? w_.call(in.fn, values) : w_.call("wide_log", values);
  }
  Value* index(size_t input) { return b_.CreateLoad(b_.getInt64Ty(), row_inputs_[input]); }

  // One sweep over the row: values computed in it, in parts (see LoopBuilder), and what becomes of them.
  struct Reduction {
    size_t value;  // what it gives
    Value* lanes;
    Value* total;   // of those that are carried on in double
    Value* others;  // for the elements behind the last full set of lanes: lanes again, or the largest
  };
  struct Sweep {
    int16_t number;
    std::vector<Reduction> reductions;
    std::vector<size_t> outputs;
    std::vector<size_t> members;  // rows that are computed, in order
    std::vector<int> part;        // by value; -1: of none
    std::vector<Value*> block;    // where values lie that later parts read
    int parts = 1;
    int64_t carried = 0;  // after so many elements totals are carried on; 0: never
  };
  // The element at a place of the row, as far as it is computed.
  struct Element {
    int16_t sweep;
    Value* place;
    Value* in_block = nullptr;  // the place, counted from the block's beginning
    int part = 0;
    bool is_stored = false;  // what later sweeps or parts read
    std::vector<Value*> values;
  };

  void write_sweep(int16_t number) {
    Sweep s{.number = number, .reductions = {}, .outputs = {}, .members = {}, .part = std::vector<int>(size_, -1), .block = {}};
    s.block.resize(size_);
    collect(s);
    if (s.reductions.empty() && s.outputs.empty()) return;
    cut_into_parts(s);
    Value* zero = b_.getInt64(0);
    if (s.reductions.empty()) return stretch(s, zero, n_);
    for (const Reduction& r : s.reductions) begin(r);
    if (s.carried) {
      w_.loop(zero, main_, s.carried, Kind::serial, [&](Value* first) {
        for (const Reduction& r : s.reductions)
          if (r.total) clear_lanes(r);
        stretch(s, first, w_.smaller(b_.CreateAdd(first, b_.getInt64(static_cast<uint64_t>(s.carried))), main_));
        for (const Reduction& r : s.reductions)
          if (r.total) carry(r);
      });
    } else {
      stretch(s, zero, main_);
    }
    for (const Reduction& r : s.reductions)
      if (at(r.value).op == RowOp::sum)
        for (int64_t l = 0; l < lanes_; ++l)
          w_.store(w_.load(r.lanes, b_.getInt64(static_cast<uint64_t>(l))), r.others, b_.getInt64(static_cast<uint64_t>(l)));
    early_parts(s, main_, n_);
    w_.loop(main_, n_, 1, Kind::few, [&](Value* place) {
      Element e = element(s, s.parts - 1, place, main_);
      give(s, e);
      for (const Reduction& r : s.reductions) add_other(r, e, s);
    });
    for (const Reduction& r : s.reductions) numbers_[r.value] = finish(r);
  }
  // What the sweep has to give, and the rows it computes for that.
  void collect(Sweep& s) {
    std::vector<bool> wanted(size_);
    const auto want = [&](auto&& self, size_t k) -> void {
      const RowInstruction& in = at(k);
      if (!in.is_row || in.op == RowOp::input || is_kept_before(in, s.number) || wanted[k]) return;
      wanted[k] = true;
      for (int a = 0; a < arguments(in); ++a) self(self, argument(in, a));
    };
    for (size_t k = 0; k < size_; ++k)
      if (is_reduction(at(k)) && at(k).sweep == s.number + 1) {
        s.reductions.push_back(new_reduction(k));
        if (at(k).op == RowOp::reduce) s.carried = at(k).block;
        want(want, argument(at(k), 0));
      }
    for (size_t r = 0; r < outputs_.size(); ++r)
      if (request_.outputs[r].kind != RowOutput::Kind::number && request_.outputs[r].sweep == s.number) {
        s.outputs.push_back(r);
        want(want, static_cast<size_t>(request_.outputs[r].value));
      }
    for (size_t k = 0; k < size_; ++k)
      if (wanted[k]) s.members.push_back(k);
  }
  static bool is_kept_before(const RowInstruction& in, int16_t sweep) { return (in.slot >= 0 || in.output >= 0) && in.sweep < sweep; }
  // Whether the sweep keeps the value for later ones, and where.
  bool has_home(size_t k, int16_t sweep) const { return at(k).sweep == sweep && (at(k).slot >= 0 || at(k).output >= 0); }
  Value* home(size_t k) { return at(k).slot >= 0 ? slots_[k] : row_outputs_[at(k).output]; }

  void cut_into_parts(Sweep& s) {
    int current = 0, long_ones = 0;
    const auto keep = [&](size_t k) {
      if (s.part[k] >= 0 && s.part[k] < current && !has_home(k, s.number) && !s.block[k]) s.block[k] = w_.memory(w_.element, kBlock);
    };
    for (const size_t k : s.members) {
      if (is_long_call(k) && ++long_ones > 1) ++current, long_ones = 1;
      s.part[k] = current;
      for (int a = 0; a < arguments(at(k)); ++a) keep(argument(at(k), a));
    }
    // Lanes are too few to run long chains side by side.
    if (!s.reductions.empty() && long_ones) ++current;
    for (const Reduction& r : s.reductions) keep(argument(at(r.value), 0));
    for (const size_t r : s.outputs) keep(static_cast<size_t>(request_.outputs[r].value));
    s.parts = current + 1;
  }

  Element element(const Sweep& s, int part, Value* place, Value* block) {
    return {.sweep = s.number,
            .place = place,
            .in_block = b_.CreateSub(place, block),
            .part = part,
            .is_stored = true,
            .values = std::vector<Value*>(size_)};
  }
  // The places [first, end); for the lanes of reductions: in whole sets of lanes.
  void stretch(const Sweep& s, Value* first, Value* end) {
    if (s.parts == 1) return last_part(s, first, end, b_.getInt64(0));
    w_.loop(first, end, kBlock, Kind::serial, [&](Value* block) {
      Value* stop = w_.smaller(b_.CreateAdd(block, b_.getInt64(kBlock)), end);
      early_parts(s, block, stop);
      last_part(s, block, stop, block);
    });
  }
  void early_parts(const Sweep& s, Value* block, Value* stop) {
    for (int part = 0; part < s.parts - 1; ++part)
      each(block, stop, true, [&](Value* place) {
        Element e = element(s, part, place, block);
        for (const size_t k : s.members)
          if (s.part[k] == part) value(e, k, &s);
      });
  }
  void last_part(const Sweep& s, Value* from, Value* to, Value* block) {
    if (s.reductions.empty()) {
      const bool is_long =
          std::any_of(s.members.begin(), s.members.end(), [&](size_t k) { return s.part[k] == s.parts - 1 && is_long_call(k); });
      return each(from, to, is_long, [&](Value* place) {
        Element e = element(s, s.parts - 1, place, block);
        give(s, e);
      });
    }
    w_.loop(from, to, lanes_, Kind::serial, [&](Value* set) {
      w_.loop(b_.getInt64(0), b_.getInt64(static_cast<uint64_t>(lanes_)), 1, Kind::lanes, [&](Value* lane) {
        Element e = element(s, s.parts - 1, b_.CreateAdd(set, lane), block);
        give(s, e);
        for (const Reduction& r : s.reductions) add(r, e, lane, s);
      });
    });
  }
  // Independent places. Where functions are long, those that fill no set of vectors are computed in vectors, too.
  template <class Body>
  void each(Value* from, Value* to, bool is_long, Body&& body) {
    if (!is_long) return w_.loop(from, to, 1, Kind::independent, body);
    Value* whole = b_.CreateAnd(b_.CreateSub(to, from), b_.getInt64(static_cast<uint64_t>(-w_.elements_side_by_side())));
    Value* rest = b_.CreateAdd(from, whole);
    w_.loop(from, rest, 1, Kind::independent, body);
    w_.loop(rest, to, 1, Kind::rest, body);
  }
  bool is_long_call(size_t k) const { return at(k).op == RowOp::call && kernels::is_long(at(k).fn); }
  // Everything is computed before anything is written: output 0 may be an input.
  void give(const Sweep& s, Element& e) {
    for (const Reduction& r : s.reductions) value(e, argument(at(r.value), 0), &s);
    for (const size_t r : s.outputs) value(e, static_cast<size_t>(request_.outputs[r].value), &s);
    for (const size_t r : s.outputs) {
      const RowOutput& out = request_.outputs[r];
      const auto k = static_cast<size_t>(out.value);
      Value* x = value(e, k, &s);
      if (out.kind == RowOutput::Kind::sum)
        x = w_.call(ScalarFn::add, {w_.load(row_outputs_[r], e.place), x});
      else if (at(k).output == static_cast<int16_t>(r) && at(k).sweep == s.number)
        continue;  // was written when it was computed
      w_.write(x, out.dtype, row_outputs_[r], e.place);
    }
  }
  Value* value(Element& e, size_t k, const Sweep* parts = nullptr) {
    const RowInstruction& in = at(k);
    if (!in.is_row) return numbers_[k];
    Value*& x = e.values[k];
    if (x) return x;
    if (in.op == RowOp::input) return x = w_.read(input(argument(in, 0)).dtype, row_inputs_[argument(in, 0)], e.place);
    if (is_kept_before(in, e.sweep)) return x = w_.load(home(k), e.place);
    if (parts && parts->part[k] < e.part) return x = parts->block[k] ? w_.load(parts->block[k], e.in_block) : w_.load(home(k), e.place);
    if (in.op == RowOp::is_place) {
      Value* here = b_.CreateICmpEQ(b_.CreateTrunc(e.place, b_.getInt32Ty()), b_.CreateTrunc(index(argument(in, 0)), b_.getInt32Ty()));
      x = b_.CreateSelect(here, w_.constant(1), w_.constant(0));
    } else {
      x = apply(in, [&](size_t a) { return value(e, a, parts); });
    }
    if (e.is_stored && parts && parts->block[k]) w_.store(x, parts->block[k], e.in_block);
    if (e.is_stored && has_home(k, e.sweep)) w_.store(x, home(k), e.place);
    return x;
  }

  // Reductions.
  std::string name(const char* what, const Reduction& r) const { return reduction_part(what, at(r.value).how); }
  bool is_wide(const RowInstruction& in) const {
    return in.op == RowOp::reduce && (in.how == kernels::ReduceOp::prod || in.how == kernels::ReduceOp::nanprod);
  }
  Reduction new_reduction(size_t k) {
    const RowOp op = at(k).op;
    Reduction r{k, nullptr, nullptr, nullptr};
    r.lanes = w_.memory(lane_type(at(k)), lanes_);
    if (op == RowOp::reduce) r.total = w_.memory(b_.getDoubleTy());
    if (op == RowOp::sum) r.others = w_.memory(w_.element, lanes_);
    if (op == RowOp::largest) r.others = w_.memory(w_.element);
    return r;
  }
  void begin(const Reduction& r) {
    if (r.total)
      b_.CreateStore(w_.call_in("f64", name("identity", r), {}), r.total);
    else
      clear_lanes(r);
    if (at(r.value).op == RowOp::largest) b_.CreateStore(w_.call("identity_max", {}), r.others);
  }
  llvm::Type* lane_type(const RowInstruction& in) { return is_wide(in) ? b_.getDoubleTy() : w_.element; }
  Value* in_lanes(const Reduction& r, const char* what, const std::vector<Value*>& values) {
    return is_wide(at(r.value)) ? w_.call_in("f64", name(what, r), values) : w_.call(name(what, r), values);
  }
  void clear_lanes(const Reduction& r) {
    const RowOp op = at(r.value).op;
    Value* start = op == RowOp::sum       ? w_.call("identity_sum", {})
                   : op == RowOp::largest ? w_.call("identity_max", {})
                                          : in_lanes(r, "identity", {});
    for (int64_t l = 0; l < lanes_; ++l) w_.store(start, r.lanes, b_.getInt64(static_cast<uint64_t>(l)));
  }
  Value* combine(const Reduction& r, Value* a, Value* x) {
    switch (at(r.value).op) {
      case RowOp::sum: return w_.call(ScalarFn::add, {a, x});
      case RowOp::largest: return w_.call("larger_of", {a, x});
      default: return in_lanes(r, "combine", {a, x});
    }
  }
  void add(const Reduction& r, Element& e, Value* lane, const Sweep& s) {
    Value* x = value(e, argument(at(r.value), 0), &s);
    if (is_wide(at(r.value))) x = w_.wide(x);
    if (r.total) x = in_lanes(r, "map", {x});
    w_.store(combine(r, w_.load(lane_type(at(r.value)), r.lanes, lane), x), r.lanes, lane);
  }
  void add_other(const Reduction& r, Element& e, const Sweep& s) {
    Value* x = value(e, argument(at(r.value), 0), &s);
    if (r.total) return add_to_total(r, w_.call_in("f64", name("map", r), {w_.wide(x)}));
    Value* place = at(r.value).op == RowOp::sum ? b_.CreateSub(e.place, main_) : static_cast<Value*>(b_.getInt64(0));
    w_.store(combine(r, w_.load(r.others, place), x), r.others, place);
  }
  Value* halved(const Reduction& r, Value* from) {
    switch (at(r.value).op) {
      case RowOp::sum: return w_.call("halved_sum", {from});
      case RowOp::largest: return w_.call("halved_larger", {from});
      default: return w_.call(name("halved", r), {from});
    }
  }
  void carry(const Reduction& r) {
    Value* all = halved(r, r.lanes);
    add_to_total(r, all->getType()->isDoubleTy() ? all : w_.wide(all));
  }
  void add_to_total(const Reduction& r, Value* x) {
    b_.CreateStore(w_.call_in("f64", name("combine", r), {b_.CreateLoad(b_.getDoubleTy(), r.total), x}), r.total);
  }
  Value* finish(const Reduction& r) {
    const RowInstruction& in = at(r.value);
    if (r.total)
      return w_.call(std::string("finish_") + kernels::kFinishNames[static_cast<size_t>(in.finish)],
                     {b_.CreateLoad(b_.getDoubleTy(), r.total), b_.CreateSIToFP(n_, b_.getDoubleTy())});
    if (in.op == RowOp::sum) return halved(r, r.others);
    return combine(r, w_.load(r.others, b_.getInt64(0)), halved(r, r.lanes));
  }

  LoopWriter w_;
  llvm::IRBuilder<>& b_;
  const RowsRequest& request_;
  const size_t size_;
  const int64_t lanes_;
  Value *n_ = nullptr, *main_ = nullptr;                  // elements of a row; those in whole sets of lanes
  std::vector<Value*> inputs_, steps_, outputs_, slots_;  // addresses of the first row, and of kept rows by value
  std::vector<Value*> row_inputs_, row_outputs_;          // addresses for the row at hand
  std::vector<Value*> hidden_;                            // constants where they are all that a function reads
  std::vector<Value*> numbers_;                           // values that are one number per row
};

}  // namespace

bool add_rows(llvm::Module& module, const RowsRequest& request) { return RowsBuilder(module, request).build(); }

}  // namespace gluino::jit
