#include "jit/loop_writer.h"

namespace gluino::jit {
namespace {

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
constexpr int kSideBySide = 4;  // vectors of elements

llvm::Type* element_type(llvm::LLVMContext& context, ComputeType type) {
  switch (type) {
    case ComputeType::f32: return llvm::Type::getFloatTy(context);
    case ComputeType::f64: return llvm::Type::getDoubleTy(context);
    case ComputeType::i32: return llvm::Type::getInt32Ty(context);
    case ComputeType::i64: return llvm::Type::getInt64Ty(context);
  }
  return nullptr;
}

}  // namespace

int arguments_of(ScalarFn fn) { return kArities[static_cast<size_t>(fn)]; }
std::string reduction_part(const char* what, kernels::ReduceOp how) {
  return std::string(what) + "_" + kernels::kReduceNames[static_cast<size_t>(how)];
}

LoopWriter::LoopWriter(llvm::Module& module, ComputeType type, std::string_view isa)
    : b(module.getContext()),
      element(element_type(module.getContext(), type)),
      type_name(kTypeNames[static_cast<size_t>(type)]),
      module_(module),
      context_(module.getContext()),
      type_(type),
      vector_bytes_(isa == "avx512" ? 64
                    : isa == "avx2" ? 32
                                    : 16) {}

void LoopWriter::begin_function(llvm::ArrayRef<llvm::Type*> parameters) {
  auto* signature = llvm::FunctionType::get(b.getVoidTy(), parameters, false);
  function_ = llvm::Function::Create(signature, llvm::Function::ExternalLinkage, kKernelName, module_);
  b.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
}

llvm::Constant* LoopWriter::constant(double value) {
  switch (type_) {
    case ComputeType::f32: return llvm::ConstantFP::get(element, static_cast<double>(static_cast<float>(value)));
    case ComputeType::f64: return llvm::ConstantFP::get(element, value);
    default: return llvm::ConstantInt::getSigned(element, static_cast<int64_t>(value));
  }
}
llvm::Value* LoopWriter::hidden_constant(double value) {
  llvm::Value* place = memory(element);
  b.CreateStore(constant(value), place, true);
  return b.CreateLoad(element, place, true);
}

llvm::Value* LoopWriter::call(const std::string& name, llvm::ArrayRef<llvm::Value*> arguments) {
  return call_in(type_name, name, arguments);
}
llvm::Value* LoopWriter::call_in(const std::string& type, const std::string& name, llvm::ArrayRef<llvm::Value*> arguments) {
  llvm::Function* callee = module_.getFunction("gluino_" + type + "_" + name);
  if (callee) return b.CreateCall(callee, arguments);
  missing_ = true;
  return llvm::Constant::getNullValue(element);
}
llvm::Value* LoopWriter::from_float16(llvm::Value* x) {
  if (!zero_) {
    llvm::BasicBlock& entry = function_->getEntryBlock();
    llvm::IRBuilder<> at_entry(&entry, entry.begin());
    llvm::Value* place = at_entry.CreateAlloca(b.getInt32Ty());
    at_entry.CreateStore(b.getInt32(0), place, true);
    zero_ = at_entry.CreateLoad(b.getInt32Ty(), place, true);
  }
  llvm::Value* bits = b.CreateBitCast(call_in("f32", "from_float16", {x}), b.getInt32Ty());
  return b.CreateBitCast(b.CreateXor(bits, zero_), b.getFloatTy());
}
llvm::Value* LoopWriter::call(ScalarFn fn, llvm::ArrayRef<llvm::Value*> arguments) {
  if (fn == ScalarFn::to_float16 && element->isFloatTy()) return from_float16(call("as_float16", arguments));
  std::vector<llvm::Value*> three(arguments.begin(), arguments.end());
  three.resize(3, llvm::Constant::getNullValue(element));
  return call(kFunctionNames[static_cast<size_t>(fn)], three);
}

llvm::Value* LoopWriter::load(llvm::Type* type, llvm::Value* array, llvm::Value* i) {
  llvm::LoadInst* x = b.CreateLoad(type, b.CreateInBoundsGEP(type, array, i));
  if (group_) x->setMetadata(llvm::LLVMContext::MD_access_group, group_);
  return x;
}
void LoopWriter::store(llvm::Value* x, llvm::Value* array, llvm::Value* i) {
  llvm::StoreInst* stored = b.CreateStore(x, b.CreateInBoundsGEP(x->getType(), array, i));
  if (group_) stored->setMetadata(llvm::LLVMContext::MD_access_group, group_);
}
llvm::Type* LoopWriter::stored_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return b.getFloatTy();
    case DType::float64: return b.getDoubleTy();
    case DType::float16:
    case DType::bfloat16: return b.getInt16Ty();
    case DType::int32: return b.getInt32Ty();
    case DType::int64: return b.getInt64Ty();
    default: return b.getInt8Ty();
  }
}
llvm::Value* LoopWriter::read(DType dtype, llvm::Value* array, llvm::Value* i) {
  llvm::Value* x = load(stored_type(dtype), array, i);
  if (x->getType() == element) return x;
  switch (dtype) {
    case DType::float16: return b.CreateFPCast(from_float16(x), element);
    case DType::bfloat16: return b.CreateFPCast(call_in("f32", "from_bfloat16", {x}), element);
    case DType::float32:
    case DType::float64: return b.CreateFPCast(x, element);
    case DType::uint8:
    case DType::boolean: return b.CreateUIToFP(x, element);
    default: return b.CreateSIToFP(x, element);
  }
}
void LoopWriter::write(llvm::Value* x, DType dtype, llvm::Value* array, llvm::Value* i) {
  switch (dtype) {
    case DType::float16: x = call("as_float16", {x}); break;
    case DType::bfloat16: x = call("as_bfloat16", {x}); break;
    case DType::boolean: x = b.CreateZExt(b.CreateFCmpUNE(x, constant(0)), b.getInt8Ty()); break;
    default: break;
  }
  store(x, array, i);
}
llvm::Value* LoopWriter::memory(llvm::Type* type, int64_t elements) {
  llvm::BasicBlock& entry = function_->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  llvm::AllocaInst* place = at_entry.CreateAlloca(type, at_entry.getInt64(static_cast<uint64_t>(elements)));
  place->setAlignment(llvm::Align(64));
  return place;
}
llvm::Value* LoopWriter::pointer_at(llvm::Value* pointers, size_t k) {
  return b.CreateLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getPtrTy(), pointers, k));
}

int LoopWriter::vector_width() const { return vector_bytes_ * 8 / static_cast<int>(element->getPrimitiveSizeInBits().getFixedValue()); }
int64_t LoopWriter::elements_side_by_side() const { return kSideBySide * vector_width(); }

llvm::MDNode* LoopWriter::properties(Kind kind) {
  const auto flag = [&](const char* name) { return llvm::MDNode::get(context_, {llvm::MDString::get(context_, name)}); };
  const auto number = [&](const char* name, llvm::Constant* value) {
    return llvm::MDNode::get(context_, {llvm::MDString::get(context_, name), llvm::ConstantAsMetadata::get(value)});
  };
  std::vector<llvm::Metadata*> all{nullptr};
  if (group_) all.push_back(llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.parallel_accesses"), group_}));
  // Masks need instructions that the baseline has not, and only float32 has long functions that are no calls.
  const bool has_masks = vector_bytes_ >= 32 && element->isFloatTy();
  if (kind == Kind::few || (kind == Kind::rest && !has_masks)) {
    all.push_back(flag("llvm.loop.unroll.disable"));
    all.push_back(number("llvm.loop.vectorize.enable", b.getFalse()));
  } else if (kind == Kind::independent || kind == Kind::widening) {
    all.push_back(number("llvm.loop.interleave.count", b.getInt32(kind == Kind::widening ? 1 : kSideBySide)));
    if (kind == Kind::widening || has_narrow_floats_)
      all.push_back(number("llvm.loop.vectorize.width", b.getInt32(static_cast<uint32_t>(vector_width()))));
  } else {
    // All lanes at once, so that no loop is left and they can stay in registers. Unrolled before it were made of vectors it would not be.
    all.push_back(flag("llvm.loop.unroll.disable"));
    all.push_back(number("llvm.loop.vectorize.enable", b.getTrue()));
    all.push_back(number("llvm.loop.vectorize.width", b.getInt32(static_cast<uint32_t>(vector_width()))));
    const int side_by_side = kind == Kind::rest ? 1 : kLaneBytes / vector_bytes_;
    all.push_back(number("llvm.loop.interleave.count", b.getInt32(static_cast<uint32_t>(side_by_side))));
    if (kind == Kind::rest) all.push_back(number("llvm.loop.vectorize.predicate.enable", b.getTrue()));
  }
  auto* id = llvm::MDNode::getDistinct(context_, all);
  id->replaceOperandWith(0, id);
  return id;
}

}  // namespace gluino::jit
