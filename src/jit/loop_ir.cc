#include "jit/loop_ir.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <vector>

namespace gluino::jit {
namespace {

using kernels::LoopRequest;

constexpr const char* kFunctionNames[] = {
#define GLUINO_X(name, arity) #name,
    GLUINO_SCALAR_FUNCTIONS(GLUINO_X)
#undef GLUINO_X
};
constexpr int kArities[] = {
#define GLUINO_X(name, arity) arity,
    GLUINO_SCALAR_FUNCTIONS(GLUINO_X)
#undef GLUINO_X
};
constexpr const char* kTypeNames[] = {"f32", "f64", "i32", "i64"};

bool is_leaf(const Instruction& in) { return in.fn == ScalarFn::input || in.fn == ScalarFn::constant; }

// Functions that are long chains of instructions, each waiting for the one before.
bool is_long(ScalarFn fn) {
  switch (fn) {
    case ScalarFn::exp:
    case ScalarFn::expm1:
    case ScalarFn::log:
    case ScalarFn::log1p:
    case ScalarFn::tanh:
    case ScalarFn::erf: return true;
    default: return false;
  }
}

constexpr int kSideBySide = 4;
constexpr int64_t kBlock = 256;  // elements that one part computes before the next one takes over

class LoopBuilder {
 public:
  LoopBuilder(llvm::Module& module, const LoopRequest& request)
      : module_(module), context_(module.getContext()), request_(request), b_(context_), element_(element_type()) {}

  bool build() {
    llvm::Type* pointer = b_.getPtrTy();
    auto* signature = llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, b_.getInt64Ty()}, false);
    function_ = llvm::Function::Create(signature, llvm::Function::ExternalLinkage, kKernelName, module_);
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
    load_addresses();
    hide_constants();
    cut_into_parts();
    llvm::Value* n = function_->getArg(2);
    if (parts_ == 1) {
      loop(b_.getInt64(0), n, 1, false, [&](llvm::Value* i) { evaluate(0, i, b_.getInt64(0)); });
    } else {
      loop(b_.getInt64(0), n, kBlock, true, [&](llvm::Value* begin) {
        llvm::Value* rest = b_.CreateSub(n, begin);
        llvm::Value* count = b_.CreateSelect(b_.CreateICmpSLT(rest, b_.getInt64(kBlock)), rest, b_.getInt64(kBlock));
        for (int part = 0; part < parts_; ++part) loop(b_.getInt64(0), count, 1, false, [&](llvm::Value* i) { evaluate(part, i, begin); });
      });
    }
    b_.CreateRetVoid();
    return !missing_;
  }

 private:
  llvm::Type* element_type() {
    switch (request_.type) {
      case ComputeType::f32: return b_.getFloatTy();
      case ComputeType::f64: return b_.getDoubleTy();
      case ComputeType::i32: return b_.getInt32Ty();
      case ComputeType::i64: return b_.getInt64Ty();
    }
    return nullptr;
  }

  // for (i = first; i < end; i += step) body(i). Iterations of an innermost loop are independent.
  template <class Body>
  void loop(llvm::Value* first, llvm::Value* end, int64_t step, bool has_loops_inside, Body&& body) {
    auto* before = b_.GetInsertBlock();
    auto* inside = llvm::BasicBlock::Create(context_, "loop", function_);
    auto* after = llvm::BasicBlock::Create(context_, "done", function_);
    b_.CreateCondBr(b_.CreateICmpSLT(first, end), inside, after);
    b_.SetInsertPoint(inside);
    llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2, "i");
    i->addIncoming(first, before);
    group_ = llvm::MDNode::getDistinct(context_, {});
    body(i);
    llvm::Value* next = b_.CreateAdd(i, b_.getInt64(step), "next", true, true);
    i->addIncoming(next, b_.GetInsertBlock());
    llvm::Instruction* back = b_.CreateCondBr(b_.CreateICmpSLT(next, end), inside, after);
    if (!has_loops_inside) back->setMetadata(llvm::LLVMContext::MD_loop, independent_iterations());
    b_.SetInsertPoint(after);
  }

  // Before the loop: the addresses of inputs and outputs, and the elements of inputs that repeat.
  void load_addresses() {
    for (int k = 0; k < request_.size; ++k) {
      const Instruction& in = request_.code[k];
      if (in.fn != ScalarFn::input) continue;
      const size_t input = in.args[0];
      if (inputs_.size() <= input) inputs_.resize(input + 1);
      if (inputs_[input]) continue;
      llvm::Value* slot = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), function_->getArg(0), input);
      inputs_[input] = b_.CreateLoad(b_.getPtrTy(), slot);
      if (is_repeated(input)) inputs_[input] = b_.CreateLoad(element_, inputs_[input]);
    }
    for (int r = 0; r < request_.num_results; ++r) {
      llvm::Value* slot = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), function_->getArg(1), static_cast<size_t>(r));
      outputs_.push_back(b_.CreateLoad(b_.getPtrTy(), slot));
    }
  }
  // LLVM would compute a function of constants by itself, and not always with the same bits: such constants are hidden from it.
  void hide_constants() {
    hidden_.resize(static_cast<size_t>(request_.size));
    for (int k = 0; k < request_.size; ++k) {
      const Instruction& in = request_.code[k];
      if (is_leaf(in) || !reads_only_constants(in)) continue;
      for (int a = 0; a < kArities[static_cast<size_t>(in.fn)]; ++a) {
        llvm::Value*& hidden = hidden_[in.args[a]];
        if (hidden) continue;
        llvm::Value* place = b_.CreateAlloca(element_);
        b_.CreateStore(constant(request_.code[in.args[a]].value), place, true);
        hidden = b_.CreateLoad(element_, place, true);
      }
    }
  }
  bool reads_only_constants(const Instruction& in) const {
    for (int a = 0; a < kArities[static_cast<size_t>(in.fn)]; ++a)
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
      for (int a = 0; a < kArities[static_cast<size_t>(in.fn)]; ++a) keep_for(current, in.args[a]);
    }
    for (int r = 0; r < request_.num_results; ++r) keep_for(current, static_cast<size_t>(request_.results[r]));
    parts_ = current + 1;
  }
  // Part number `part` reads what instruction k gave.
  void keep_for(int part, size_t k) {
    if (part_[k] < part && !is_leaf(request_.code[k]) && !kept_[k]) kept_[k] = b_.CreateAlloca(element_, b_.getInt64(kBlock));
  }

  // One element's way through a part; `i` counts from `begin`, where the block starts.
  void evaluate(int part, llvm::Value* i, llvm::Value* begin) {
    llvm::Value* at = b_.CreateAdd(begin, i);
    std::vector<llvm::Value*> values(static_cast<size_t>(request_.size));
    const auto value = [&](size_t k) {
      if (!values[k]) values[k] = is_leaf(request_.code[k]) ? leaf(request_.code[k], at) : load(kept_[k], i);
      return values[k];
    };
    for (size_t k = 0; k < part_.size(); ++k) {
      const Instruction& in = request_.code[k];
      if (part_[k] != part || is_leaf(in)) continue;
      const auto fn = static_cast<size_t>(in.fn);
      llvm::Function* callee =
          module_.getFunction(std::string("gluino_") + kTypeNames[static_cast<size_t>(request_.type)] + "_" + kFunctionNames[fn]);
      missing_ |= !callee;
      if (missing_) return;
      llvm::Value* zero = llvm::Constant::getNullValue(element_);
      llvm::Value* arguments[3] = {zero, zero, zero};
      for (int a = 0; a < kArities[fn]; ++a) arguments[a] = reads_only_constants(in) ? hidden_[in.args[a]] : value(in.args[a]);
      values[k] = b_.CreateCall(callee, arguments);
      if (kept_[k]) store(values[k], kept_[k], i);
    }
    if (part < parts_ - 1) return;
    // All results are stored at the end: until then an output may be an input that is still read.
    std::vector<llvm::Value*> results;
    for (int r = 0; r < request_.num_results; ++r) results.push_back(value(static_cast<size_t>(request_.results[r])));
    for (size_t r = 0; r < results.size(); ++r) store(results[r], outputs_[r], at);
  }
  llvm::Value* leaf(const Instruction& in, llvm::Value* at) {
    if (in.fn == ScalarFn::constant) return constant(in.value);
    return is_repeated(in.args[0]) ? inputs_[in.args[0]] : load(inputs_[in.args[0]], at);
  }
  // As the interpreter fills its registers.
  llvm::Constant* constant(double value) {
    switch (request_.type) {
      case ComputeType::f32: return llvm::ConstantFP::get(element_, static_cast<double>(static_cast<float>(value)));
      case ComputeType::f64: return llvm::ConstantFP::get(element_, value);
      default: return llvm::ConstantInt::getSigned(element_, static_cast<int64_t>(value));
    }
  }

  // An output may be one of the inputs, element for element: no iteration touches what another one does.
  llvm::Value* load(llvm::Value* array, llvm::Value* i) {
    llvm::LoadInst* x = b_.CreateLoad(element_, b_.CreateInBoundsGEP(element_, array, i));
    x->setMetadata(llvm::LLVMContext::MD_access_group, group_);
    return x;
  }
  void store(llvm::Value* x, llvm::Value* array, llvm::Value* i) {
    b_.CreateStore(x, b_.CreateInBoundsGEP(element_, array, i))->setMetadata(llvm::LLVMContext::MD_access_group, group_);
  }
  // Several vectors of elements side by side: their chains do not wait for each other.
  llvm::MDNode* independent_iterations() {
    auto* parallel = llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.parallel_accesses"), group_});
    auto* interleave = llvm::MDNode::get(
        context_, {llvm::MDString::get(context_, "llvm.loop.interleave.count"), llvm::ConstantAsMetadata::get(b_.getInt32(kSideBySide))});
    auto* id = llvm::MDNode::getDistinct(context_, {nullptr, parallel, interleave});
    id->replaceOperandWith(0, id);
    return id;
  }

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const LoopRequest& request_;
  llvm::IRBuilder<> b_;
  llvm::Type* element_;
  llvm::MDNode* group_ = nullptr;  // the memory accesses of the loop being built
  llvm::Function* function_ = nullptr;
  std::vector<llvm::Value*> inputs_;   // addresses; of those that repeat: the elements
  std::vector<llvm::Value*> outputs_;  // addresses
  std::vector<llvm::Value*> hidden_;   // constants, by position, where they are all that a function reads
  std::vector<int> part_;              // of each instruction
  std::vector<llvm::Value*> kept_;     // where an instruction's values lie that later parts read; null for the others
  int parts_ = 1;
  bool missing_ = false;  // a function that the bitcode does not define
};

}  // namespace

bool add_loop(llvm::Module& module, const LoopRequest& request) { return LoopBuilder(module, request).build(); }

}  // namespace gluino::jit
