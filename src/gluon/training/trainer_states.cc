// Files of a trainer's states, in the form of .params: "num_update"; "optimizer:<name>"; "parameter:<number>:<name>", the extents of each
// parameter, which tell whether the file belongs to this network; "<number>.<copy>.<state>", the states.
#include <charconv>
#include <cmath>

#include "base/format.h"
#include "gluino/distributed.h"
#include "gluino/io.h"
#include "gluino/op.h"
#include "gluino/trainer.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

constexpr std::string_view kOptimizer = "optimizer:", kParameter = "parameter:";

struct StoredParameter {
  std::string name;
  Shape shape;
};

// What a file of states says, before it is compared with a trainer.
struct StoredStates {
  std::string optimizer;
  int64_t num_update = -1;
  std::map<int64_t, StoredParameter> parameters;    // none in files of before they were written
  std::map<std::array<int64_t, 3>, Tensor> states;  // by parameter, copy and state
};

// The numbers of "1.0.2" or "1:"; nullopt where there is something else.
std::optional<int64_t> take_number(std::string_view& text, char end) {
  int64_t number = -1;
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(after - text.data()));
  if (end != '\0') {
    if (!text.starts_with(end)) return std::nullopt;
    text.remove_prefix(1);
  }
  return number;
}

Shape shape_of(const Tensor& extents) {
  Shape shape;
  if (extents.ndim() == 1 && extents.size() <= Shape::kMaxAxes)
    for (const int64_t extent : extents.to_vector<int64_t>()) shape.push_back(extent);
  return shape;
}

StoredStates read_states(const std::string& path) {
  StoredStates stored;
  for (auto& [name, t] : load_tensors(path)) {
    const auto fail = [&, &n = name] { raise<SystemError>("'{}' is damaged, or holds no states of a trainer: it has '{}'", path, n); };
    std::string_view rest = name;
    if (!t.defined()) fail();
    if (name == "num_update") {
      const double count = t.size() == 1 ? t.item<double>() : -1;
      if (!(count >= 0 && count <= 1e15)) fail();
      stored.num_update = static_cast<int64_t>(count);
    } else if (rest.starts_with(kOptimizer)) {
      stored.optimizer = rest.substr(kOptimizer.size());
    } else if (rest.starts_with(kParameter)) {
      rest.remove_prefix(kParameter.size());
      const auto number = take_number(rest, ':');
      if (!number) fail();
      stored.parameters[*number] = {std::string(rest), shape_of(t)};
    } else {
      const auto parameter = take_number(rest, '.'), copy = take_number(rest, '.'), state = take_number(rest, '\0');
      if (!parameter || !copy || !state || !rest.empty()) fail();
      stored.states[{*parameter, *copy, *state}] = std::move(t);
    }
  }
  if (stored.num_update < 0 || stored.optimizer.empty()) raise<SystemError>("'{}' holds no states of a trainer", path);
  return stored;
}

// Extents that are not known yet fit all.
bool fits(const Shape& known, const Shape& stored) {
  if (known.ndim() == 0 || stored.ndim() == 0) return true;
  bool same = known.ndim() == stored.ndim();
  for (int axis = 0; same && axis < known.ndim(); ++axis) same = known[axis] == 0 || stored[axis] == 0 || known[axis] == stored[axis];
  return same;
}

void check_parameters(const std::string& path, const StoredStates& stored, const std::vector<ParameterPtr>& parameters) {
  const auto count = static_cast<int64_t>(parameters.size());
  for (const auto& [number, p] : stored.parameters)
    if (number < count && !fits(parameters[number]->shape(), p.shape))
      raise<UserError>(
          "'{}' holds states of another network: its parameter {} is '{}' of shape {}, that of this trainer is '{}' of shape {}", path,
          number, p.name, p.shape, parameters[number]->name(), parameters[number]->shape());
  const int64_t named = static_cast<int64_t>(stored.parameters.size()),
                last = stored.states.empty() ? 0 : stored.states.rbegin()->first[0] + 1;
  if ((named > 0 && named != count) || last > count)
    raise<UserError>("'{}' holds states of another network: it has {} parameters, this trainer has {}", path, std::max(named, last), count);
}

}  // namespace

void Trainer::save_states(const std::string& path) const {
  NamedTensors file{{"num_update", full({1}, static_cast<double>(num_update_), {.dtype = DType::float64})},
                    {std::string(kOptimizer) + optimizer_->name(), zeros({1})}};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Shape& shape = parameters_[i]->shape();
    file.emplace_back(fmt::format("{}{}:{}", kParameter, i, parameters_[i]->name()),
                      from_vector(std::vector<int64_t>(shape.begin(), shape.end())));
  }
  const bool is_dealt_out = options_.shard_states && distributed::size() > 1;
  const std::vector<std::vector<State>> gathered = is_dealt_out ? gather_states() : std::vector<std::vector<State>>();
  const std::vector<std::vector<State>>& states = is_dealt_out ? gathered : states_;
  for (size_t i = 0; i < states.size(); ++i)
    for (size_t c = 0; c < states[i].size(); ++c)
      for (size_t s = 0; s < states[i][c].tensors.size(); ++s) file.emplace_back(fmt::format("{}.{}.{}", i, c, s), states[i][c].tensors[s]);
  if (!is_dealt_out || distributed::rank() == 0) save_tensors(path, file);
  if (is_dealt_out) distributed::barrier();  // the file is there when anybody goes on
}

void Trainer::load_states(const std::string& path) {
  StoredStates stored = read_states(path);
  if (stored.optimizer != optimizer_->name())
    raise<UserError>("'{}' holds states of the optimizer {}, but this trainer's is {}", path, stored.optimizer, optimizer_->name());
  check_parameters(path, stored, parameters_);
  std::vector<std::vector<State>> states(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_own(i)) continue;
    const std::vector<Device>& devices = parameters_[i]->list_devices();
    states[i].resize(devices.size());
    const auto number = static_cast<int64_t>(i);
    for (size_t c = 0; c < devices.size(); ++c) {
      // Copies are the same: a file of a trainer on fewer devices has enough of them.
      const int64_t copy = stored.states.contains({number, static_cast<int64_t>(c), 0}) ? static_cast<int64_t>(c) : 0;
      State& state = states[i][c];
      for (int64_t s = 0; stored.states.contains({number, copy, s}); ++s)
        state.tensors.push_back(stored.states.at({number, copy, s}).to(devices[c]));
      state.is_created = !state.tensors.empty();
      if (state.is_created && parameters_[i]->is_initialized()) check_state(path, *parameters_[i], state, parameters_[i]->data(devices[c]));
    }
  }
  states_ = std::move(states);
  num_update_ = stored.num_update;
}

// Compares with what the optimizer would make now.
void Trainer::check_state(const std::string& path, const Parameter& p, const State& state, const Tensor& weight) const {
  const State wanted = make_state(weight.detach());
  if (wanted.tensors.size() != state.tensors.size())
    raise<UserError>("'{}' holds {} states of parameter '{}', but {} with this trainer's options keeps {}", path, state.tensors.size(),
                     p.name(), optimizer_->name(), wanted.tensors.size());
  for (size_t s = 0; s < wanted.tensors.size(); ++s) {
    const Tensor &found = state.tensors[s], &needed = wanted.tensors[s];
    if (!(found.shape() == needed.shape()) || found.dtype() != needed.dtype())
      raise<UserError>("'{}' holds states of another network: state {} of parameter '{}' is {} of shape {}, needed is {} of shape {}", path,
                       s, p.name(), found.dtype(), found.shape(), needed.dtype(), needed.shape());
  }
}

}  // namespace gluino
