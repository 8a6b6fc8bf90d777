#include "program/compiled_code.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "base/background.h"
#include "base/cache_folder.h"
#include "base/companion.h"
#include "base/env.h"
#include "kernels/isa/primitives.h"

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

// That of libgluino_jit, which lies beside this library; null when it, or the LLVM it needs, is not there.
const Compiler* load_compiler() {
  void* library = open_companion("libgluino_jit.so.0");
  if (!library) return nullptr;
  const auto get = reinterpret_cast<GetCompiler>(dlsym(library, kCompilerSymbol));
  return get ? get() : nullptr;
}

// One file per kernel, in the cache folder.
class KeptCode final : public CodeCache {
 public:
  explicit KeptCode(const std::string& folder) : files_(folder, ".o") {}
  std::optional<std::string> find(std::string_view identity) const override { return files_.find(identity); }
  void put(std::string_view identity, std::string_view object) const override { files_.put(identity, object); }

 private:
  const CacheFolder files_;
};

class CompileQueue {
 public:
  // Null when nothing can be compiled: switched off, no compiler, or a child made by fork, which has no such thread.
  static CompileQueue* get() {
    static auto* queue = new CompileQueue;  // leaked on purpose: the thread has been stopped when the process ends
    return queue->compiler_ && getpid() == queue->process_ ? queue : nullptr;
  }
  void push(std::function<void()> job) { background_.push(std::move(job)); }
  void* run(const CompiledCode::Make& make) {
    const std::lock_guard lock(compiling_);
    return make(*compiler_, {primitives().name, nullptr, folder_.empty() ? nullptr : &kept_});
  }

 private:
  CompileQueue() : process_(getpid()), folder_(cache_folder()), kept_(folder_) {
    if (mode() == Mode::off) return;
    // Loaded here, by the first user: registered after LLVM's own destructors, the function below runs before them.
    compiler_ = load_compiler();
    if (compiler_)
      std::atexit([] {
        if (CompileQueue* q = get()) q->background_.stop();
      });
  }

  const pid_t process_;
  const std::string folder_;
  const KeptCode kept_;
  const Compiler* compiler_ = nullptr;
  std::mutex compiling_;
  BackgroundQueue background_{std::chrono::milliseconds(0)};
};

}  // namespace

bool can_compile() { return CompileQueue::get() != nullptr; }

bool CompiledCode::is_due(int64_t instructions) {
  if (asked_.load(std::memory_order_relaxed)) return false;
  const int64_t work = work_.fetch_add(instructions, std::memory_order_relaxed) + instructions;
  return (work >= kWorthCompiling || mode() == Mode::wait) && !asked_.exchange(true);
}

void CompiledCode::compile(const Make& make) {
  CompileQueue* queue = CompileQueue::get();
  if (!queue) return failed_.store(true);
  const auto job = [this, queue, make] {
    void* code = queue->run(make);
    failed_.store(!code);
    code_.store(code, std::memory_order_release);
  };
  if (mode() == Mode::wait)
    job();
  else
    queue->push(job);
}

}  // namespace gluino::kernels
