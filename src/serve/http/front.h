// The server's side of the network: listening sockets, and loops that wait for events of all their connections (epoll).
#pragma once
#include <mutex>
#include <thread>
#include <unordered_map>

#include "serve/http/connection.h"

namespace gluino::serve {

// Shared by all loops.
struct FrontState {
  FrontState(const FrontOptions& o, Handler& h) : options(o), handler(h), budget(o.max_buffered) {}
  const FrontOptions options;
  Handler& handler;
  ByteBudget budget;
  std::unique_ptr<TlsContext> tls;
  std::atomic<int> connections{0}, listening_loops{0};
};

class Listener {
 public:
  static Listener on_port(const std::string& host, int port);  // port 0: one that is free. Both raise SystemError
  static Listener on_path(const std::string& unix_path);
  Listener(Listener&& other) noexcept;
  ~Listener();
  void close();
  int socket() const { return socket_; }
  bool is_unix() const { return !path_.empty(); }
  int port() const { return port_; }

 private:
  Listener(int socket, int port, std::string path) : socket_(socket), port_(port), path_(std::move(path)) {}
  int socket_, port_;
  std::string path_;
};

class Loop {
 public:
  Loop(FrontState& front, std::vector<Listener>& listeners);
  ~Loop();
  void run();          // returns when it was told to drain and the last connection has closed
  void start_drain();  // from any thread
  void stop();         // from any thread: connections are closed at once
  void post(ExchangePtr exchange);
  FrontState& front() { return front_; }

 private:
  void wake();
  void accept_some(const Listener& listener, int most);
  void on_event(Connection* c, uint32_t events);
  void add(int socket, bool with_tls);
  void remove_if_closed(Connection* c);
  void take_answers();
  void tick(Clock::time_point now);
  void drain_now();
  int wait_milliseconds() const;

  FrontState& front_;
  std::vector<Listener>& listeners_;
  int epoll_, event_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> unfinished_;  // that have more to read
  Clock::time_point last_tick_ = Clock::now();
  bool is_draining_ = false, is_busy_ = false;
  std::atomic<bool> wants_drain_{false}, wants_stop_{false};
  std::mutex mutex_;  // guards what follows
  std::vector<ExchangePtr> answered_;
  bool is_woken_ = false;
};

class Front {
 public:
  Front(FrontOptions options, Handler& handler) : state_(options, handler) {}
  ~Front();
  void use_tls(std::unique_ptr<TlsContext> tls) { state_.tls = std::move(tls); }
  void listen(Listener listener) { listeners_.push_back(std::move(listener)); }
  void start();
  void drain();  // no new connections; answers what has come, then the loops end
  void stop();   // ends them at once
  void join();
  bool is_done() const { return running_ == 0; }
  const FrontState& state() const { return state_; }

 private:
  FrontState state_;
  std::vector<Listener> listeners_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::vector<std::thread> threads_;
  std::atomic<int> running_{0};
};

}  // namespace gluino::serve
