// Machine code that is made when it has proved worth it. What would run it counts the work it does without; once that is enough, src/jit,
// which is loaded on demand, compiles it in the background. Until the code is ready, and where there is no compiler, work is done without:
// both give the same bits. GLUINO_JIT: "off", "wait" (compile at once, for tests), or anything else for the rule above.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/fork.h"
#include "program/loop_compiler.h"

namespace gluino::kernels {

bool can_compile();  // whether there is a compiler, and it is not switched off

class CompiledCode {
 public:
  // The address of a function; the target holds everything but the identity.
  using Make = std::function<void*(const Compiler&, CompileTarget)>;

  void* get() const { return code_.load(std::memory_order_acquire); }
  // Counts `instructions` that are run now on single elements. True, once, when they are enough to compile.
  bool is_due(int64_t instructions);
  // Now or later, on another thread: `make` keeps the owner of this object alive.
  void compile(const Make& make);
  bool has_failed() const { return failed_.load(std::memory_order_relaxed); }  // there will never be any

 private:
  std::atomic<void*> code_{nullptr};
  std::atomic<int64_t> work_{0};
  std::atomic<bool> asked_{false}, failed_{false};
};

// One object per text, shared by all that use it now.
template <class T>
class SharedByText {
 public:
  template <class Make>
  std::shared_ptr<T> get(const std::string& text, Make&& make) {
    const std::lock_guard lock(mutex_);
    if (auto found = all_[text].lock()) return found;
    std::erase_if(all_, [](const auto& entry) { return entry.second.expired(); });
    std::shared_ptr<T> made = make();
    all_[text] = made;
    return made;
  }

 private:
  NoForkMutex mutex_;
  std::map<std::string, std::weak_ptr<T>> all_;
};

}  // namespace gluino::kernels
