#include "serve/model.h"

#include <fmt/format.h>

#include "gluino/autograd.h"
#include "serve/tensors.h"

namespace gluino::serve {
namespace {

constexpr size_t kMostKinds = 4096;  // whose joining is remembered

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// Which answer an exception is.
HttpResponse failure(const std::exception& e) {
  if (const auto http = dynamic_cast<const HttpError*>(&e)) return error_response(http->status(), http->what());
  if (dynamic_cast<const UserError*>(&e)) return error_response(400, e.what());
  if (dynamic_cast<const std::bad_alloc*>(&e)) return error_response(500, "there is not enough memory for this request");
  return error_response(500, e.what());
}

void add_kind(std::string& kind, DType dtype, const Shape& shape) {
  kind += static_cast<char>(dtype);
  kind += static_cast<char>(shape.ndim());
  for (int i = 1; i < shape.ndim(); ++i) kind.append(reinterpret_cast<const char*>(&shape.data()[i]), sizeof(int64_t));
}

std::vector<std::string> names_of(const std::vector<ValueDescription>& values) {
  std::vector<std::string> names;
  for (const ValueDescription& v : values) names.push_back(v.name);
  return names;
}

}  // namespace

ServedModel::ServedModel(std::string name, std::string version, LoadedNet net, std::shared_ptr<ModelMetrics> metrics)
    : name_(std::move(name)), version_(std::move(version)), net_(std::move(net)), metrics_(std::move(metrics)) {
  net_.block->hybridize();
  warm_up();
}

// Compiled before the first request comes, where the shapes are known but for the batch.
void ServedModel::warm_up() {
  Tensors inputs, others;
  bool may_join = true;
  for (const ValueDescription& v : description().inputs) {
    if (!v.shape || v.shape->empty()) return;
    Shape shape = *v.shape;
    may_join = may_join && shape[0] == Shape::kUnknown && is_floating(v.dtype.value_or(DType::float32));
    if (shape[0] == Shape::kUnknown) shape[0] = 1;
    if (!shape.is_known()) return;
    inputs.push_back(zeros(shape, v.dtype.value_or(DType::float32)));
    others.push_back(disturbed(inputs.back()));
  }
  try {
    call(inputs);
    call(inputs);
  } catch (const UserError&) {
    return;  // the shapes were a guess; requests bring the right ones
  }
  if (may_join && !inputs.empty()) joins_[kind_of(inputs)] = rows_stay_apart(inputs, others) ? Joins::yes : Joins::no;
}
std::string ServedModel::kind_of(const Tensors& inputs) {
  std::string kind;
  for (const Tensor& t : inputs) add_kind(kind, t.dtype(), t.shape());
  return kind;
}

Tensors ServedModel::call(const Tensors& inputs) const {
  const autograd::Scope predict(false, false);
  return (*net_.block)(inputs);
}

JobPtr ServedModel::make_job(const ExchangePtr& exchange, InferRequest request, std::shared_ptr<ServedModel> self) const {
  auto job = std::make_unique<Job>();
  job->exchange = exchange;
  job->model = std::move(self);
  job->request = std::move(request);
  const auto& wanted = description().inputs;
  const std::vector<InferInput>& given = job->request.inputs;
  for (const ValueDescription& v : wanted) {
    const auto at = std::find_if(given.begin(), given.end(), [&](const InferInput& i) { return i.name == v.name; });
    if (at == given.end())
      throw HttpError(400, fmt::format("the input '{}' is missing; {} takes {}", v.name, name_, fmt::join(names_of(wanted), ", ")));
    job->inputs.push_back(&*at);
  }
  for (const InferInput& i : given)
    if (std::count_if(given.begin(), given.end(), [&](const InferInput& o) { return o.name == i.name; }) > 1 ||
        std::find(job->inputs.begin(), job->inputs.end(), &i) == job->inputs.end())
      throw HttpError(
          400, fmt::format("the input '{}' is given twice, or unknown; {} takes {}", i.name, name_, fmt::join(names_of(wanted), ", ")));
  const auto& outputs = description().outputs;
  for (const WantedOutput& w : job->request.outputs) {
    const auto at = std::find_if(outputs.begin(), outputs.end(), [&](const ValueDescription& v) { return v.name == w.name; });
    if (at == outputs.end())
      throw HttpError(400, fmt::format("there is no output '{}'; {} gives {}", w.name, name_, fmt::join(names_of(outputs), ", ")));
    job->outputs.push_back(static_cast<size_t>(at - outputs.begin()));
  }
  if (job->outputs.empty())
    for (size_t i = 0; i < outputs.size(); ++i) job->outputs.push_back(i);
  for (const InferInput* i : job->inputs) add_kind(job->kind, i->dtype, i->shape);
  const auto rows_of = [](const InferInput* i) { return i->shape.empty() ? 0 : i->shape[0]; };
  job->rows = job->inputs.empty() ? 0 : rows_of(job->inputs[0]);
  for (const InferInput* i : job->inputs)
    if (rows_of(i) != job->rows) job->rows = 0;
  return job;
}

ServedModel::Joins ServedModel::joins(const std::string& kind) const {
  const std::lock_guard lock(mutex_);
  const auto at = joins_.find(kind);
  return at == joins_.end() ? Joins::unknown : at->second;
}
bool ServedModel::start_trial(const std::string& kind) {
  const std::lock_guard lock(mutex_);
  if (joins_.size() >= kMostKinds) joins_.clear();
  return joins_.emplace(kind, Joins::in_trial).second;
}

// Rows that run apart and joined: do they answer the same?
bool ServedModel::rows_stay_apart(const Tensors& one, const Tensors& other) const {
  try {
    Tensors both;
    for (size_t i = 0; i < one.size(); ++i) both.push_back(stacked(one[i], other[i]));
    const int64_t rows = one[0].shape()[0], other_rows = other[0].shape()[0];
    const Tensors a = call(one), b = call(other), ab = call(both);
    for (size_t i = 0; i < ab.size(); ++i)
      if (ab[i].ndim() == 0 || ab[i].shape()[0] != rows + other_rows || a[i].ndim() == 0 || a[i].shape()[0] != rows ||
          !rows_agree(ab[i], 0, a[i]) || !rows_agree(ab[i], rows, b[i]))
        return false;
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void ServedModel::try_joining(const Job& job, const Job& other) {
  Tensors one, two;
  for (size_t i = 0; i < job.inputs.size(); ++i) {
    one.push_back(alone(*job.inputs[i]));
    two.push_back(disturbed(alone(*other.inputs[i])));
  }
  const bool same = job.rows > 0 && other.rows > 0 && rows_stay_apart(one, two);
  const std::lock_guard lock(mutex_);
  joins_[job.kind] = same ? Joins::yes : Joins::no;
}

void ServedModel::answer(const Job& job, const Tensors& outputs, int64_t first_row, int64_t rows) const {
  std::vector<InferOutput> given;
  for (const size_t i : job.outputs) {
    const Tensor& t = outputs[i];
    InferOutput o{description().outputs[i].name, t.dtype(), t.shape(), bytes_of(t), static_cast<size_t>(t.nbytes())};
    if (rows > 0) {
      const size_t row = o.bytes / static_cast<size_t>(o.shape[0]);
      o.shape[0] = rows;
      o.data += static_cast<size_t>(first_row) * row;
      o.bytes = static_cast<size_t>(rows) * row;
    }
    given.push_back(std::move(o));
  }
  job.exchange->reply(infer_response(name_, version_, job.request, given));
}

void ServedModel::run_alone(const Job& job) {
  try {
    Tensors inputs;
    for (const InferInput* i : job.inputs) inputs.push_back(alone(*i));
    const Clock::time_point start = Clock::now();
    const Tensors outputs = call(inputs);
    metrics_->compute_seconds.add(seconds(Clock::now() - start));
    answer(job, outputs, 0, 0);
    ++metrics_->done;
  } catch (const std::exception& e) {
    ++metrics_->failed;
    job.exchange->reply(failure(e));
  }
}

bool ServedModel::run_joined(const std::vector<JobPtr>& jobs) {
  int64_t rows = 0;
  for (const JobPtr& j : jobs) rows += j->rows;
  Tensors outputs;
  try {
    Tensors inputs;
    std::vector<const InferInput*> parts(jobs.size());
    for (size_t i = 0; i < jobs[0]->inputs.size(); ++i) {
      for (size_t k = 0; k < jobs.size(); ++k) parts[k] = jobs[k]->inputs[i];
      inputs.push_back(joined(parts));
    }
    const Clock::time_point start = Clock::now();
    outputs = call(inputs);
    metrics_->compute_seconds.add(seconds(Clock::now() - start));
  } catch (const std::exception&) {
    return false;  // one of them is wrong: alone, only that one fails
  }
  for (const Tensor& t : outputs)
    if (t.ndim() == 0 || t.shape()[0] != rows) return false;
  int64_t row = 0;
  for (const JobPtr& j : jobs) {
    answer(*j, outputs, row, j->rows);
    row += j->rows;
    ++metrics_->done;
  }
  return true;
}

void ServedModel::run(const std::vector<JobPtr>& jobs, bool may_join) {
  const Clock::time_point now = Clock::now();
  for (const JobPtr& j : jobs) {
    metrics_->queue_seconds.add(seconds(now - j->arrived));
    metrics_->rows += j->rows;
  }
  const auto count = [&](int64_t rows) {
    ++metrics_->batches;
    metrics_->batch_rows.add(static_cast<double>(rows));
  };
  if (may_join && jobs.size() > 1 && run_joined(jobs)) {
    int64_t rows = 0;
    for (const JobPtr& j : jobs) rows += j->rows;
    return count(rows);
  }
  for (const JobPtr& j : jobs) {
    run_alone(*j);
    count(j->rows);
  }
}

}  // namespace gluino::serve
