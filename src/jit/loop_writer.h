// What all compiled kernels are written with: loops, elements of arrays, and calls of the scalar functions in the bitcode.
#pragma once
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <string>
#include <string_view>
#include <vector>

#include "gluino/dtype.h"
#include "gluino/expr.h"
#include "program/reduction.h"

namespace gluino::jit {

inline constexpr const char* kKernelName = "gluino_loop";
inline constexpr int kLaneBytes = 64;   // of an accumulator
inline constexpr int64_t kBlock = 256;  // elements that one part of a program computes before the next one takes over

int arguments_of(ScalarFn fn);
// "combine_sum": the name of what a reduction is made of.
std::string reduction_part(const char* what, kernels::ReduceOp how);

class LoopWriter {
 public:
  LoopWriter(llvm::Module& module, ComputeType type, std::string_view isa);

  llvm::IRBuilder<> b;
  llvm::Type* const element;  // of the computed type
  const std::string type_name;

  void begin_function(llvm::ArrayRef<llvm::Type*> parameters);
  llvm::Value* parameter(unsigned k) const { return function_->getArg(k); }
  void end_function() { b.CreateRetVoid(); }
  bool is_missing() const { return missing_; }  // a function that the bitcode does not define

  // independent: iterations touch no memory of one another, and several vectors of them run side by side. lanes: the same for a loop
  // over all lanes of an accumulator, which becomes one stretch of code. few: a handful of iterations, which stay a
  // plain loop. rest: a handful of independent ones, in vectors whose last one is masked. widening: independent ones that also compute in
  // double, one vector of as many elements as elsewhere at a time: for rows, most of which do not fill several. serial: left to LLVM.
  enum class Kind : uint8_t { independent, widening, lanes, rest, few, serial };
  // for (i = first; i < end; i += step) body(i).
  template <class Body>
  void loop(llvm::Value* first, llvm::Value* end, int64_t step, Kind kind, Body&& body) {
    auto* before = b.GetInsertBlock();
    auto* inside = llvm::BasicBlock::Create(context_, "loop", function_);
    auto* after = llvm::BasicBlock::Create(context_, "done", function_);
    b.CreateCondBr(b.CreateICmpSLT(first, end), inside, after);
    b.SetInsertPoint(inside);
    llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2, "i");
    i->addIncoming(first, before);
    llvm::MDNode* outer = group_;
    group_ = kind == Kind::serial || kind == Kind::few ? nullptr : llvm::MDNode::getDistinct(context_, {});
    body(i);
    llvm::Value* next = b.CreateAdd(i, b.getInt64(step), "next", true, true);
    i->addIncoming(next, b.GetInsertBlock());
    llvm::Instruction* back = b.CreateCondBr(b.CreateICmpSLT(next, end), inside, after);
    if (kind != Kind::serial) back->setMetadata(llvm::LLVMContext::MD_loop, properties(kind));
    group_ = outer;
    b.SetInsertPoint(after);
  }
  int64_t elements_side_by_side() const;  // of a loop of independent iterations
  llvm::Value* smaller(llvm::Value* a, llvm::Value* c) { return b.CreateSelect(b.CreateICmpSLT(a, c), a, c); }

  llvm::Constant* constant(double value);  // as the interpreter fills its registers
  // LLVM computes a function of constants by itself, and not always with the same bits: this one it does not know. Written at the
  // function's beginning.
  llvm::Value* hidden_constant(double value);
  llvm::Value* call(const std::string& name, llvm::ArrayRef<llvm::Value*> arguments);  // gluino_<type>_<name>
  llvm::Value* call_in(const std::string& type, const std::string& name, llvm::ArrayRef<llvm::Value*> arguments);
  llvm::Value* call(ScalarFn fn, llvm::ArrayRef<llvm::Value*> arguments);

  // No iteration of a loop of independent ones touches what another one does.
  llvm::Value* load(llvm::Type* type, llvm::Value* array, llvm::Value* i);
  void store(llvm::Value* x, llvm::Value* array, llvm::Value* i);
  llvm::Value* load(llvm::Value* array, llvm::Value* i) { return load(element, array, i); }
  // Elements of arrays of other dtypes, which are converted as they are read and written.
  llvm::Type* stored_type(DType dtype);
  llvm::Value* read(DType dtype, llvm::Value* array, llvm::Value* i);
  void write(llvm::Value* x, DType dtype, llvm::Value* array, llvm::Value* i);
  // To be called for every dtype that is read or written: where there are 16-bit floats, LLVM would choose short vectors.
  void note_stored(DType dtype) { has_narrow_floats_ |= dtype == DType::float16 || dtype == DType::bfloat16; }
  llvm::Value* wide(llvm::Value* x) { return element->isDoubleTy() ? x : b.CreateFPExt(x, b.getDoubleTy()); }
  // Memory of the function's own.
  llvm::Value* memory(llvm::Type* type, int64_t elements = 1);
  llvm::Value* pointer_at(llvm::Value* pointers, size_t k);

 private:
  llvm::MDNode* properties(Kind kind);
  // float16 as float32, of which LLVM does not know where it comes from: else it would compute in float16, which most CPUs cannot.
  llvm::Value* from_float16(llvm::Value* x);
  int vector_width() const;  // in elements

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const ComputeType type_;
  const int vector_bytes_;
  llvm::Function* function_ = nullptr;
  llvm::Value* zero_ = nullptr;    // that LLVM does not know; null: not asked for yet
  llvm::MDNode* group_ = nullptr;  // the memory accesses of the loop being written
  bool missing_ = false, has_narrow_floats_ = false;
};

}  // namespace gluino::jit
