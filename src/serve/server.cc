// Puts the parts together, and ends them in order.
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "base/format.h"
#include "serve/service.h"

namespace gluino::serve {
namespace {

// Signals as something that can be waited for. All threads that are started later leave them to it.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, s);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    file_ = signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK);
    if (file_ < 0) raise<SystemError>("signals cannot be waited for");
  }
  ~Signals() {
    close(file_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  int wait(int milliseconds) const {  // 0: none came; -1 waits as long as it takes
    pollfd what{.fd = file_, .events = POLLIN, .revents = 0};
    signalfd_siginfo info;
    if (poll(&what, 1, milliseconds) <= 0 || read(file_, &info, sizeof info) != sizeof info) return 0;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  sigset_t set_, before_;
  int file_;
};

// To whoever reads along; that nobody does is no reason to end.
template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  std::fputs(fmt::format(text, std::forward<Args>(args)...).c_str(), stdout);
  std::fflush(stdout);
}

Clock::duration as_duration(double seconds) { return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)); }

FrontOptions front_options(const ServeOptions& o) {
  return {.max_body = static_cast<uint64_t>(o.max_body_mb * (1 << 20)),
          .max_buffered = static_cast<int64_t>(o.max_queue_mb * (1 << 20)),
          .max_connections = o.max_connections,
          .loops = std::max(1, o.io_threads),
          .read_limit = as_duration(o.read_timeout),
          .request_limit = as_duration(o.timeout)};
}

void listen(Front& front, const ServeOptions& o) {
  if (!o.certificate.empty()) front.use_tls(make_tls(o.certificate, o.key));
  if (o.port >= 0) {
    Listener listener = Listener::on_port(o.host, o.port);
    const bool is_v6 = o.host.find(':') != std::string::npos;
    say("listening on {}://{}{}{}:{}\n", o.certificate.empty() ? "http" : "https", is_v6 ? "[" : "", o.host, is_v6 ? "]" : "",
        listener.port());
    front.listen(std::move(listener));
  }
  if (!o.unix_socket.empty()) {
    front.listen(Listener::on_path(o.unix_socket));
    say("listening on unix:{}\n", o.unix_socket);
  }
}

// Answers what has come. Returns the exit code.
int drain(Front& front, Service& service, const Signals& signals, double limit) {
  say("ending: requests that have come are answered\n");
  service.start_drain();
  front.drain();
  const Clock::time_point end = Clock::now() + as_duration(limit);
  while (!front.is_done()) {
    if (const int signal = signals.wait(20); signal == SIGTERM || signal == SIGINT || Clock::now() > end) {
      say("{}; connections are cut\n", signal ? "told to end at once" : "answers took too long (--drain-timeout)");
      front.stop();
      return 1;
    }
  }
  say("ended\n");
  return 0;
}

int serve(const ServeOptions& options) {
  const Signals signals;
  std::signal(SIGPIPE, SIG_IGN);  // what is written to a pipe without a reader fails, and does not end the process
  set_num_threads(options.threads);
  Repository repository(options.models, options.load, {options.length_input, options.length_buckets});
  repository.load_all();
  for (const Repository::Entry& e : repository.entries()) say("model {} version {}\n", e.name, e.version);
  Service service(options, repository);
  Front front(front_options(options), service);
  service.use_front(front.state());
  listen(front, options);
  front.start();
  say("ready\n");
  while (true) {
    const int signal = signals.wait(-1);
    if (signal == SIGHUP) service.reload_all();
    if (signal == SIGTERM || signal == SIGINT) break;
  }
  const int code = drain(front, service, signals, options.drain_timeout);
  front.join();
  return code;
}

}  // namespace
}  // namespace gluino::serve

extern "C" __attribute__((visibility("default"))) int gluino_serve(const gluino::serve::ServeOptions& options) {
  return gluino::serve::serve(options);
}
