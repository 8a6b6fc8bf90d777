#include "kernels/compiled_loops.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/background.h"
#include "base/cache_folder.h"
#include "base/env.h"
#include "base/format.h"
#include "kernels/primitives.h"
#include "kernels/program_text.h"

namespace gluino::kernels {
namespace {

// Below this much interpreted work (a few milliseconds) compiling, which takes ten times as long, would not pay.
constexpr int64_t kWorthCompiling = 4 << 20;

enum class Mode { off, background, wait };
Mode mode() {
  static const Mode chosen = [] {
    const std::string text = env_text("GLUINO_JIT").value_or("");
    return text == "off" ? Mode::off : text == "wait" ? Mode::wait : Mode::background;
  }();
  return chosen;
}

// The function of libgluino_jit, which lies beside this library; null when it, or the LLVM it needs, is not there.
CompileLoop load_compiler() {
  Dl_info here;
  if (!dladdr(reinterpret_cast<void*>(&load_compiler), &here)) return nullptr;
  const auto beside = std::filesystem::path(here.dli_fname).parent_path() / "libgluino_jit.so.0";
  void* library = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  return reinterpret_cast<CompileLoop>(dlsym(library, kCompileLoopSymbol));
}

}  // namespace

class CompileQueue {
 public:
  // Null when nothing can be compiled: switched off, no compiler, or a child made by fork, which has no such thread.
  static CompileQueue* get() {
    static auto* queue = new CompileQueue;  // leaked on purpose: the thread has been stopped when the process ends
    return queue->compile_ && getpid() == queue->process_ ? queue : nullptr;
  }
  void push(const std::shared_ptr<CompiledLoops>& loops, uint32_t repeated) {
    background_.push([=, this] { compile(*loops, repeated); });
  }
  void compile(CompiledLoops& loops, uint32_t repeated) {
    const std::lock_guard lock(compiling_);
    const Program& p = loops.program();
    const std::string identity = fmt::format("{} repeated {}", program_text(p), repeated);
    std::array<int, Program::kMaxResults> results;
    for (int i = 0; i < p.num_results(); ++i) results[static_cast<size_t>(i)] = p.result(i);
    const LoopRequest request{.code = &p[0],
                              .size = p.size(),
                              .results = results.data(),
                              .num_results = p.num_results(),
                              .type = p.type(),
                              .repeated = repeated,
                              .isa = primitives().name,
                              .identity = identity.c_str(),
                              .folder = folder_.empty() ? nullptr : folder_.c_str()};
    loops.variants_[repeated].kernel.store(compile_(request), std::memory_order_release);
  }

 private:
  CompileQueue() : process_(getpid()), folder_(cache_folder()) {
    if (mode() == Mode::off) return;
    // Loaded here, by the first user: registered after LLVM's own destructors, the function below runs before them.
    compile_ = load_compiler();
    if (compile_)
      std::atexit([] {
        if (CompileQueue* q = get()) q->background_.stop();
      });
  }

  const pid_t process_;
  const std::string folder_;
  CompileLoop compile_ = nullptr;
  std::mutex compiling_;
  BackgroundQueue background_{std::chrono::milliseconds(0)};
};

std::shared_ptr<CompiledLoops> CompiledLoops::of(const Program& program) {
  static std::mutex mutex;
  static auto* all = new std::map<std::string, std::weak_ptr<CompiledLoops>>;
  const std::string text = program_text(program);
  const std::lock_guard lock(mutex);
  if (auto found = (*all)[text].lock()) return found;
  std::erase_if(*all, [](const auto& entry) { return entry.second.expired(); });
  auto made = std::make_shared<CompiledLoops>(program);
  (*all)[text] = made;
  return made;
}

bool CompiledLoops::can_compile() { return CompileQueue::get() != nullptr; }

LoopKernel CompiledLoops::find(uint32_t repeated, int64_t elements) {
  if (repeated >= variants_.size()) return nullptr;
  Variant& variant = variants_[repeated];
  if (const LoopKernel kernel = variant.kernel.load(std::memory_order_acquire)) return kernel;
  if (variant.asked.load(std::memory_order_relaxed)) return nullptr;
  const int64_t work = variant.work.fetch_add(elements * program_.size(), std::memory_order_relaxed) + elements * program_.size();
  if ((work < kWorthCompiling && mode() != Mode::wait) || variant.asked.exchange(true)) return nullptr;
  CompileQueue* queue = CompileQueue::get();
  if (!queue) return nullptr;
  if (mode() == Mode::wait)
    queue->compile(*this, repeated);
  else
    queue->push(shared_from_this(), repeated);
  return variant.kernel.load(std::memory_order_acquire);
}

}  // namespace gluino::kernels
