#include "serve/http/connection.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/http/front.h"

namespace gluino::serve {
namespace {

constexpr size_t kReadAtOnce = 65536;
constexpr size_t kShare = 1 << 20;  // bytes after which other connections have their turn
// A refused body up to this size is read to its end, so that the connection can go on; of a larger one, or when the connection closes
// anyway, only for a while, so that the client finds the answer before it finds the connection closed.
constexpr uint64_t kRefusedBodyRead = 1 << 20;
constexpr auto kLinger = std::chrono::seconds(2);

}  // namespace

Connection::Connection(Loop& loop, int socket, std::unique_ptr<Stream> stream)
    : loop_(loop), socket_(socket), stream_(std::move(stream)), since_(Clock::now()) {}
Connection::~Connection() {
  close();
  stream_.reset();  // says goodbye on the socket
  ::close(socket_);
}

void Connection::close() {
  if (exchange_) {
    exchange_->claim();  // no answer is wanted any more
    exchange_->connection_ = nullptr;
    exchange_.reset();
  }
  state_ = State::closed;
}

void Connection::on_event(bool has_gone, bool sends_no_more) {
  if (has_gone) return close();
  sends_no_more_ = sends_no_more_ || sends_no_more;
  is_readable_ = true;
  is_paused_ = false;
  taken_ = 0;
  if (state_ == State::writing) write_answer();
  advance();
}

bool Connection::read_more() {
  if (!is_readable_) return false;
  if (taken_ >= kShare) {
    is_paused_ = true;
    return false;
  }
  if (at_ == in_.size()) {
    in_.clear();
    at_ = 0;
  } else if (at_ > kReadAtOnce) {
    in_.erase(0, at_);
    at_ = 0;
  }
  static thread_local std::string buffer(kReadAtOnce, '\0');
  const Stream::Result result = stream_->read(buffer.data(), buffer.size());
  if (result.status == Stream::Status::closed) {
    is_readable_ = false;
    if (state_ != State::head && state_ != State::body) {
      close();
      return false;
    }
    if (!exchange_) exchange_ = std::make_shared<Exchange>(loop_, *this, loop_.front().budget);
    refuse(error_response(400, "the request ends before it is complete"), false);
    return true;
  }
  in_.append(buffer, 0, result.bytes);
  taken_ += result.bytes;
  // Events come when something changes: fewer bytes than there was room for means that there are no more.
  if (result.status == Stream::Status::again || (result.bytes < buffer.size() && !stream_->may_have_more() && !sends_no_more_))
    is_readable_ = false;
  return result.bytes > 0;
}

void Connection::advance() {
  bool goes_on = true;
  while (goes_on) {
    switch (state_) {
      case State::idle:
      case State::head: goes_on = take_head() || read_more(); break;
      case State::body: goes_on = take_body() || read_more(); break;
      case State::refusing: goes_on = take_refused_body() || read_more(); break;
      case State::lingering:
        at_ = in_.size();
        goes_on = read_more();
        break;
      case State::waiting:
      case State::writing:
      case State::closed: goes_on = false;
    }
  }
}

bool Connection::take_head() {
  while (state_ == State::idle && unread().starts_with("\r\n")) at_ += 2;  // some clients end a body with an empty line
  if (unread().empty()) return false;
  if (state_ == State::idle) {
    state_ = State::head;
    since_ = Clock::now();
  }
  const size_t end = unread().find("\r\n\r\n");
  const size_t size = end == std::string_view::npos ? unread().size() : end + 4;
  exchange_ = std::make_shared<Exchange>(loop_, *this, loop_.front().budget);
  if (size > kMaxHead) {
    refuse(error_response(431, fmt::format("the request's head has more than {} bytes", kMaxHead)), false);
    return true;
  }
  if (end == std::string_view::npos) {
    exchange_.reset();
    return false;
  }
  HttpRequest& request = exchange_->request;
  request.head = unread().substr(0, size);
  at_ += size;
  try {
    parse_head(request);
  } catch (const HttpError& e) {
    refuse(error_response(e.status(), e.what()), false);
    return true;
  }
  start_body();
  return true;
}

// The head is there: the body is read, or refused before it comes.
void Connection::start_body() {
  const HttpRequest& request = exchange_->request;
  const FrontOptions& options = loop_.front().options;
  const uint64_t size = request.content_length.value_or(0);
  if (const auto refusal = loop_.front().handler.refuse(request)) return refuse(*refusal, true);
  if (size > options.max_body)
    return refuse(error_response(413, fmt::format("the body has {} bytes, at most {} are taken (--max-body)", size, options.max_body)),
                  true);
  if (!exchange_->reserve(static_cast<int64_t>(size)))
    return refuse(error_response(429, "requests that wait hold all the memory that they may (--max-queue-mb); try again later"), true);
  exchange_->request.body.reserve(size);
  if (request.is_chunked) chunks_.emplace();
  state_ = State::body;
  if (request.wants_continue && unread().empty() && (size > 0 || chunks_)) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    stream_->write(kContinue.data(), kContinue.size());
  }
}

bool Connection::take_body() {
  HttpRequest& request = exchange_->request;
  if (!chunks_) {
    const size_t missing = request.content_length.value_or(0) - request.body.size(), part = std::min(missing, unread().size());
    request.body.append(unread().substr(0, part));
    at_ += part;
    if (part < missing) return false;
    dispatch();
    return true;
  }
  const size_t before = request.body.size();
  try {
    at_ += chunks_->feed(unread(), request.body, loop_.front().options.max_body);
  } catch (const HttpError& e) {
    refuse(error_response(e.status(), e.what()), false);
    return true;
  }
  if (!exchange_->reserve(static_cast<int64_t>(request.body.size() - before))) {
    refuse(error_response(429, "requests that wait hold all the memory that they may (--max-queue-mb); try again later"), false);
    return true;
  }
  if (!chunks_->is_done()) return false;
  chunks_.reset();
  dispatch();
  return true;
}

void Connection::dispatch() {
  state_ = State::waiting;
  exchange_->deadline = Clock::now() + loop_.front().options.request_limit;
  loop_.front().handler.handle(exchange_);
}

void Connection::refuse(const HttpResponse& response, bool read_rest) {
  exchange_->claim();
  chunks_.reset();
  answer_ = response;
  const HttpRequest& request = exchange_->request;
  const uint64_t size = request.content_length.value_or(0);
  // Who waits for "100 Continue" may send the body or not; then it cannot be told apart from the next request.
  closes_after_answer_ =
      !read_rest || !request.keep_alive || request.is_chunked || size > kRefusedBodyRead || (request.wants_continue && size > 0);
  refused_left_ = closes_after_answer_ ? 0 : size;
  state_ = State::refusing;
}

bool Connection::take_refused_body() {
  const size_t part = std::min<uint64_t>(refused_left_, unread().size());
  at_ += part;
  refused_left_ -= part;
  if (refused_left_ > 0) return false;
  state_ = State::writing;
  answer_head_ = answer_.head(!closes_after_answer_);
  written_ = 0;
  loop_.front().handler.count_response(answer_.status, std::chrono::duration<double>(Clock::now() - exchange_->started).count());
  write_answer();
  return state_ != State::writing;
}

void Connection::on_answer(Exchange& exchange) {
  taken_ = 0;
  answer_ = std::move(exchange.response_);
  closes_after_answer_ = !exchange.request.keep_alive || is_draining_;
  answer_head_ = answer_.head(!closes_after_answer_);
  if (exchange.request.method == "HEAD") answer_.body.clear();
  written_ = 0;
  state_ = State::writing;
  since_ = Clock::now();
  loop_.front().handler.count_response(answer_.status, std::chrono::duration<double>(since_ - exchange.started).count());
  write_answer();
  advance();
}

void Connection::write_answer() {
  const size_t size = answer_head_.size() + answer_.body.size();
  while (written_ < size) {
    const Stream::Result result = stream_->write_two(answer_head_, answer_.body, written_);
    if (result.status == Stream::Status::closed) return close();
    if (result.status == Stream::Status::again) return;
    written_ += result.bytes;
    since_ = Clock::now();
  }
  finish_answer();
}

void Connection::finish_answer() {
  answer_ = {};
  exchange_->connection_ = nullptr;
  exchange_.reset();
  since_ = Clock::now();
  state_ = closes_after_answer_ ? State::lingering : State::idle;
  if (closes_after_answer_) {
    if (stream_->may_have_more()) return close();  // TLS ends with a message of its own
    shutdown(socket_, SHUT_WR);
  }
}

void Connection::on_tick(Clock::time_point now) {
  const FrontOptions& options = loop_.front().options;
  switch (state_) {
    case State::idle:
      if (now - since_ > (is_draining_ ? options.drain_grace : options.idle_limit)) close();
      break;
    case State::head:
    case State::body:
      if (now - since_ <= options.read_limit) break;
      if (!exchange_) exchange_ = std::make_shared<Exchange>(loop_, *this, loop_.front().budget);
      refuse(error_response(408, "the request did not come in time (--read-timeout)"), false);
      advance();
      break;
    case State::refusing:
    case State::writing:
      if (now - since_ > options.read_limit) close();
      break;
    case State::waiting:
      if (now > exchange_->deadline.load() && exchange_->claim()) {
        exchange_->response_ = error_response(504, "the answer was not there in time (--timeout, or the request's own timeout)");
        on_answer(*exchange_);
      }
      break;
    case State::lingering:
      if (now - since_ > kLinger) close();
      break;
    case State::closed: break;
  }
}

void Connection::start_drain(Clock::time_point now) {
  is_draining_ = true;
  if (state_ == State::idle) since_ = now;
}

}  // namespace gluino::serve
