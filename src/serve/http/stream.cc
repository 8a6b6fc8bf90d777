#include "serve/http/stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>

namespace gluino::serve {
namespace {

class PlainStream final : public Stream {
 public:
  explicit PlainStream(int socket) : socket_(socket) {}
  Result read(char* to, size_t size) override {
    const ssize_t n = recv(socket_, to, size, 0);
    return n > 0 ? Result{Status::done, static_cast<size_t>(n)} : failed(n);
  }
  Result write(const char* from, size_t size) override {
    const ssize_t n = send(socket_, from, size, MSG_NOSIGNAL);
    return n >= 0 ? Result{Status::done, static_cast<size_t>(n)} : failed(n);
  }
  Result write_two(const std::string& first, const std::string& second, size_t offset) override {
    if (offset >= first.size()) return write(second.data() + (offset - first.size()), second.size() - (offset - first.size()));
    iovec parts[2] = {{const_cast<char*>(first.data()) + offset, first.size() - offset}, {const_cast<char*>(second.data()), second.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t n = sendmsg(socket_, &message, MSG_NOSIGNAL);
    return n >= 0 ? Result{Status::done, static_cast<size_t>(n)} : failed(n);
  }

 private:
  static Result failed(ssize_t n) {
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? Result{Status::again} : Result{Status::closed};
  }
  const int socket_;
};

}  // namespace

Stream::Result Stream::write_two(const std::string& first, const std::string& second, size_t offset) {
  const std::string& part = offset < first.size() ? first : second;
  const size_t at = offset < first.size() ? offset : offset - first.size();
  return write(part.data() + at, part.size() - at);
}

std::unique_ptr<Stream> plain_stream(int socket) { return std::make_unique<PlainStream>(socket); }

}  // namespace gluino::serve
