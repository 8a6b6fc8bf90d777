#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/format.h"
#include "serve/http/front.h"

namespace gluino::serve {
namespace {

constexpr int kBacklog = 1024;

int bound_socket(const addrinfo& address) {
  const int s = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (s < 0) return -1;
  const int on = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(s, address.ai_addr, address.ai_addrlen) == 0 && listen(s, kBacklog) == 0) return s;
  const int why = errno;
  close(s);
  errno = why;
  return -1;
}

int port_of(int s) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(s, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

// Whether the path is a socket that nobody listens on any more: what a server that was killed leaves behind.
bool is_stale(const sockaddr_un& address) {
  struct stat info {};
  if (stat(address.sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
  const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool refused = connect(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno == ECONNREFUSED;
  close(s);
  return refused;
}

}  // namespace

Listener Listener::on_port(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    raise<SystemError>("--host {}: {}", host, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  const int s = bound_socket(*addresses);
  if (s < 0) raise<SystemError>("cannot listen on {} port {}: {}", host, port, std::strerror(errno));
  return {s, port_of(s), ""};
}

Listener Listener::on_path(const std::string& unix_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (unix_path.size() >= sizeof address.sun_path)
    raise<SystemError>("--unix-socket {}: the path has {} bytes, a socket's name at most {}", unix_path, unix_path.size(),
                       sizeof address.sun_path - 1);
  std::copy(unix_path.begin(), unix_path.end(), address.sun_path);
  if (is_stale(address)) unlink(unix_path.c_str());
  addrinfo as_info{};
  as_info.ai_family = AF_UNIX;
  as_info.ai_addr = reinterpret_cast<sockaddr*>(&address);
  as_info.ai_addrlen = sizeof address;
  const mode_t before = umask(0077);  // for its owner alone, who may open it to others
  const int s = bound_socket(as_info);
  umask(before);
  if (s < 0) raise<SystemError>("cannot listen on the socket '{}': {}", unix_path, std::strerror(errno));
  return {s, 0, unix_path};
}

Listener::Listener(Listener&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), port_(other.port_), path_(std::exchange(other.path_, {})) {}
Listener::~Listener() { close(); }
void Listener::close() {
  if (socket_ < 0) return;
  if (is_unix()) unlink(path_.c_str());
  ::close(std::exchange(socket_, -1));
}

}  // namespace gluino::serve
