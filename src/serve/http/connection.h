// One client: reads a request, waits for its answer, writes it, and goes on. All of it happens in its loop's thread.
#pragma once
#include "serve/http/exchange.h"
#include "serve/http/parser.h"
#include "serve/http/stream.h"

namespace gluino::serve {

struct FrontOptions {
  uint64_t max_body = 64 << 20;
  int64_t max_buffered = int64_t{256} << 20;  // bytes of all bodies together
  int max_connections = 1024;
  int loops = 1;
  Clock::duration read_limit = std::chrono::seconds(30);         // from the first byte of a request to its last, and of an answer
  Clock::duration idle_limit = std::chrono::seconds(75);         // between two requests
  Clock::duration request_limit = std::chrono::seconds(30);      // from its last byte to the answer
  Clock::duration drain_grace = std::chrono::milliseconds(500);  // how long a client may still send on a connection when the server ends
};

class Connection {
 public:
  Connection(Loop& loop, int socket, std::unique_ptr<Stream> stream);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Bytes have come, or there is room for more. `sends_no_more`: the client has closed its side, but may still wait for answers.
  void on_event(bool has_gone, bool sends_no_more);
  void on_answer(Exchange& exchange);   // its response_ is there
  void on_tick(Clock::time_point now);  // limits of time
  void start_drain(Clock::time_point now);
  void close();
  bool is_closed() const { return state_ == State::closed; }
  bool has_more() const { return is_paused_; }  // it has had its share of the thread's time, and wants on_event() once more
  bool is_idle() const { return state_ == State::idle; }

 private:
  enum class State {
    idle,       // between requests
    head,       // the first bytes of a request have come
    body,       // its head has come
    waiting,    // for the answer
    writing,    // the answer
    refusing,   // the rest of a body that was refused is read, and forgotten, and then the answer written
    lingering,  // the answer was the last one: what still comes is forgotten until the client closes, so that it reads the answer
    closed,
  };
  void advance();    // as far as the bytes that are there lead
  bool read_more();  // false: nothing more at the moment
  bool take_head();
  bool take_body();
  bool take_refused_body();
  void start_body();
  void dispatch();
  void refuse(const HttpResponse& response, bool read_rest);
  void write_answer();
  void finish_answer();
  std::string_view unread() const { return std::string_view(in_).substr(at_); }

  Loop& loop_;
  const int socket_;
  std::unique_ptr<Stream> stream_;
  State state_ = State::idle;
  bool is_readable_ = true, sends_no_more_ = false, is_draining_ = false, is_paused_ = false;
  size_t taken_ = 0;  // bytes of this turn
  std::string in_;    // what has come and is not yet understood starts at at_
  size_t at_ = 0;
  ExchangePtr exchange_;
  std::optional<ChunkDecoder> chunks_;
  uint64_t refused_left_ = 0;
  HttpResponse answer_;
  std::string answer_head_;
  size_t written_ = 0;
  bool closes_after_answer_ = false;
  Clock::time_point since_;  // when the state began that time limits are for
};

}  // namespace gluino::serve
