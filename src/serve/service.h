// What the server's addresses do.
#pragma once
#include "serve/http/front.h"
#include "serve/repository.h"
#include "serve/scheduler.h"

namespace gluino::serve {

extern const std::string_view kPage;  // the page at /, made from page.html

// Work that takes long, one piece after the other, in a thread of its own.
class SlowWork {
 public:
  SlowWork();
  ~SlowWork();  // when all of it is done
  void add(std::function<void()> work);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool is_ending_ = false;
  std::thread thread_;
};

class Service : public Handler {
 public:
  Service(const ServeOptions& options, Repository& repository);
  void use_front(const FrontState& front) { front_ = &front; }
  void start_drain() { is_draining_ = true; }
  void reload_all();

  std::optional<HttpResponse> refuse(const HttpRequest& request) override;
  void handle(const ExchangePtr& exchange) override;
  void flush() override;
  void count_response(int status, double seconds) override { http_.count(status, seconds); }

 private:
  HttpResponse answer(const ExchangePtr& exchange, bool& is_later);
  HttpResponse model_route(const ExchangePtr& exchange, std::vector<std::string> path, bool& is_later);
  HttpResponse repository_route(const ExchangePtr& exchange, const std::vector<std::string>& path, bool& is_later);
  HttpResponse server_metadata() const;
  HttpResponse model_metadata(const ServedModel& model) const;
  HttpResponse repository_index() const;
  HttpResponse metrics() const;
  static void answer_errors(const ExchangePtr& exchange, const std::function<void()>& work);
  static JobPtr make_job(const ExchangePtr& exchange, const std::shared_ptr<ServedModel>& model);
  void infer(const ExchangePtr& exchange, const std::shared_ptr<ServedModel>& model);

  const std::string token_;
  Repository& repository_;
  const FrontState* front_ = nullptr;
  std::atomic<bool> is_draining_{false};
  HttpMetrics http_;
  Scheduler scheduler_;
  SlowWork slow_work_, large_bodies_;
};

}  // namespace gluino::serve
