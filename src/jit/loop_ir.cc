#include "jit/loop_ir.h"

#include <algorithm>

#include "jit/loop_writer.h"

namespace gluino::jit {
namespace {

using kernels::CombiningRequest;
using kernels::LoopRequest;

bool is_leaf(const Instruction& in) { return in.fn == ScalarFn::input || in.fn == ScalarFn::constant; }

class LoopBuilder {
 public:
  LoopBuilder(llvm::Module& module, const LoopRequest& request) : w_(module, request.type, request.target.isa), request_(request) {}

  bool build() {
    llvm::IRBuilder<>& b = w_.b;
    begin({b.getPtrTy(), b.getPtrTy(), b.getInt64Ty()});
    n_ = w_.parameter(2);
    load_addresses(w_.parameter(0), w_.parameter(1));
    sweep();
    return end();
  }
  bool build_combining(kernels::ReduceOp how) {
    llvm::IRBuilder<>& b = w_.b;
    how_ = how;
    begin({b.getPtrTy(), b.getPtrTy(), b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty()});
    accumulators_ = w_.parameter(2);
    n_ = w_.parameter(4);
    const auto of_row = [&](llvm::Value* pointers, llvm::Value* row, int count) {
      return b.CreateInBoundsGEP(b.getPtrTy(), pointers, b.CreateMul(row, b.getInt64(static_cast<uint64_t>(count))));
    };
    w_.loop(b.getInt64(0), w_.parameter(3), 1, Kind::serial, [&](llvm::Value* row) {
      load_addresses(of_row(w_.parameter(0), row, kernels::kMostLoopInputs), of_row(w_.parameter(1), row, request_.num_results - 1));
      sweep();
    });
    return end();
  }

 private:
  using Kind = LoopWriter::Kind;

  void begin(llvm::ArrayRef<llvm::Type*> parameters) {
    w_.begin_function(parameters);
    if (request_.stored) {
      for (const DType dtype : request_.stored->inputs) w_.note_stored(dtype);
      for (const DType dtype : request_.stored->outputs) w_.note_stored(dtype);
    }
    hide_constants();
    cut_into_parts();
  }
  bool end() {
    w_.end_function();
    return !w_.is_missing();
  }

  // Before the loop: the addresses of inputs and outputs, and the elements of inputs that repeat.
  void load_addresses(llvm::Value* from, llvm::Value* to) {
    inputs_.clear();
    outputs_.clear();
    for (int k = 0; k < request_.size; ++k) {
      const Instruction& in = request_.code[k];
      if (in.fn != ScalarFn::input) continue;
      const size_t input = in.args[0];
      if (inputs_.size() <= input) inputs_.resize(input + 1);
      if (inputs_[input]) continue;
      inputs_[input] = w_.pointer_at(from, input);
      if (is_repeated(input)) inputs_[input] = read(input, w_.b.getInt64(0));
    }
    for (size_t r = 0; r < num_results() - first_stored(); ++r) outputs_.push_back(w_.pointer_at(to, r));
  }
  llvm::Value* read(size_t input, llvm::Value* at) {
    return request_.stored ? w_.read(request_.stored->inputs[input], inputs_[input], at) : w_.load(inputs_[input], at);
  }
  void write(llvm::Value* x, size_t result, llvm::Value* at) {
    llvm::Value* array = outputs_[result - first_stored()];
    return request_.stored ? w_.write(x, request_.stored->outputs[result], array, at) : w_.store(x, array, at);
  }
  size_t num_results() const { return static_cast<size_t>(request_.num_results); }
  size_t first_stored() const { return accumulators_ ? 1 : 0; }

  void hide_constants() {
    hidden_.resize(request_.size);
    for (int k = 0; k < request_.size; ++k) {
      const Instruction& in = request_.code[k];
      if (is_leaf(in) || !reads_only_constants(in)) continue;
      for (int a = 0; a < arguments_of(in.fn); ++a) {
        llvm::Value*& hidden = hidden_[in.args[a]];
        if (!hidden) hidden = w_.hidden_constant(request_.code[in.args[a]].value);
      }
    }
  }
  bool reads_only_constants(const Instruction& in) const {
    for (int a = 0; a < arguments_of(in.fn); ++a)
      if (request_.code[in.args[a]].fn != ScalarFn::constant) return false;
    return true;
  }
  // What is written of result r: rounding to what it is stored in is done in any case.
  size_t written(size_t r) const {
    const auto k = static_cast<size_t>(request_.results[r]);
    if (!request_.stored) return k;
    const Instruction& in = request_.code[k];
    const DType dtype = request_.stored->outputs[r];
    const bool is_rounding =
        (in.fn == ScalarFn::to_float16 && dtype == DType::float16) || (in.fn == ScalarFn::to_bfloat16 && dtype == DType::bfloat16);
    return is_rounding ? in.args[0] : k;
  }
  bool is_repeated(size_t input) const { return request_.repeated >> input & 1; }

  // A CPU looks ahead a few hundred instructions. Where several long functions follow one another, one element's chain fills
  // that window and the pipelines wait; so the program is cut, and each part runs over a block of elements. Values that a
  // later part reads lie in memory, in the first-level cache.
  void cut_into_parts() {
    part_.resize(request_.size);
    kept_.resize(request_.size);
    int current = 0, long_ones = 0;
    for (int k = 0; k < request_.size; ++k) {
      const Instruction& in = request_.code[k];
      if (kernels::is_long(in.fn) && ++long_ones > 1) ++current, long_ones = 1;
      part_[k] = current;
      if (is_leaf(in)) continue;
      for (int a = 0; a < arguments_of(in.fn); ++a) keep_for(current, in.args[a]);
    }
    for (size_t r = 0; r < num_results(); ++r) keep_for(current, written(r));
    parts_ = current + 1;
  }
  // Part number `part` reads what instruction k gave.
  void keep_for(int part, size_t k) {
    if (part_[k] < part && !is_leaf(request_.code[k]) && !kept_[k]) kept_[k] = w_.memory(w_.element, kBlock);
  }

  // All elements of a row.
  void sweep() {
    llvm::IRBuilder<>& b = w_.b;
    llvm::Value* zero = b.getInt64(0);
    const auto kind = [&](int part) { return accumulators_ && part == parts_ - 1 ? Kind::widening : Kind::independent; };
    if (parts_ == 1) return w_.loop(zero, n_, 1, kind(0), [&](llvm::Value* i) { evaluate(0, i, zero); });
    w_.loop(zero, n_, kBlock, Kind::serial, [&](llvm::Value* begin) {
      llvm::Value* count = w_.smaller(b.CreateSub(n_, begin), b.getInt64(kBlock));
      for (int part = 0; part < parts_; ++part) w_.loop(zero, count, 1, kind(part), [&](llvm::Value* i) { evaluate(part, i, begin); });
    });
  }

  // One element's way through a part; `i` counts from `begin`, where the block starts.
  void evaluate(int part, llvm::Value* i, llvm::Value* begin) {
    llvm::Value* at = w_.b.CreateAdd(begin, i);
    std::vector<llvm::Value*> values(request_.size);
    const auto value = [&](size_t k) {
      if (!values[k]) values[k] = is_leaf(request_.code[k]) ? leaf(request_.code[k], at) : w_.load(kept_[k], i);
      return values[k];
    };
    for (size_t k = 0; k < part_.size(); ++k) {
      const Instruction& in = request_.code[k];
      if (part_[k] != part || is_leaf(in)) continue;
      std::vector<llvm::Value*> arguments;
      for (int a = 0; a < arguments_of(in.fn); ++a) arguments.push_back(reads_only_constants(in) ? hidden_[in.args[a]] : value(in.args[a]));
      values[k] = w_.call(in.fn, arguments);
      if (kept_[k]) w_.store(values[k], kept_[k], i);
    }
    if (part < parts_ - 1) return;
    // All results are stored at the end: until then an output may be an input that is still read.
    std::vector<llvm::Value*> results;
    for (size_t r = 0; r < num_results(); ++r) results.push_back(value(written(r)));
    if (accumulators_) combine(results[0], at);
    for (size_t r = first_stored(); r < results.size(); ++r) write(results[r], r, at);
  }
  void combine(llvm::Value* x, llvm::Value* at) {
    llvm::Value* mapped = w_.call_in("f64", reduction_part("map", how_), {w_.wide(x)});
    llvm::Value* total = w_.load(w_.b.getDoubleTy(), accumulators_, at);
    w_.store(w_.call_in("f64", reduction_part("combine", how_), {total, mapped}), accumulators_, at);
  }
  llvm::Value* leaf(const Instruction& in, llvm::Value* at) {
    if (in.fn == ScalarFn::constant) return w_.constant(in.value);
    return is_repeated(in.args[0]) ? inputs_[in.args[0]] : read(in.args[0], at);
  }

  LoopWriter w_;
  const LoopRequest& request_;
  llvm::Value* n_ = nullptr;             // elements of a row
  llvm::Value* accumulators_ = nullptr;  // of the first result; null: it is stored as the others
  kernels::ReduceOp how_ = kernels::ReduceOp::sum;
  std::vector<llvm::Value*> inputs_;   // addresses; of those that repeat: the elements
  std::vector<llvm::Value*> outputs_;  // addresses
  std::vector<llvm::Value*> hidden_;   // constants, by position, where they are all that a function reads
  std::vector<int> part_;              // of each instruction
  std::vector<llvm::Value*> kept_;     // where an instruction's values lie that later parts read; null for the others
  int parts_ = 1;
};

}  // namespace

bool add_loop(llvm::Module& module, const LoopRequest& request) { return LoopBuilder(module, request).build(); }
bool add_combining_loop(llvm::Module& module, const CombiningRequest& request) {
  return LoopBuilder(module, request).build_combining(request.how);
}

}  // namespace gluino::jit
