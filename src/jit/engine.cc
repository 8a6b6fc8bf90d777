// From a request to machine code: bitcode of the scalar functions + the loop -> LLVM's optimiser -> object -> ORC.
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include <mutex>

#include "jit/bitcode.h"
#include "jit/loop_ir.h"
#include "jit/loop_writer.h"
#include "jit/row_ir.h"

namespace gluino::jit {
namespace {

using kernels::CombiningRequest;
using kernels::CompileTarget;
using kernels::LoopRequest;
using kernels::RowsRequest;

bool add_kernel(llvm::Module& module, const LoopRequest& request) { return add_loop(module, request); }
bool add_kernel(llvm::Module& module, const CombiningRequest& request) { return add_combining_loop(module, request); }
bool add_kernel(llvm::Module& module, const RowsRequest& request) { return add_rows(module, request); }

// Code for the instruction set that the eager kernels use, not for the very CPU: a kernel on disk fits both.
std::unique_ptr<llvm::TargetMachine> machine_for(std::string_view isa) {
  const std::string triple = llvm::sys::getDefaultTargetTriple();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) return nullptr;
#if defined(__x86_64__)
  const char* cpu = isa == "avx512" ? "x86-64-v4" : isa == "avx2" ? "x86-64-v3" : "x86-64";
#else
  const char* cpu = isa == "baseline" ? "generic" : "";
#endif
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // a * b + c stays two roundings, as in the eager kernels
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, cpu, "", options, llvm::Reloc::PIC_, {}, llvm::CodeGenOptLevel::Aggressive));
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

std::string emit_object(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) return "";
  passes.run(module);
  return {bytes.data(), bytes.size()};
}

// Everything in the module is inlined into the loop and then dropped.
void prepare(llvm::Module& module, std::string_view isa) {
  for (llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    f.removeFnAttr("target-cpu");
    f.removeFnAttr("tune-cpu");
    f.removeFnAttr("target-features");
    f.removeFnAttr(llvm::Attribute::NoInline);
    if (isa == "avx512") f.addFnAttr("prefer-vector-width", "512");
    if (f.getName() == kKernelName) continue;
    f.setLinkage(llvm::GlobalValue::InternalLinkage);
    f.addFnAttr(llvm::Attribute::AlwaysInline);
  }
}

template <class Request>
std::string make_object(const Request& request) {
  const std::string_view isa = request.target.isa;
  const std::unique_ptr<llvm::TargetMachine> machine = machine_for(isa);
  if (!machine) return "";
  llvm::LLVMContext context;
  // A loop that is not made of vectors is slow, not wrong: nobody needs to hear of it.
  context.setDiagnosticHandlerCallBack([](const llvm::DiagnosticInfo*, void*) {});
  const std::string_view bitcode = bitcode_for(isa);
  auto parsed = llvm::getLazyBitcodeModule(llvm::MemoryBufferRef({bitcode.data(), bitcode.size()}, "scalar_functions"), context);
  if (!parsed) return llvm::consumeError(parsed.takeError()), "";
  llvm::Module& module = **parsed;
  module.setDataLayout(machine->createDataLayout());
  module.setTargetTriple(machine->getTargetTriple().str());
  if (!add_kernel(module, request)) return "";
  // Only what the loop calls is read from the bitcode.
  for (bool more = true; more;) {
    more = false;
    for (llvm::Function& f : module) {
      if (!f.isMaterializable() || f.use_empty()) continue;
      if (auto error = f.materialize()) return llvm::consumeError(std::move(error)), "";
      more = true;
    }
  }
  for (auto f = module.begin(); f != module.end();) {
    llvm::Function& function = *f++;
    if (function.isMaterializable()) function.eraseFromParent();
  }
  if (auto error = module.materializeAll()) return llvm::consumeError(std::move(error)), "";
  prepare(module, isa);
  optimise(module, *machine);
  return emit_object(module, *machine);
}

class Engine {
 public:
  static Engine& get() {
    static auto* engine = new Engine;  // the code it made is used until the process ends
    return *engine;
  }

  // The address of the function.
  template <class Request>
  void* compile(const Request& request) {
    const std::lock_guard lock(mutex_);
    if (!jit_) return nullptr;
    const CompileTarget& target = request.target;
    if (!target.kept) return load(make_object(request));
    const std::string identity =
        std::string(target.identity) + " for " + target.isa + " by LLVM " LLVM_VERSION_STRING " and " GLUINO_JIT_SOURCES;
    if (const auto kept = target.kept->find(identity)) return load(*kept);
    const std::string object = make_object(request);
    if (!object.empty()) target.kept->put(identity, object);
    return load(object);
  }

 private:
  Engine() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto made = llvm::orc::LLJITBuilder().create();
    if (made)
      jit_ = std::move(*made);
    else
      llvm::consumeError(made.takeError());
  }
  // Each object gets a library of its own: all call their function by the same name.
  void* load(const std::string& object) {
    if (object.empty()) return nullptr;
    auto library = jit_->createJITDylib("loop" + std::to_string(loaded_++));
    if (!library) return llvm::consumeError(library.takeError()), nullptr;
    auto libm = llvm::orc::DynamicLibrarySearchGenerator::Load("libm.so.6", jit_->getDataLayout().getGlobalPrefix());
    if (!libm) return llvm::consumeError(libm.takeError()), nullptr;
    library->addGenerator(std::move(*libm));
    if (auto error = jit_->addObjectFile(*library, llvm::MemoryBuffer::getMemBufferCopy(object)))
      return llvm::consumeError(std::move(error)), nullptr;
    auto address = jit_->lookup(*library, kKernelName);
    if (!address) return llvm::consumeError(address.takeError()), nullptr;
    return address->toPtr<void*>();
  }

  std::mutex mutex_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  int loaded_ = 0;
};

}  // namespace
}  // namespace gluino::jit

extern "C" __attribute__((visibility("default"))) const gluino::kernels::Compiler* gluino_compiler_6() {
  using namespace gluino;
  static constexpr kernels::Compiler kCompiler{
      [](const kernels::LoopRequest& request) { return reinterpret_cast<kernels::LoopKernel>(jit::Engine::get().compile(request)); },
      [](const kernels::CombiningRequest& request) {
        return reinterpret_cast<kernels::CombiningKernel>(jit::Engine::get().compile(request));
      },
      [](const kernels::RowsRequest& request) { return reinterpret_cast<kernels::RowsKernel>(jit::Engine::get().compile(request)); }};
  return &kCompiler;
}
