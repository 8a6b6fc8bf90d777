// HybridBlock: tracing, caches and files. SymbolBlock: a block made of a graph.
#include <unordered_set>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "dispatch/mode.h"
#include "gluino/autograd.h"
#include "gluino/block.h"
#include "gluino/op.h"
#include "gluon/block/absent_label.h"
#include "gluon/block/parameter_names.h"
#include "graph/interpret.h"
#include "graph/propagate_types.h"
#include "graph/trace.h"
#include "io/zip.h"

namespace gluino {

HybridBlock::HybridBlock() : cache_(make_cache({})) {}
HybridBlock::HybridBlock(std::string prefix) : Block(std::move(prefix)), cache_(make_cache({})) {}
HybridBlock::HybridBlock(HybridBlock&& other)
    : Block(std::move(other)), active_(other.active_.load()), cache_(make_cache(other.cache_->options())) {}
HybridBlock::~HybridBlock() = default;

std::unique_ptr<HybridCache> HybridBlock::make_cache(HybridOptions options) {
  return std::make_unique<HybridCache>(options, [this](const Tensor& t) { return name_of_parameter(*this, t); });
}

void HybridBlock::check_child(const std::string& name, const Block& child) const {
  if (!dynamic_cast<const HybridBlock*>(&child))
    raise<UserError>("{} is hybrid, but its child '{}' is a {}, which is not; derive it from HybridBlock, or make the parent a plain Block",
                     kind(), name, child.kind());
}

void HybridBlock::hybridize(bool active, HybridOptions options) {
  active_ = active;
  {
    std::shared_ptr<HybridCache> fresh = make_cache(options);
    const std::lock_guard lock(cache_mutex_);
    cache_.swap(fresh);
  }
  Block::hybridize(active, options);
}
void HybridBlock::clear_caches() {
  held_cache()->clear();
  Block::clear_caches();
}

Tensors HybridBlock::run(const Tensors& inputs, std::span<const Tensor> destinations) {
  const bool nested = mode().tracing || std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.is_symbolic(); });
  if (!active_ || nested) return Block::call(inputs);
  // Hooks see concrete tensors at every call: where a block below has one, this one runs its forward, and the children are programs.
  if (has_hooks_below()) return Block::call(inputs);
  return run_with_hooks(inputs, [&] {
    const auto function = [this](const Tensors& traced) { return HybridCache::Result{forward(traced), nullptr}; };
    return held_cache()->call(function, inputs, "", destinations).tensors;
  });
}

HybridCache::Result HybridBlock::call_function(const HybridCache::Function& function, const Tensors& inputs, const std::string& structure) {
  const bool nested =
      mode().tracing || std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined() && t.is_symbolic(); });
  const bool is_compiled = active_ && !nested && !has_hooks_below();
  HybridCache::Result result;
  run_with_hooks(inputs, [&] {
    result = is_compiled ? held_cache()->call(function, inputs, structure) : function(inputs);
    return result.tensors;
  });
  return result;
}

void detail::refuse_plain_call(const Block& block, size_t given, size_t least, size_t most, bool is_plain) {
  if (!is_plain)
    raise<UserError>("{}: its forward takes or gives more than tensors, so it cannot run where tensors alone are passed on; call it itself",
                     block.kind());
  raise<UserError>("{}: {} tensors were given, {} are needed", block.kind(), given,
                   least == most ? std::to_string(least) : fmt::format("{} to {}", least, most));
}

// Another thread may empty the cache at any time, so graph and captured tensors are taken together.
HybridCache::Traced HybridBlock::traced() {
  if (active_)
    if (auto found = held_cache()->traced()) return std::move(*found);
  try {
    return {call_symbols({sym::var("data")}), {}};
  } catch (const UserError& e) {
    raise<UserError>("the graph of {} is not known yet ({}); hybridize() it and call it once first", kind(), e.what());
  }
}

Symbol HybridBlock::symbol() { return traced().symbol; }

// Parameters that the graph uses, as files name them; auxiliary states are told by the graph.
static NamedTensors exported(const HybridCache::Traced& traced, const HybridBlock& block) {
  const std::vector<std::string> arguments = traced.symbol.list_arguments(), states = traced.symbol.list_auxiliary_states();
  const ParameterDict params = block.collect_params();
  const TensorsByName captured(traced.captured);
  NamedTensors out;
  auto value = [&](const std::string& name) -> Tensor {
    if (params.contains(name)) return params[name]->data().detach();
    const Tensor* t = captured.find(name);
    return t ? *t : Tensor();
  };
  for (const std::string& name : arguments)
    if (const Tensor t = value(name); t.defined()) out.emplace_back("arg:" + name, t);
  for (const std::string& name : states)
    if (const Tensor t = value(name); t.defined()) out.emplace_back("aux:" + name, t);
  return out;
}

void HybridBlock::export_model(const std::string& path, int epoch) {
  if (epoch < 0) raise<UserError>("export_model: epoch {} is negative", epoch);
  const HybridCache::Traced t = traced();
  const std::string params = write_params(exported(t, *this)), json = t.symbol.to_json();
  // Both are complete before either gets its name, the parameters first: imports() tells where they do not belong together.
  write_files({{fmt::format("{}-{:04}.params", path, epoch), params}, {path + "-symbol.json", json}});
}

void HybridBlock::save(const std::string& path) {
  const HybridCache::Traced t = traced();
  const Symbol& s = t.symbol;
  const NamedTensors tensors = exported(t, *this);
  const TensorsByName by_name(tensors);
  nlohmann::json meta{{"format", "gluino"}, {"version", 1}, {"inputs", nlohmann::json::array()}};
  for (const std::string& name : s.list_inputs())
    if (!by_name.find_spelled(name)) meta["inputs"].push_back(name);
  write_file(path,
             io::write_zip({{"meta.json", json_text(meta, 2)}, {"symbol.json", s.to_json()}, {"model.params", write_params(tensors)}}));
}

// ---- SymbolBlock

using NameSet = std::unordered_set<std::string_view>;
static NameSet set_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

SymbolBlock::SymbolBlock(Symbol outputs, std::vector<std::string> inputs, const NamedTensors& parameters)
    : symbol_(std::move(outputs)), inputs_(std::move(inputs)) {
  add_parameters(parameters, false);
}
SymbolBlock::SymbolBlock(Symbol outputs, std::vector<std::string> inputs, NamedTensors&& parameters)
    : symbol_(std::move(outputs)), inputs_(std::move(inputs)) {
  add_parameters(parameters, true);
}

void SymbolBlock::add_parameters(const NamedTensors& parameters, bool take) {
  const std::vector<std::string> names = symbol_.list_inputs(), states = symbol_.list_auxiliary_states();
  const TensorsByName given(parameters);
  if (inputs_.empty())
    for (const std::string& name : names)
      if (!given.find_spelled(name) && !looks_like_label(name)) inputs_.push_back(name);
  const NameSet known = set_of(names), known_states = set_of(states), known_inputs = set_of(inputs_);
  for (const std::string& name : inputs_)
    if (!known.contains(name)) raise<UserError>("SymbolBlock: the graph has no input named '{}'{}", name, did_you_mean(name, names));
  for (const std::string& name : names) {
    if (known_inputs.contains(name)) continue;
    const bool is_state = known_states.contains(name);
    const Tensor* value = given.find_spelled(name);
    if (!value && looks_like_label(name)) continue;  // see add_absent_labels
    ParameterOptions options{
        .grad_req = is_state || looks_like_label(name) ? GradReq::null : GradReq::write, .is_state = is_state, .differentiable = !is_state};
    if (value) {
      options.shape = value->shape();
      options.dtype = value->dtype();
    }
    const ParameterPtr p = add_parameter(name, options);
    if (value && take)
      p->take_data(*value);
    else if (value)
      p->set_data(*value);
  }
  graph_ = std::make_shared<Graph>(symbol_.graph());
}

// Parameters of another graph lack some that this one needs, and have others instead. What is merely absent may be set later.
static void check_belong_together(const std::string& symbol_path, const Symbol& symbol, const std::vector<std::string>& inputs,
                                  const std::string& params_path, const NamedTensors& parameters) {
  if (inputs.empty() || parameters.empty()) return;  // then what is absent is an input
  const std::vector<std::string> names = symbol.list_inputs();
  std::vector<std::string> given;
  for (const auto& [name, t] : parameters) given.push_back(name.starts_with("arg:") || name.starts_with("aux:") ? name.substr(4) : name);
  const NameSet has = set_of(given), known_inputs = set_of(inputs), needs = set_of(names);
  const auto absent = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return !has.contains(name) && !known_inputs.contains(name) && !looks_like_label(name);
  });
  const auto other = std::find_if(given.begin(), given.end(), [&](const std::string& name) { return !needs.contains(name); });
  if (absent != names.end() && other != given.end())
    raise<UserError>(
        "'{}' and '{}' do not belong together: the graph needs '{}', which the parameters lack, and they have '{}', which it lacks",
        symbol_path, params_path, *absent, *other);
}

std::unique_ptr<SymbolBlock> SymbolBlock::imports(const std::string& symbol_path, std::vector<std::string> inputs,
                                                  const std::string& params_path) {
  Symbol symbol = Symbol::load(symbol_path);
  NamedTensors parameters = params_path.empty() ? NamedTensors{} : load_tensors(params_path);
  check_belong_together(symbol_path, symbol, inputs, params_path, parameters);
  return std::make_unique<SymbolBlock>(std::move(symbol), std::move(inputs), std::move(parameters));
}

std::unique_ptr<SymbolBlock> SymbolBlock::load(const std::string& path) { return read(read_file(path), path); }

std::unique_ptr<SymbolBlock> SymbolBlock::read(const std::string& bytes, const std::string& what) {
  const io::ZipEntries entries = io::read_zip(bytes, what);
  auto entry = [&](std::string_view name) -> const std::string& {
    for (const auto& [n, content] : entries)
      if (n == name) return content;
    raise<SystemError>("{}: the file has no '{}'; was it written by save()?", what, name);
  };
  std::vector<std::string> inputs;
  try {
    const nlohmann::json meta = parse_json(entry("meta.json"));
    for (const auto& name : meta.at("inputs")) inputs.push_back(name.get<std::string>());
  } catch (const nlohmann::json::exception& e) {
    raise<SystemError>("{}: meta.json is damaged: {}", what, e.what());
  }
  return std::make_unique<SymbolBlock>(Symbol::from_json(entry("symbol.json"), what), inputs, read_params(entry("model.params"), what));
}

Tensors SymbolBlock::forward(const Tensors& inputs) {
  if (inputs.size() != inputs_.size())
    raise<UserError>("SymbolBlock: {} inputs were given, {} are needed: {}", inputs.size(), inputs_.size(), fmt::join(inputs_, ", "));
  Graph graph = *graph_;
  ShapeMap shapes;
  DTypeMap types;
  bool known = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    known &= has_known_shape(inputs[i]);
    if (has_known_shape(inputs[i])) shapes[inputs_[i]] = peek_shape(inputs[i]);
    types[inputs_[i]] = inputs[i].dtype();
  }
  for (const auto& [name, p] : own_parameters())
    if (p->is_initialized()) {
      shapes[name] = p->shape();
      types[name] = p->dtype();
    }
  if (known) infer_graph(graph, shapes, types);
  TensorMap tensors;
  for (size_t i = 0; i < inputs.size(); ++i) tensors[inputs_[i]] = inputs[i];
  std::unordered_map<std::string_view, Parameter*> parameters;
  for (const auto& [name, p] : own_parameters()) parameters[name] = p.get();
  for (const Graph::Node& node : graph.nodes) {
    if (!node.is_variable() || tensors.contains(node.name)) continue;
    if (const auto found = parameters.find(node.name); found != parameters.end()) {
      Parameter& p = *found->second;
      if (!p.is_initialized() && node.outputs[0].shape && node.outputs[0].shape->is_known()) p.complete(*node.outputs[0].shape);
      tensors[node.name] = p.data();
    }
  }
  add_absent_labels(graph, inputs, tensors);
  return interpret(graph, bind_variables(graph, tensors, "SymbolBlock"));
}

void SymbolBlock::cast(DType dtype) {
  HybridBlock::cast(dtype);
  if (dtype != DType::float16 && dtype != DType::bfloat16) return;
  const std::set<std::string> wide = wide_variables(*graph_);
  for (const auto& [name, p] : own_parameters())
    if (wide.contains(name)) p->cast(DType::float32);
}

std::string SymbolBlock::describe() const { return fmt::format("{} : {} operators", fmt::join(inputs_, ", "), graph_->nodes.size()); }

}  // namespace gluino
