#include "serve/service.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gluino/version.h"
#include "serve/protocol/datatypes.h"

namespace gluino::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kQuicklyRead = 1 << 18;  // bytes of a body that a loop reads itself; larger ones would keep its other clients waiting

HttpResponse json_response(const Json& json, int status = 200) { return {.status = status, .body = json.dump() + "\n"}; }
HttpResponse ready_response(bool is_ready) { return json_response({{"ready", is_ready}}, is_ready ? 200 : 503); }

void need_method(const HttpRequest& request, std::string_view method) {
  if (request.method == method || (method == "GET" && request.method == "HEAD")) return;
  throw HttpError(405, fmt::format("{} is asked for with {}, not with {}", request.path, method, request.method));
}

// In a time that does not tell how much of it is right.
bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[b.empty() ? 0 : i % b.size()]);
  return difference == 0;
}

SchedulerOptions scheduler_options(const ServeOptions& o) {
  return {.max_batch = o.max_batch,
          .max_delay = std::chrono::microseconds(static_cast<int64_t>(o.max_delay * 1000)),
          .max_queue = o.max_queue,
          .workers = o.workers > 0 ? o.workers : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))};
}

// Requests that one loop has handled since its last flush().
std::vector<JobPtr>& pending_jobs() {
  static thread_local std::vector<JobPtr> jobs;
  return jobs;
}

Json value_json(const ValueDescription& v) {
  Json shape = Json::array();
  if (v.shape)
    for (const int64_t extent : *v.shape) shape.push_back(extent);
  return {{"name", v.name}, {"datatype", std::string(datatype_name(v.dtype.value_or(DType::float32)))}, {"shape", shape}};
}

}  // namespace

// ---- SlowWork

SlowWork::SlowWork() {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const auto work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  });
}
SlowWork::~SlowWork() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}
void SlowWork::add(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
}

// ---- Service

Service::Service(const ServeOptions& options, Repository& repository)
    : token_(options.token), repository_(repository), scheduler_(scheduler_options(options)) {}

std::optional<HttpResponse> Service::refuse(const HttpRequest& request) {
  // Probes of a cluster bring no token, and the page asks for it.
  if (token_.empty() || request.path == "/" || request.path.starts_with("/v2/health/")) return std::nullopt;
  const std::string_view given = request.header("authorization");
  if (given.starts_with("Bearer ") && equal_secrets(given.substr(7), token_)) return std::nullopt;
  return error_response(401, "a bearer token is needed: Authorization: Bearer TOKEN");
}

void Service::answer_errors(const ExchangePtr& exchange, const std::function<void()>& work) {
  try {
    work();
  } catch (const HttpError& e) {
    exchange->reply(error_response(e.status(), e.what()));
  } catch (const std::bad_alloc&) {
    exchange->reply(error_response(500, "there is not enough memory for this request"));
  } catch (const std::exception& e) {
    exchange->reply(error_response(500, e.what()));
  }
}

void Service::handle(const ExchangePtr& exchange) {
  answer_errors(exchange, [&] {
    bool is_later = false;
    HttpResponse response = answer(exchange, is_later);
    if (!is_later) exchange->reply(std::move(response));
  });
}

void Service::flush() { scheduler_.submit(pending_jobs()); }

HttpResponse Service::answer(const ExchangePtr& exchange, bool& is_later) {
  const HttpRequest& request = exchange->request;
  const std::vector<std::string> path = path_segments(request.path);
  if (path.size() >= 3 && path[0] == "v2" && path[1] == "models") return model_route(exchange, path, is_later);
  if (path.size() >= 3 && path[0] == "v2" && path[1] == "repository") return repository_route(exchange, path, is_later);
  const std::string_view plain = request.path;
  if (plain != "/" && plain != "/metrics" && plain != "/v2" && plain != "/v2/health/live" && plain != "/v2/health/ready")
    throw HttpError(404, fmt::format("there is nothing at {}", plain));
  need_method(request, "GET");
  if (plain == "/") return {.content_type = "text/html; charset=utf-8", .body = std::string(kPage)};
  if (plain == "/metrics") return metrics();
  if (plain == "/v2") return server_metadata();
  if (plain == "/v2/health/live") return json_response({{"live", true}});
  return ready_response(!is_draining_ && repository_.is_ready());
}

HttpResponse Service::model_route(const ExchangePtr& exchange, std::vector<std::string> path, bool& is_later) {
  const std::string name = path[2];
  std::string version;
  path.erase(path.begin(), path.begin() + 3);
  if (path.size() >= 2 && path[0] == "versions") {
    version = path[1];
    path.erase(path.begin(), path.begin() + 2);
  }
  const std::string action = path.empty() ? "" : path[0];
  if (path.size() > 1 || (action != "" && action != "ready" && action != "infer"))
    throw HttpError(404, fmt::format("there is nothing at {}", exchange->request.path));
  need_method(exchange->request, action == "infer" ? "POST" : "GET");
  if (action == "ready") {
    try {
      repository_.find(name, version);
      return ready_response(!is_draining_);
    } catch (const HttpError& e) {
      if (e.status() != 503) throw;
      return ready_response(false);
    }
  }
  const std::shared_ptr<ServedModel> model = repository_.find(name, version);
  if (action.empty()) return model_metadata(*model);
  infer(exchange, model);
  is_later = true;
  return {};
}

JobPtr Service::make_job(const ExchangePtr& exchange, const std::shared_ptr<ServedModel>& model) {
  try {
    InferRequest request = parse_infer(exchange->request);
    if (request.timeout_microseconds && *request.timeout_microseconds > 0) {
      const auto limit = std::chrono::microseconds(std::min<int64_t>(*request.timeout_microseconds, int64_t{1} << 50));
      exchange->deadline = std::min(exchange->deadline.load(), Clock::now() + limit);
    }
    return model->make_job(exchange, std::move(request), model);
  } catch (const HttpError&) {
    ++model->metrics().failed;
    throw;
  }
}

void Service::infer(const ExchangePtr& exchange, const std::shared_ptr<ServedModel>& model) {
  if (exchange->request.body.size() <= kQuicklyRead) {
    pending_jobs().push_back(make_job(exchange, model));
    return;
  }
  large_bodies_.add([this, exchange, model] {
    answer_errors(exchange, [&] {
      std::vector<JobPtr> jobs;
      jobs.push_back(make_job(exchange, model));
      scheduler_.submit(jobs);
    });
  });
}

HttpResponse Service::repository_route(const ExchangePtr& exchange, const std::vector<std::string>& path, bool& is_later) {
  const HttpRequest& request = exchange->request;
  if (path.size() == 3 && path[2] == "index") {
    need_method(request, "POST");
    return repository_index();
  }
  const std::string action = path.size() == 5 && path[2] == "models" ? path[4] : "";
  if (action != "load" && action != "unload") throw HttpError(404, fmt::format("there is nothing at {}", request.path));
  need_method(request, "POST");
  is_later = true;
  slow_work_.add([this, exchange, action, name = path[3]] {
    try {
      action == "load" ? repository_.load(name) : repository_.unload(name);
      exchange->reply(json_response(Json::object()));
    } catch (const HttpError& e) {
      exchange->reply(error_response(e.status(), e.what()));
    } catch (const std::exception& e) {
      exchange->reply(error_response(400, fmt::format("the model '{}' cannot be loaded: {}", name, e.what())));
    }
  });
  return {};
}

void Service::reload_all() {
  for (const Repository::Entry& e : repository_.entries())
    slow_work_.add([this, name = e.name] {
      try {
        repository_.load(name);
      } catch (const std::exception& error) {
        std::fputs(fmt::format("gluino: the model '{}' cannot be loaded again, the old one stays: {}\n", name, error.what()).c_str(),
                   stderr);
      }
    });
}

HttpResponse Service::server_metadata() const {
  return json_response({{"name", "gluino"}, {"version", GLUINO_VERSION}, {"extensions", {"binary_tensor_data", "model_repository"}}});
}

HttpResponse Service::model_metadata(const ServedModel& model) const {
  Json json{{"name", model.name()}, {"versions", repository_.versions(model.name())}, {"platform", "gluino"}};
  json["inputs"] = json["outputs"] = Json::array();
  for (const ValueDescription& v : model.description().inputs) json["inputs"].push_back(value_json(v));
  for (const ValueDescription& v : model.description().outputs) json["outputs"].push_back(value_json(v));
  return json_response(json);
}

HttpResponse Service::repository_index() const {
  Json all = Json::array();
  for (const Repository::Entry& e : repository_.entries())
    all.push_back({{"name", e.name}, {"version", e.version}, {"state", e.state}, {"reason", e.reason}});
  return json_response(all);
}

HttpResponse Service::metrics() const {
  std::string text = http_.text();
  const auto gauge = [&](const std::string& name, const std::string& help, int64_t value) {
    text += metric_head(name, "gauge", help) + fmt::format("{} {}\n", name, value);
  };
  gauge("gluino_queue_requests", "Inference requests that wait.", scheduler_.queued());
  gauge("gluino_buffered_bytes", "Bytes of bodies in memory.", front_ ? front_->budget.used() : 0);
  gauge("gluino_connections", "Open connections.", front_ ? front_->connections.load() : 0);
  const auto entries = repository_.entries();
  const auto labels = [](const Repository::Entry& e) {
    return fmt::format("model=\"{}\",version=\"{}\"", escaped_label(e.name), escaped_label(e.version));
  };
  const auto counters = [&](const std::string& name, const std::string& help, auto&& of) {
    text += metric_head(name, "counter", help);
    for (const Repository::Entry& e : entries) of(e, name, labels(e));
  };
  counters("gluino_inference_requests_total", "Inference requests by what became of them.",
           [&](const auto& e, const auto& name, const auto& l) {
             const ModelMetrics& m = *e.metrics;
             for (const auto& [outcome, count] :
                  {std::pair{"done", m.done.load()}, {"failed", m.failed.load()}, {"refused", m.refused.load()}, {"late", m.late.load()}})
               text += fmt::format("{}{{{},outcome=\"{}\"}} {}\n", name, l, outcome, count);
           });
  counters("gluino_inference_rows_total", "Rows of the batch axis that were run.",
           [&](const auto& e, const auto& name, const auto& l) { text += fmt::format("{}{{{}}} {}\n", name, l, e.metrics->rows.load()); });
  counters(
      "gluino_batches_total", "Calls of the model, for one request or several joined.",
      [&](const auto& e, const auto& name, const auto& l) { text += fmt::format("{}{{{}}} {}\n", name, l, e.metrics->batches.load()); });
  const auto histograms = [&](const std::string& name, const std::string& help, const Histogram ModelMetrics::*which) {
    text += metric_head(name, "histogram", help);
    for (const Repository::Entry& e : entries) text += ((*e.metrics).*which).text(name, labels(e));
  };
  histograms("gluino_batch_rows", "Rows of a call of the model.", &ModelMetrics::batch_rows);
  histograms("gluino_queue_seconds", "How long requests waited before they ran.", &ModelMetrics::queue_seconds);
  histograms("gluino_compute_seconds", "How long calls of the model took.", &ModelMetrics::compute_seconds);
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(text)};
}

}  // namespace gluino::serve
