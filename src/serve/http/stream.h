// Bytes to and from a client: a socket, with or without TLS.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

namespace gluino::serve {

class Stream {
 public:
  enum class Status { done, again, closed };  // again: nothing more at the moment
  struct Result {
    Status status;
    size_t bytes = 0;
  };
  virtual ~Stream() = default;
  // `may_have_more`: a call after one that gave fewer bytes than asked for may give more without a new event.
  virtual Result read(char* to, size_t size) = 0;
  virtual Result write(const char* from, size_t size) = 0;
  virtual Result write_two(const std::string& first, const std::string& second, size_t offset);  // one after the other, from an offset on
  virtual bool may_have_more() const { return false; }
};
std::unique_ptr<Stream> plain_stream(int socket);

// A certificate and its key, for all connections.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  virtual std::unique_ptr<Stream> accept(int socket) = 0;
};
// Raises SystemError where the files are wrong, or where the server was built without OpenSSL.
std::unique_ptr<TlsContext> make_tls(const std::string& certificate_path, const std::string& key_path);

}  // namespace gluino::serve
