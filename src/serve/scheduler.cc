#include "serve/scheduler.h"

namespace gluino::serve {
namespace {

constexpr size_t kMostEmptyLanes = 1024;

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options) : options_(options) {
  for (int i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { work(); });
}
Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void Scheduler::submit(std::vector<JobPtr>& jobs) {
  if (jobs.empty()) return;
  std::vector<JobPtr> refused;
  int to_wake = 0;
  {
    const std::lock_guard lock(mutex_);
    for (JobPtr& job : jobs) {
      if (queued_ >= options_.max_queue) {
        refused.push_back(std::move(job));
        continue;
      }
      ++queued_;
      auto& lanes = job->model->lanes;
      if (lanes.size() > kMostEmptyLanes) std::erase_if(lanes, [](const auto& l) { return l.second.jobs.empty(); });
      Lane& lane = lanes[job->kind];
      if (lane.jobs.empty()) {
        active_.push_back(&lane);
        ++to_wake;
      }
      const bool was_full = is_full(lane);
      lane.rows += job->rows;
      lane.jobs.push_back(std::move(job));
      if (!was_full && is_full(lane)) ++to_wake;  // a worker may sleep until the first has waited long enough
    }
    to_wake = std::min(to_wake, idle_);
  }
  for (; to_wake > 0; --to_wake) changed_.notify_one();
  for (const JobPtr& job : refused) {
    ++job->model->metrics().refused;
    job->exchange->reply(error_response(429, "the queue is full (--max-queue); try again later"));
  }
  jobs.clear();
}

// The lane whose first request has come first, of those that need not wait; else when one of them is ready.
Lane* Scheduler::ready_lane(Clock::time_point now, Clock::time_point& earliest) {
  Lane* best = nullptr;
  for (Lane* lane : active_) {
    const Job& first = *lane->jobs.front();
    const bool waits = options_.max_batch > 1 && !is_full(*lane) && !is_ending_ && options_.max_delay > Clock::duration(0) &&
                       first.rows > 0 && first.model->joins(first.kind) != ServedModel::Joins::no;
    const Clock::time_point ready = waits ? first.arrived + options_.max_delay : first.arrived;
    if (ready > now)
      earliest = std::min(earliest, ready);
    else if (!best || first.arrived < best->jobs.front()->arrived)
      best = lane;
  }
  return best;
}

Scheduler::Batch Scheduler::take(Lane& lane, bool& wants_trial) {
  Batch batch;
  int64_t rows = 0;
  const std::shared_ptr<ServedModel> model = lane.jobs.front()->model;  // whose lane it is
  const std::string kind = lane.jobs.front()->kind;
  const bool may_join = options_.max_batch > 1 && lane.jobs.size() > 1 && lane.jobs.front()->rows > 0;
  wants_trial = may_join && model->joins(kind) == ServedModel::Joins::unknown && model->start_trial(kind);
  const bool joins = may_join && model->joins(kind) == ServedModel::Joins::yes;
  // What waits is shared with workers that have nothing to do: one large call would leave their cores idle, and then all its answers come
  // at once. With a delay batches are to be filled.
  const size_t workers = options_.max_delay > Clock::duration(0) ? 1 : static_cast<size_t>(idle_) + 1,
               share = (lane.jobs.size() + workers - 1) / workers;
  while (!lane.jobs.empty()) {
    const bool fits = joins ? batch.empty() || (batch.size() < share && rows + lane.jobs.front()->rows <= options_.max_batch)
                            : batch.size() < (wants_trial ? 2 : 1);
    if (!fits) break;
    JobPtr job = std::move(lane.jobs.front());
    lane.jobs.pop_front();
    lane.rows -= job->rows;
    --queued_;
    if (job->exchange->is_answered()) {  // its time has passed, or the client has gone
      ++model->metrics().late;
      continue;
    }
    rows += job->rows;
    batch.push_back(std::move(job));
  }
  if (lane.jobs.empty()) active_.remove(&lane);
  return batch;
}

Scheduler::Batch Scheduler::next(bool& wants_trial) {
  std::unique_lock lock(mutex_);
  while (true) {
    Clock::time_point earliest = Clock::time_point::max();
    if (Lane* lane = active_.empty() ? nullptr : ready_lane(Clock::now(), earliest)) {
      Batch batch = take(*lane, wants_trial);
      if (batch.empty()) continue;
      if (!active_.empty() && idle_ > 0) changed_.notify_one();
      return batch;
    }
    if (is_ending_ && active_.empty()) return {};
    ++idle_;
    if (earliest == Clock::time_point::max())
      changed_.wait(lock);
    else
      changed_.wait_until(lock, earliest);
    --idle_;
  }
}

void Scheduler::work() {
  bool wants_trial = false;
  for (Batch batch = next(wants_trial); !batch.empty(); batch = next(wants_trial)) {
    const std::shared_ptr<ServedModel> model = batch[0]->model;
    try {
      model->run(batch, !wants_trial);
      if (wants_trial) model->try_joining(*batch.front(), *batch.back());
    } catch (const std::exception& e) {  // memory that is missing
      for (const JobPtr& job : batch) job->exchange->reply(error_response(500, e.what()));
    }
    batch.clear();
  }
}

}  // namespace gluino::serve
