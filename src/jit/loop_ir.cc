#include "jit/loop_ir.h"

#include <algorithm>

#include "jit/loop_writer.h"

namespace gluino::jit {
namespace {

using kernels::CombiningRequest;
using kernels::LoopRequest;

constexpr int64_t kRowsTogether = 4;  // of a loop that reduces its first result: accumulators are read and written once for all

bool is_leaf(const Instruction& in) { return in.fn == ScalarFn::input || in.fn == ScalarFn::constant; }

class LoopBuilder {
 public:
  LoopBuilder(llvm::Module& module, const LoopRequest& request) : w_(module, request.type, request.target.isa), request_(request) {}

  bool build() {
    llvm::IRBuilder<>& b = w_.b;
    begin({b.getPtrTy(), b.getPtrTy(), b.getInt64Ty()});
    n_ = w_.parameter(2);
    sweep({row(b.getInt64(0), 0, 0)});
    return end();
  }
  bool build_combining(kernels::ReduceOp how) {
    llvm::IRBuilder<>& b = w_.b;
    how_ = how;
    begin({b.getPtrTy(), b.getPtrTy(), b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty()});
    accumulators_ = w_.parameter(2);
    n_ = w_.parameter(4);
    llvm::Value* rows = w_.parameter(3);
    llvm::Value* whole = has_long_functions() ? b.getInt64(0) : b.CreateAnd(rows, b.getInt64(static_cast<uint64_t>(-kRowsTogether)));
    const auto rows_from = [&](llvm::Value* first, int64_t count) {
      std::vector<Row> together;
      for (int64_t r = 0; r < count; ++r)
        together.push_back(
            row(b.CreateAdd(first, b.getInt64(static_cast<uint64_t>(r))), kernels::kMostLoopInputs, request_.num_results - 1));
      return together;
    };
    w_.loop(b.getInt64(0), whole, kRowsTogether, Kind::serial, [&](llvm::Value* first) { sweep(rows_from(first, kRowsTogether)); });
    w_.loop(whole, rows, 1, Kind::serial, [&](llvm::Value* first) { sweep(rows_from(first, 1)); });
    return end();
  }

 private:
  using Kind = LoopWriter::Kind;
  struct Row {
    std::vector<llvm::Value*> inputs;   // addresses; of those that repeat: the elements
    std::vector<llvm::Value*> outputs;  // addresses
  };

  void begin(llvm::ArrayRef<llvm::Type*> parameters) {
    w_.begin_function(parameters);
    hide_constants();
    cut_into_parts();
  }
  bool end() {
    w_.end_function();
    return !w_.is_missing();
  }

  // Before the loop: the addresses of inputs and outputs, and the elements of inputs that repeat. Those of row number r lie behind
  // r * inputs and r * outputs others.
  Row row(llvm::Value* r, int inputs, int outputs) {
    llvm::IRBuilder<>& b = w_.b;
    const auto behind = [&](llvm::Value* pointers, int others) {
      return b.CreateInBoundsGEP(b.getPtrTy(), pointers, b.CreateMul(r, b.getInt64(static_cast<uint64_t>(others))));
    };
    llvm::Value *from = behind(w_.parameter(0), inputs), *to = behind(w_.parameter(1), outputs);
    Row row;
    for (int k = 0; k < request_.size; ++k) {
      const Instruction& in = request_.code[k];
      if (in.fn != ScalarFn::input) continue;
      const size_t input = in.args[0];
      if (row.inputs.size() <= input) row.inputs.resize(input + 1);
      if (row.inputs[input]) continue;
      row.inputs[input] = w_.pointer_at(from, input);
      if (is_repeated(input)) row.inputs[input] = b.CreateLoad(w_.element, row.inputs[input]);
    }
    for (size_t o = 0; o < num_results() - first_stored(); ++o) row.outputs.push_back(w_.pointer_at(to, o));
    return row;
  }
  size_t num_results() const { return static_cast<size_t>(request_.num_results); }
  size_t first_stored() const { return accumulators_ ? 1 : 0; }

  void hide_constants() {
    hidden_.resize(static_cast<size_t>(request_.size));
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
  bool is_repeated(size_t input) const { return request_.repeated >> input & 1; }

  // A CPU looks ahead a few hundred instructions. Where several long functions follow one another, one element's chain fills
  // that window and the pipelines wait; so the program is cut, and each part runs over a block of elements. Values that a
  // later part reads lie in memory, in the first-level cache.
  void cut_into_parts() {
    part_.resize(static_cast<size_t>(request_.size));
    kept_.resize(static_cast<size_t>(request_.size));
    int current = 0, long_ones = 0;
    for (int k = 0; k < request_.size; ++k) {
      const Instruction& in = request_.code[k];
      if (is_long(in.fn) && ++long_ones > 1) ++current, long_ones = 1;
      part_[static_cast<size_t>(k)] = current;
      if (is_leaf(in)) continue;
      for (int a = 0; a < arguments_of(in.fn); ++a) keep_for(current, in.args[a]);
    }
    for (int r = 0; r < request_.num_results; ++r) keep_for(current, static_cast<size_t>(request_.results[r]));
    parts_ = current + 1;
  }
  // Part number `part` reads what instruction k gave.
  void keep_for(int part, size_t k) {
    if (part_[k] < part && !is_leaf(request_.code[k]) && !kept_[k]) kept_[k] = w_.memory(w_.element, kBlock);
  }

  bool has_long_functions() const {
    return std::any_of(request_.code, request_.code + request_.size, [](const Instruction& in) { return is_long(in.fn); });
  }

  // All elements of the rows; of several only if the program is one part.
  void sweep(const std::vector<Row>& rows) {
    llvm::IRBuilder<>& b = w_.b;
    llvm::Value* zero = b.getInt64(0);
    const Kind last = !accumulators_ ? Kind::independent : rows.size() > 1 ? Kind::widening_rows : Kind::widening;
    if (parts_ == 1) return w_.loop(zero, n_, 1, last, [&](llvm::Value* i) { evaluate_last(rows, i, zero); });
    w_.loop(zero, n_, kBlock, Kind::serial, [&](llvm::Value* begin) {
      llvm::Value* count = w_.smaller(b.CreateSub(n_, begin), b.getInt64(kBlock));
      for (int part = 0; part < parts_ - 1; ++part)
        w_.loop(zero, count, 1, Kind::independent, [&](llvm::Value* i) { evaluate(rows[0], part, i, begin); });
      w_.loop(zero, count, 1, last, [&](llvm::Value* i) { evaluate_last(rows, i, begin); });
    });
  }

  // One element's way through a part; `i` counts from `begin`, where the block starts. The results, if it is the last part.
  std::vector<llvm::Value*> evaluate(const Row& row, int part, llvm::Value* i, llvm::Value* begin) {
    llvm::Value* at = w_.b.CreateAdd(begin, i);
    std::vector<llvm::Value*> values(static_cast<size_t>(request_.size));
    const auto value = [&](size_t k) {
      if (!values[k]) values[k] = is_leaf(request_.code[k]) ? leaf(row, request_.code[k], at) : w_.load(kept_[k], i);
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
    std::vector<llvm::Value*> results;
    for (size_t r = 0; part == parts_ - 1 && r < num_results(); ++r) results.push_back(value(static_cast<size_t>(request_.results[r])));
    return results;
  }
  llvm::Value* leaf(const Row& row, const Instruction& in, llvm::Value* at) {
    if (in.fn == ScalarFn::constant) return w_.constant(in.value);
    return is_repeated(in.args[0]) ? row.inputs[in.args[0]] : w_.load(row.inputs[in.args[0]], at);
  }
  // The last part, and what becomes of the results. They are stored at the end: until then an output may be an input that is still read.
  void evaluate_last(const std::vector<Row>& rows, llvm::Value* i, llvm::Value* begin) {
    llvm::Value* at = w_.b.CreateAdd(begin, i);
    std::vector<std::vector<llvm::Value*>> results;
    for (const Row& row : rows) results.push_back(evaluate(row, parts_ - 1, i, begin));
    if (accumulators_) {
      llvm::Value* total = w_.load(w_.b.getDoubleTy(), accumulators_, at);
      for (const auto& of_row : results)
        total = w_.call_in("f64", reduction_part("combine", how_),
                           {total, w_.call_in("f64", reduction_part("map", how_), {w_.wide(of_row[0])})});
      w_.store(total, accumulators_, at);
    }
    for (size_t r = 0; r < rows.size(); ++r)
      for (size_t k = first_stored(); k < num_results(); ++k) w_.store(results[r][k], rows[r].outputs[k - first_stored()], at);
  }

  LoopWriter w_;
  const LoopRequest& request_;
  llvm::Value* n_ = nullptr;             // elements of a row
  llvm::Value* accumulators_ = nullptr;  // of the first result; null: it is stored as the others
  kernels::ReduceOp how_ = kernels::ReduceOp::sum;
  std::vector<llvm::Value*> hidden_;  // constants, by position, where they are all that a function reads
  std::vector<int> part_;             // of each instruction
  std::vector<llvm::Value*> kept_;    // where an instruction's values lie that later parts read; null for the others
  int parts_ = 1;
};

}  // namespace

bool add_loop(llvm::Module& module, const LoopRequest& request) { return LoopBuilder(module, request).build(); }
bool add_combining_loop(llvm::Module& module, const CombiningRequest& request) {
  return LoopBuilder(module, request).build_combining(request.how);
}

}  // namespace gluino::jit
