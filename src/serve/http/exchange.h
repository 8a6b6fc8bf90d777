// One request and its answer, on the way through the server.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>

#include "serve/http/message.h"

namespace gluino::serve {

using Clock = std::chrono::steady_clock;

// How many bytes of bodies may be in memory at the same time.
class ByteBudget {
 public:
  explicit ByteBudget(int64_t most) : most_(most) {}
  bool reserve(int64_t bytes) {
    if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= most_) return true;
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  void add(int64_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }  // beyond the limit too
  void release(int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const int64_t most_;
  std::atomic<int64_t> used_{0};
};

class Connection;
class Loop;

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Loop& loop, Connection& connection, ByteBudget& budget) : connection_(&connection), loop_(loop), budget_(budget) {}
  ~Exchange() { budget_.release(reserved_); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  HttpRequest request;
  const Clock::time_point started = Clock::now();
  std::atomic<Clock::time_point> deadline{Clock::time_point::max()};

  // From any thread. Only the first answer counts.
  void reply(HttpResponse response);
  // Nobody waits for the answer any more: the client has gone, or its time has passed.
  bool is_answered() const { return is_answered_.load(std::memory_order_acquire); }
  bool reserve(int64_t bytes) {
    if (!budget_.reserve(bytes)) return false;
    reserved_ += bytes;
    return true;
  }

 private:
  friend class Connection;
  friend class Loop;
  // Answers that clients are slow to read count too: then new requests are refused.
  void keep_account_of_answer() {
    budget_.add(static_cast<int64_t>(response_.body.size()));
    reserved_ += static_cast<int64_t>(response_.body.size());
  }
  bool claim() { return !is_answered_.exchange(true, std::memory_order_acq_rel); }
  Connection* connection_;  // null when it has gone; the loop's thread alone reads and writes it
  Loop& loop_;
  ByteBudget& budget_;
  int64_t reserved_ = 0;
  std::atomic<bool> is_answered_{false};
  HttpResponse response_;
};
using ExchangePtr = std::shared_ptr<Exchange>;

// What answers requests. Its functions are called by the threads of the loops and must not take long.
class Handler {
 public:
  virtual ~Handler() = default;
  // When the head of a request has come: an answer, and the body is not read; or nothing.
  virtual std::optional<HttpResponse> refuse(const HttpRequest& request) = 0;
  // The request is complete: reply() now or later.
  virtual void handle(const ExchangePtr& exchange) = 0;
  // What has come at the same time has been handled.
  virtual void flush() = 0;
  virtual void count_response(int status, double seconds) = 0;
};

}  // namespace gluino::serve
