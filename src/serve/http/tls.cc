// TLS by OpenSSL. Without it at build time the option is refused.
#include "base/format.h"
#include "serve/http/stream.h"

#ifdef GLUINO_WITH_OPENSSL
#include <openssl/err.h>
#include <openssl/ssl.h>

namespace gluino::serve {
namespace {

std::string last_error() {
  char text[256];
  const unsigned long code = ERR_get_error();
  ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return code ? text : "no reason is given";
}

class TlsStream final : public Stream {
 public:
  TlsStream(SSL_CTX* context, int socket) : ssl_(SSL_new(context), SSL_free) {
    if (!ssl_ || SSL_set_fd(ssl_.get(), socket) != 1) raise<SystemError>("a TLS connection cannot be made: {}", last_error());
    SSL_set_accept_state(ssl_.get());
  }
  ~TlsStream() override {
    if (!is_broken_ && SSL_is_init_finished(ssl_.get())) SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }
  Result read(char* to, size_t size) override {
    size_t n = 0;
    ERR_clear_error();
    const int ok = SSL_read_ex(ssl_.get(), to, size, &n);
    return result(ok, n);
  }
  Result write(const char* from, size_t size) override {
    if (size == 0) return {Status::done, 0};
    size_t n = 0;
    ERR_clear_error();
    const int ok = SSL_write_ex(ssl_.get(), from, size, &n);
    return result(ok, n);
  }
  bool may_have_more() const override { return true; }

 private:
  Result result(int ok, size_t n) {
    if (ok == 1) return {Status::done, n};
    const int why = SSL_get_error(ssl_.get(), ok);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return {Status::again};
    is_broken_ = why != SSL_ERROR_ZERO_RETURN;
    ERR_clear_error();
    return {Status::closed};
  }
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  bool is_broken_ = false;
};

class OpenSslContext final : public TlsContext {
 public:
  OpenSslContext(const std::string& certificate_path, const std::string& key_path)
      : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free) {
    if (!context_) raise<SystemError>("TLS cannot be set up: {}", last_error());
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    SSL_CTX_set_options(context_.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    // A response that did not fit is written on from another place of the same bytes.
    SSL_CTX_set_mode(context_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    if (SSL_CTX_use_certificate_chain_file(context_.get(), certificate_path.c_str()) != 1)
      raise<SystemError>("'{}' holds no certificate in PEM form: {}", certificate_path, last_error());
    if (SSL_CTX_use_PrivateKey_file(context_.get(), key_path.c_str(), SSL_FILETYPE_PEM) != 1)
      raise<SystemError>("'{}' holds no private key in PEM form that fits the certificate: {}", key_path, last_error());
  }
  std::unique_ptr<Stream> accept(int socket) override { return std::make_unique<TlsStream>(context_.get(), socket); }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
};

}  // namespace

std::unique_ptr<TlsContext> make_tls(const std::string& certificate_path, const std::string& key_path) {
  return std::make_unique<OpenSslContext>(certificate_path, key_path);
}

}  // namespace gluino::serve

#else

namespace gluino::serve {
std::unique_ptr<TlsContext> make_tls(const std::string& certificate_path, const std::string&) {
  raise<SystemError>("'{}' cannot be used: this server was built without OpenSSL; install libssl-dev (tools/setup.sh does) and build again",
                     certificate_path);
}
}  // namespace gluino::serve

#endif
