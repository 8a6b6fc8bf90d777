// Engine: one thread that does all collectives of this process, in the order in which they were asked for, each after all ranks have agreed
// that they are at the same one.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "distributed/shared_memory.h"
#include "distributed/transport.h"
#include "gluino/error.h"

namespace gluino::distributed {

class Engine {
 public:
  static Engine& get();  // the process's; joins the world
  static bool is_started();

  const Transport& transport() const { return transport_; }
  int rank() const { return transport_.rank; }
  int size() const { return transport_.size; }

  // A collective that was asked for. Copies are the same one.
  class Ticket {
   public:
    void wait() const;  // until it is done; raises what went wrong
    bool is_done() const;

   private:
    friend class Engine;
    struct State;
    std::shared_ptr<State> state_;
  };
  // `what` must be the same on all ranks: "all_reduce sum of float32 (3, 4)". `work` runs on the engine's thread.
  // `notes`: numbers of this rank; `work` finds the largest ones of all ranks in largest_notes().
  using Notes = std::array<uint64_t, 2>;
  Ticket submit(std::string what, std::function<void()> work, Notes notes = {});
  void run(std::string what, std::function<void()> work) { submit(std::move(what), std::move(work)).wait(); }

  const Notes& largest_notes() const { return largest_notes_; }
  // For `work`: until the request is over; raises when other ranks do not come in time.
  void complete(Request request);

  // For `work` of ranks that see each other's memory; else null.
  SharedMemory* shared() const { return shared_.get(); }
  uint32_t mark() { return shared_->step(); }  // this rank has done the next part of the work
  void await(uint32_t mark);                   // until all have; raises when they do not come in time
  void meet() { await(mark()); }

  // For `work`: waits until so many bytes would have left since `begin` on the network that GLUINO_DISTRIBUTED_GBIT tells to emulate.
  void pace(std::chrono::steady_clock::time_point begin, int64_t bytes) const;

  void set_timeout(double seconds);
  double timeout() const { return timeout_.load(); }
  void finish();
  [[noreturn]] void abort(int code);

 private:
  Engine();
  void serve();
  void agree(const std::string& what, const Notes& notes);
  [[noreturn]] void raise_mismatch();
  [[noreturn]] void raise_timeout();
  bool may_look_again(int polls) const;
  void pause(int polls);
  void keep_limits();
  void set_deadline();
  void answer_questions();
  void write_status(const char* verb);
  void leave_at_exit();

  std::atomic<double> timeout_;
  const Transport& transport_;
  const double emulated_gbit_;  // 0: the network is what it is
  std::unique_ptr<SharedMemory> shared_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Ticket> waiting_;
  bool finished_ = false;
  std::string broken_;           // why nothing can be sent any more
  std::atomic<int> callers_{0};  // threads in wait()
  // Of the engine's thread:
  Notes largest_notes_{};
  uint64_t number_ = 0;  // of the collective at work
  std::string what_, status_;
  std::chrono::steady_clock::time_point deadline_, last_served_;
};

}  // namespace gluino::distributed
