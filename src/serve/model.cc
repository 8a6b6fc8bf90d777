#include "serve/model.h"

#include <fmt/format.h>

#include <bit>

#include "gluino/autograd.h"

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

ServedModel::ServedModel(std::string name, std::string version, LoadedNet net, std::shared_ptr<ModelMetrics> metrics,
                         const LengthOptions& lengths)
    : name_(std::move(name)), version_(std::move(version)), net_(std::move(net)), metrics_(std::move(metrics)), lengths_(lengths) {
  const auto& inputs = description().inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == lengths_.input) length_input_ = i;
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
  if (may_join && !inputs.empty() && !length_input_) verdicts_[kind_of(inputs)] = judge(part_of(inputs), part_of(others));
}
ServedModel::Part ServedModel::part_of(const Tensors& inputs) {
  Part part{{}, 1, 0};
  for (const Tensor& t : inputs) part.inputs.push_back(rows_of(t));
  return part;
}
ServedModel::Part ServedModel::part_of(const Job& job) {
  Part part{{}, job.rows, job.length};
  for (const InferInput* i : job.inputs) part.inputs.push_back(rows_of(*i));
  return part;
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

// ---- lengths

bool ServedModel::is_sequence(size_t input, const Shape& shape, int64_t length) const {
  return length > 0 && input != length_input_ && shape.ndim() > 1 && shape[1] == length;
}
int64_t ServedModel::bucket(int64_t length) const {
  if (lengths_.buckets.empty()) return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)));
  const auto at = std::lower_bound(lengths_.buckets.begin(), lengths_.buckets.end(), length);
  return at == lengths_.buckets.end() ? length : *at;
}

// Who gives no lengths means that all steps count.
void ServedModel::add_missing_lengths(InferRequest& request) const {
  const ValueDescription& wanted = description().inputs[*length_input_];
  const auto is_given = [&](const InferInput& i) { return i.name == wanted.name; };
  const auto data = std::find_if(request.inputs.begin(), request.inputs.end(), [](const InferInput& i) { return i.shape.ndim() > 1; });
  if (std::any_of(request.inputs.begin(), request.inputs.end(), is_given) || data == request.inputs.end()) return;
  const int64_t rows = data->shape[0], length = data->shape[1];
  InferInput input{.name = wanted.name, .dtype = wanted.dtype.value_or(DType::float32), .shape = {rows}};
  const Tensor values = full({rows}, static_cast<double>(length), input.dtype);
  input.bytes = static_cast<size_t>(values.nbytes());
  input.storage = std::make_unique_for_overwrite<char[]>(input.bytes);
  std::copy_n(bytes_of(values), input.bytes, input.storage.get());
  input.data = input.storage.get();
  request.inputs.push_back(std::move(input));
}

// ---- requests

JobPtr ServedModel::make_job(const ExchangePtr& exchange, InferRequest request, std::shared_ptr<ServedModel> self) const {
  if (length_input_) add_missing_lengths(request);
  auto job = std::make_unique<Job>();
  job->exchange = exchange;
  job->model = std::move(self);
  job->request = std::move(request);
  const auto& wanted = description().inputs;
  const auto& outputs = description().outputs;
  const std::vector<InferInput>& given = job->request.inputs;
  for (const ValueDescription& v : wanted) {
    const auto at = std::find_if(given.begin(), given.end(), [&](const InferInput& i) { return i.name == v.name; });
    if (at == given.end())
      throw HttpError(400, fmt::format("the input '{}' is missing; {} takes {}", v.name, name_, fmt::join(names_of(wanted), ", ")));
    job->inputs.push_back(&*at);
  }
  if (given.size() > wanted.size()) {
    const auto is_extra = [&](const InferInput& i) { return std::find(job->inputs.begin(), job->inputs.end(), &i) == job->inputs.end(); };
    throw HttpError(400, fmt::format("the input '{}' is given twice, or unknown; {} takes {}",
                                     std::find_if(given.begin(), given.end(), is_extra)->name, name_, fmt::join(names_of(wanted), ", ")));
  }
  for (const WantedOutput& w : job->request.outputs) {
    const auto at = std::find_if(outputs.begin(), outputs.end(), [&](const ValueDescription& v) { return v.name == w.name; });
    if (at == outputs.end() || job->outputs.size() == outputs.size())
      throw HttpError(400, fmt::format("the output '{}' is unknown, or asked for twice; {} gives {}", w.name, name_,
                                       fmt::join(names_of(outputs), ", ")));
    job->outputs.push_back(static_cast<size_t>(at - outputs.begin()));
  }
  if (job->outputs.empty())
    for (size_t i = 0; i < outputs.size(); ++i) job->outputs.push_back(i);

  const auto rows_in = [](const InferInput* i) { return i->shape.empty() ? 0 : i->shape[0]; };
  job->rows = job->inputs.empty() ? 0 : rows_in(job->inputs[0]);
  for (size_t k = 0; k < job->inputs.size(); ++k) {
    const InferInput& i = *job->inputs[k];
    if (rows_in(&i) != job->rows) job->rows = 0;
    if (length_input_ && k != *length_input_ && i.shape.ndim() > 1 && job->length == 0) job->length = i.shape[1];
  }
  for (size_t k = 0; k < job->inputs.size(); ++k) {
    Shape shape = job->inputs[k]->shape;
    if (is_sequence(k, shape, job->length)) shape[1] = bucket(job->length);
    add_kind(job->kind, job->inputs[k]->dtype, shape);
  }
  return job;
}

// ---- joining

ServedModel::Joins ServedModel::joins(const std::string& kind) const {
  const std::lock_guard lock(mutex_);
  const auto at = verdicts_.find(kind);
  return at == verdicts_.end() ? Joins::unknown : at->second.joins;
}
bool ServedModel::start_trial(const std::string& kind) {
  const std::lock_guard lock(mutex_);
  if (verdicts_.size() >= kMostKinds) verdicts_.clear();
  return verdicts_.emplace(kind, Verdict{}).second;
}

// With a length, sequences are filled up to it, and what lies behind their own ends does not count.
Tensors ServedModel::joined(const std::vector<Part>& parts, int64_t length) const {
  Tensors all;
  for (size_t i = 0; i < parts[0].inputs.size(); ++i) {
    std::vector<Rows> rows;
    for (const Part& p : parts) rows.push_back(p.inputs[i]);
    all.push_back(pack(rows, is_sequence(i, rows[0].shape, parts[0].length) ? length : 0));
    int64_t first = 0;
    for (const Part& p : parts) {
      if (length > 0 && i == length_input_) limit_from_above(all.back(), first, p.rows, p.length);
      first += p.rows;
    }
  }
  return all;
}

// Rows that run apart and joined: do they answer the same?
ServedModel::Verdict ServedModel::judge(const Part& one, const Part& other) const {
  Verdict verdict{Joins::no, {}};
  try {
    const int64_t length = one.length > 0 ? bucket(std::max(one.length, other.length)) : 0;
    const Tensors a = call(joined({one}, 0)), b = call(joined({other}, 0)), ab = call(joined({one, other}, length));
    const Tensors longer = one.length > 0 ? call(joined({one}, one.length + 1)) : a;
    const auto rows_in = [](const Tensor& t) { return t.ndim() == 0 ? -1 : t.shape()[0]; };
    for (size_t i = 0; i < ab.size(); ++i) {
      const bool grows = longer[i].ndim() > 1 && a[i].ndim() > 1 && longer[i].shape()[1] == a[i].shape()[1] + 1;
      verdict.grows.push_back(grows);
      if (rows_in(a[i]) != one.rows || rows_in(b[i]) != other.rows || rows_in(ab[i]) != one.rows + other.rows ||
          !agree(cut(longer[i], 0, one.rows, grows ? one.length : 0), a[i]) ||
          !agree(cut(ab[i], 0, one.rows, grows ? one.length : 0), a[i]) ||
          !agree(cut(ab[i], one.rows, other.rows, grows ? other.length : 0), b[i]))
        return verdict;
    }
    verdict.joins = Joins::yes;
  } catch (const std::exception&) {
    // Then they cannot even be run so.
  }
  return verdict;
}

void ServedModel::try_joining(const Job& job, const Job& other) {
  const Part one = part_of(job);
  Part two = part_of(other);
  Tensors disturbed_rows;  // so that equal requests tell something too
  for (size_t i = 0; i < two.inputs.size(); ++i) {
    disturbed_rows.push_back(pack({two.inputs[i]}));
    if (i != length_input_) disturbed_rows.back() = disturbed(disturbed_rows.back());
    two.inputs[i] = rows_of(disturbed_rows.back());
  }
  Verdict verdict = job.rows > 0 && other.rows > 0 ? judge(one, two) : Verdict{Joins::no, {}};
  const std::lock_guard lock(mutex_);
  verdicts_[job.kind] = std::move(verdict);
}

// ---- running

void ServedModel::answer(const Job& job, const Tensors& outputs, int64_t first_row, int64_t rows, const std::vector<bool>& grows) const {
  std::vector<InferOutput> given;
  Tensors shortened;
  shortened.reserve(job.outputs.size());
  for (const size_t i : job.outputs) {
    const Tensor& t = outputs[i];
    InferOutput o{description().outputs[i].name, t.dtype(), t.shape(), bytes_of(t), static_cast<size_t>(t.nbytes())};
    if (!grows.empty() && grows[i] && o.shape[1] != job.length) {
      shortened.push_back(cut(t, first_row, rows, job.length));
      o.shape = shortened.back().shape();
      o.data = bytes_of(shortened.back());
      o.bytes = static_cast<size_t>(shortened.back().nbytes());
    } else if (rows > 0) {
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
    const Tensors inputs = joined({part_of(job)}, 0);
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
  std::vector<Part> parts;
  int64_t rows = 0;
  bool is_padded = false;
  for (const JobPtr& j : jobs) {
    parts.push_back(part_of(*j));
    rows += j->rows;
    is_padded = is_padded || j->length != jobs[0]->length;
  }
  std::vector<bool> grows;
  if (is_padded) {
    const std::lock_guard lock(mutex_);
    grows = verdicts_[jobs[0]->kind].grows;
  }
  Tensors outputs;
  try {
    const Tensors inputs = joined(parts, is_padded ? bucket(jobs[0]->length) : 0);
    const Clock::time_point start = Clock::now();
    outputs = call(inputs);
    metrics_->compute_seconds.add(seconds(Clock::now() - start));
  } catch (const std::exception&) {
    return false;  // one of them is wrong: alone, only that one fails
  }
  if (is_padded && grows.size() != outputs.size()) return false;
  for (const Tensor& t : outputs)
    if (t.ndim() == 0 || t.shape()[0] != rows) return false;
  count_call(rows);  // before anybody has an answer and can ask
  metrics_->done += static_cast<int64_t>(jobs.size());
  int64_t row = 0;
  for (const JobPtr& j : jobs) {
    answer(*j, outputs, row, j->rows, grows);
    row += j->rows;
  }
  return true;
}

void ServedModel::run(const std::vector<JobPtr>& jobs, bool may_join) {
  const Clock::time_point now = Clock::now();
  for (const JobPtr& j : jobs) {
    metrics_->queue_seconds.add(seconds(now - j->arrived));
    metrics_->rows += j->rows;
  }
  if (may_join && jobs.size() > 1 && run_joined(jobs)) return;
  for (const JobPtr& j : jobs) {
    count_call(j->rows);
    run_alone(*j);
  }
}
void ServedModel::count_call(int64_t rows) {
  ++metrics_->batches;
  metrics_->batch_rows.add(static_cast<double>(rows));
}

}  // namespace gluino::serve
