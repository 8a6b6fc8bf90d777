#include "serve/http/front.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "base/format.h"

namespace gluino::serve {
namespace {

constexpr auto kTick = std::chrono::milliseconds(10), kIdleTick = std::chrono::milliseconds(200);
constexpr int kEventsAtOnce = 256;

}  // namespace

// ---- Exchange

void Exchange::reply(HttpResponse response) {
  if (!claim()) return;
  response_ = std::move(response);
  keep_account_of_answer();
  loop_.post(shared_from_this());
}

// ---- Loop

Loop::Loop(FrontState& front, std::vector<Listener>& listeners)
    : front_(front), listeners_(listeners), epoll_(epoll_create1(EPOLL_CLOEXEC)), event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (epoll_ < 0 || event_ < 0) raise<SystemError>("no more files can be opened for the server: {}", std::strerror(errno));
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &event_}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &event);
  for (const Listener& l : listeners_) {
    event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data = {.ptr = const_cast<Listener*>(&l)}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, l.socket(), &event);
  }
}
Loop::~Loop() {
  connections_.clear();
  ::close(epoll_);
  ::close(event_);
}

void Loop::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(event_, &one, sizeof one);
}
void Loop::start_drain() {
  wants_drain_ = true;
  wake();
}
void Loop::stop() {
  wants_stop_ = true;
  wake();
}
void Loop::post(ExchangePtr exchange) {
  bool must_wake = false;
  {
    const std::lock_guard lock(mutex_);
    answered_.push_back(std::move(exchange));
    must_wake = !std::exchange(is_woken_, true);
  }
  if (must_wake) wake();
}

void Loop::take_answers() {
  std::vector<ExchangePtr> answered;
  {
    const std::lock_guard lock(mutex_);
    answered.swap(answered_);
    is_woken_ = false;
  }
  for (const ExchangePtr& exchange : answered)
    if (Connection* c = exchange->connection_) {
      c->on_answer(*exchange);
      if (c->has_more()) unfinished_.push_back(c);
      remove_if_closed(c);
    }
}

void Loop::accept_some(const Listener& listener, int most) {
  for (int i = 0; i < most; ++i) {
    const int socket = accept4(listener.socket(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && (errno == ECONNABORTED || errno == EINTR)) continue;
    if (socket < 0) {
      // Out of files: the connection stays in the kernel's queue. Without a pause the loop would ask again at once, and again.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    if (!listener.is_unix()) {
      const int on = 1;
      setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    if (front_.connections.fetch_add(1) >= front_.options.max_connections) {
      front_.connections.fetch_sub(1);
      static const std::string kRefusal = [] {
        const HttpResponse response = error_response(503, "there are too many connections (--max-connections); try again later");
        return response.head(false) + response.body;
      }();
      send(socket, kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      ::close(socket);
      front_.handler.count_response(503, 0);
      continue;
    }
    add(socket, front_.tls && !listener.is_unix());
  }
}

void Loop::add(int socket, bool with_tls) {
  std::unique_ptr<Stream> stream;
  try {
    stream = with_tls ? front_.tls->accept(socket) : plain_stream(socket);
  } catch (const SystemError&) {
    ::close(socket);
    front_.connections.fetch_sub(1);
    return;
  }
  auto connection = std::make_unique<Connection>(*this, socket, std::move(stream));
  Connection* c = connection.get();
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = c}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
  connections_.emplace(c, std::move(connection));
  if (is_draining_) c->start_drain(Clock::now());
}
void Loop::remove_if_closed(Connection* c) {
  if (!c->is_closed()) return;
  connections_.erase(c);
  front_.connections.fetch_sub(1);
}

void Loop::on_event(Connection* c, uint32_t events) {
  try {
    c->on_event(events & (EPOLLERR | EPOLLHUP), events & EPOLLRDHUP);
  } catch (const std::bad_alloc&) {
    c->close();  // one client less, and not all of them
  }
  if (c->has_more()) unfinished_.push_back(c);
  remove_if_closed(c);
}

void Loop::tick(Clock::time_point now) {
  last_tick_ = now;
  is_busy_ = false;
  std::vector<Connection*> all;
  all.reserve(connections_.size());
  for (const auto& [c, owned] : connections_) all.push_back(c);
  for (Connection* c : all) {
    c->on_tick(now);
    is_busy_ = is_busy_ || !c->is_idle();
    remove_if_closed(c);
  }
}

void Loop::drain_now() {
  is_draining_ = true;
  for (const Listener& l : listeners_) {
    accept_some(l, std::numeric_limits<int>::max());  // what the kernel has accepted for us
    epoll_ctl(epoll_, EPOLL_CTL_DEL, l.socket(), nullptr);
  }
  if (front_.listening_loops.fetch_sub(1) == 1)
    for (Listener& l : listeners_) l.close();
  for (const auto& [c, owned] : connections_) c->start_drain(Clock::now());
}

int Loop::wait_milliseconds() const {
  if (connections_.empty()) return -1;
  if (!unfinished_.empty()) return 0;
  return static_cast<int>((is_busy_ || is_draining_ ? kTick : kIdleTick).count());
}

void Loop::run() {
  epoll_event events[kEventsAtOnce];
  while (!wants_stop_ && !(is_draining_ && connections_.empty())) {
    const int count = epoll_wait(epoll_, events, kEventsAtOnce, wait_milliseconds());
    is_busy_ = is_busy_ || count > 0;
    bool has_answers = false;
    for (int i = 0; i < count; ++i) {
      void* const what = events[i].data.ptr;
      const auto listener = std::find_if(listeners_.begin(), listeners_.end(), [&](const Listener& l) { return &l == what; });
      if (what == &event_) {
        uint64_t ignored;
        [[maybe_unused]] const ssize_t n = ::read(event_, &ignored, sizeof ignored);
        has_answers = true;
      } else if (listener != listeners_.end()) {
        accept_some(*listener, front_.options.loops == 1 ? kEventsAtOnce : 1);  // other loops want some too
      } else {
        on_event(static_cast<Connection*>(what), events[i].events);
      }
    }
    for (Connection* c : std::exchange(unfinished_, {}))
      if (connections_.contains(c)) on_event(c, 0);
    if (has_answers) take_answers();
    front_.handler.flush();
    if (wants_drain_ && !is_draining_) drain_now();
    if (const auto now = Clock::now(); now - last_tick_ >= kTick) tick(now);
  }
}

// ---- Front

Front::~Front() {
  stop();
  join();
}
void Front::start() {
  state_.listening_loops = state_.options.loops;
  for (int i = 0; i < state_.options.loops; ++i) loops_.push_back(std::make_unique<Loop>(state_, listeners_));
  running_ = static_cast<int>(loops_.size());
  for (const auto& loop : loops_)
    threads_.emplace_back([this, &loop = *loop] {
      loop.run();
      --running_;
    });
}
void Front::drain() {
  for (const auto& loop : loops_) loop->start_drain();
}
void Front::stop() {
  for (const auto& loop : loops_) loop->stop();
}
void Front::join() {
  for (std::thread& t : threads_)
    if (t.joinable()) t.join();
}

}  // namespace gluino::serve
