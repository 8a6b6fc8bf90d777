// What runs of a user's operators have given and keep. Nobody knows what such an operator does, numbers of its own for example: a call
// that is made again to be gone back through takes that instead of running them again.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace gluino {

class RunLog {
 public:
  // While one lives, this thread's runs are logged, or taken from the log in the same order.
  class [[nodiscard]] Scope {
   public:
    enum class Use : unsigned char { write, read };
    Scope(RunLog& log, Use use);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class RunLog;
    RunLog& log_;
    Use use_;
    size_t next_ = 0;
    Scope* outer_;
  };

  // What a user's code runs inside of an operator is no run of the call's.
  class [[nodiscard]] Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Scope* paused_;
  };

  static void add(std::shared_ptr<void> run);  // to the log that is written, if one is
  static std::shared_ptr<void> next();         // of the log that is read, or null

 private:
  std::vector<std::shared_ptr<void>> runs_;
};

}  // namespace gluino
