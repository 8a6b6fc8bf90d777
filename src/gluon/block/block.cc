#include "gluino/block.h"

#include <cxxabi.h>

#include <atomic>
#include <map>
#include <mutex>
#include <ostream>
#include <optional>
#include <set>

#include "base/fork.h"
#include "base/format.h"
#include "base/name_pattern.h"
#include "dispatch/infer.h"
#include "gluino/autograd.h"
#include "gluon/block/parameter_names.h"
#include "graph/trace.h"

namespace gluino {
namespace {

std::string lower(std::string s) {
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}

// Names follow from the tree and are worked out when asked for.
NoForkRecursiveMutex naming;
std::atomic<int64_t> tree_version = 0;

// Numbers blocks of one kind that have no parent: dense0, dense1, ...
int next_number(const std::string& kind) {
  static std::map<std::string, int> counters;
  return counters[kind]++;
}

}  // namespace

// Children outlive their parents where somebody shares them, and parents their children where these are members of something else.
Block::~Block() {
  for (Child& c : children_) c.block->parent_ = nullptr;
  for (auto& [name, p] : parameters_)
    if (p->owner_ == this) {
      p->suffix_ = (parent_ ? prefix_ : own_prefix_.value_or(root_prefix_)) + p->suffix_;  // whoever holds it knows it by this name
      p->owner_ = nullptr;
    }
  if (!parent_) return;
  // Members go in reverse order, so the last child is looked at first.
  auto& siblings = parent_->children_;
  const auto self = std::find_if(siblings.rbegin(), siblings.rend(), [&](const Child& c) { return c.block == this; });
  if (self != siblings.rend()) siblings.erase(std::next(self).base());
  ++tree_version;
}

Block::Block(Block&& other)
    : own_prefix_(std::move(other.own_prefix_)),
      root_prefix_(std::move(other.root_prefix_)),
      children_(std::move(other.children_)),
      child_places_(std::move(other.child_places_)),
      parameters_(std::move(other.parameters_)),
      pre_hooks_(std::move(other.pre_hooks_)),
      hooks_(std::move(other.hooks_)),
      next_hook_(other.next_hook_) {
  if (other.parent_) throw UserError("a block that is already a child cannot be moved");
  for (Child& c : children_) {
    if (!c.owned) throw UserError("a block whose children are members cannot be moved; make it where it stays, e.g. with add<Net>(...)");
    c.block->parent_ = this;
  }
  for (auto& [name, p] : parameters_) p->owner_ = this;
  ++tree_version;
}

// ---- forward and call

Tensor Block::first_of(Tensors results) const {
  if (results.empty()) raise<UserError>("forward of {} gave no result, but one was asked for", kind());
  return std::move(results[0]);
}
Tensor Block::forward(const Tensor& x) { return first_of(forward(Tensors{x})); }
Tensor Block::forward(const Tensor& a, const Tensor& b) { return first_of(forward(Tensors{a, b})); }
Tensor Block::forward(const Tensor& a, const Tensor& b, const Tensor& c) { return first_of(forward(Tensors{a, b, c})); }
// Calls the overload with as many arguments. One that is not overridden comes back here: the guard sees that.
Tensors Block::forward(const Tensors& inputs) {
  thread_local const Block* inside = nullptr;
  if (inside == this || inputs.empty() || inputs.size() > 3) raise<UserError>("{} defines no forward for {} inputs", kind(), inputs.size());
  struct Guard {
    const Block*& slot;
    const Block* previous;
    ~Guard() { slot = previous; }
  } guard{inside, inside};
  inside = this;
  if (inputs.size() == 1) return {forward(inputs[0])};
  if (inputs.size() == 2) return {forward(inputs[0], inputs[1])};
  return {forward(inputs[0], inputs[1], inputs[2])};
}

// In all blocks together: as long as there is none, nobody needs to look for them.
static std::atomic<int> hook_count{0};

bool Block::has_hooks_below() const {
  if (hook_count.load(std::memory_order_relaxed) == 0) return false;
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& c) { return !c.block->hooks_.empty() || !c.block->pre_hooks_.empty() || c.block->has_hooks_below(); });
}

Tensors Block::run_with_hooks(const Tensors& inputs, const std::function<Tensors()>& body) {
  if (!hooks_.empty() || !pre_hooks_.empty())
    if (Tracer* tracer = Tracer::current()) tracer->refuse(fmt::format("{} has hooks, which run at every call", path()));
  // Parameters answer with their copy on the device of the input.
  std::optional<DeviceScope> scope;
  if (!inputs.empty() && inputs[0].defined() && inputs[0].device() != current_device()) scope.emplace(inputs[0].device());
  for (const auto& [number, hook] : pre_hooks_) hook(*this, inputs);
  Tensors outputs;
  try {
    outputs = body();
  } catch (const UserError& e) {
    // The innermost block names itself.
    if (e.located() == Located::in_network || !parent_) throw;
    rethrow_as(fmt::format("{} (in {}, a {})", e.what(), path(), kind()), Located::in_network);
  }
  for (const auto& [number, hook] : hooks_) hook(*this, inputs, outputs);
  return outputs;
}
Tensors Block::call(const Tensors& inputs) {
  return run_with_hooks(inputs, [&] { return forward(inputs); });
}

static const detail::TensorImpl& checked(const Tensor& t) {
  if (!t.defined()) throw UserError("the input is a null tensor: it was never assigned");
  return impl_of(t);
}
const Shape& Block::peek_shape(const Tensor& t) { return checked(t).shape; }
bool Block::has_known_shape(const Tensor& t) { return !checked(t).symbolic || checked(t).symbolic->has_shape; }

Symbol Block::call_symbols(const std::vector<Symbol>& inputs) {
  // Parameters met on the way become variables with their names.
  class NamingTracer final : public Tracer {
   public:
    explicit NamingTracer(const Block& b) : block_(b) {}
    std::string name_for(const Tensor& t) override {
      const std::string name = name_of_parameter(block_, t);
      return name.empty() ? Tracer::name_for(t) : name;
    }

   private:
    const Block& block_;
  };
  Tensors tensors;
  for (const Symbol& s : inputs)
    for (int i = 0; i < s.num_outputs(); ++i) tensors.push_back(s.tensor(i));
  NamingTracer tracer(*this);
  std::vector<Value> outputs;
  for (const Tensor& t : forward(tensors)) outputs.push_back(value_of(t));
  for (const auto& [tensor, value] : tracer.captured()) value.node->constant = Tensor();
  return Symbol(std::move(outputs));
}

// ---- children

void Block::check_child(const std::string&, const Block&) const {}

void Block::check_no_cycle(const Block& child) const {
  for (const Block* b = this; b; b = b->parent_)
    if (b == &child) raise<UserError>("{} cannot be a child of itself or of a block below it", child.kind());
}
std::string Block::take_name(std::string_view& names) {
  const size_t end = names.find(',');
  std::string_view name = names.substr(0, end);
  name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
  names = end == std::string_view::npos ? std::string_view() : names.substr(end + 1);
  return std::string(name);
}

void Block::attach(const std::string& name, Block& child) {
  check_child(name, child);
  if (child.parent_) raise<UserError>("{}: '{}' is already a child of {}", kind(), name, child.parent_->kind());
  check_no_cycle(child);
  if (!child_places_.try_emplace(name, children_.size()).second) raise<UserError>("{} already has a child named '{}'", kind(), name);
  child.parent_ = this;
  child.name_in_parent_ = name;
  ++tree_version;
}
void Block::add_child(const std::string& name, Block& child) {
  attach(name, child);
  children_.push_back({name, &child, nullptr});
  invalidate();
}
void Block::own_child(const std::string& name, std::shared_ptr<Block> child) {
  if (!child) raise<UserError>("{}: the child '{}' is null", kind(), name);
  attach(name, *child);
  children_.push_back({name, child.get(), child});
  invalidate();
}
void Block::replace_child(const std::string& name, std::shared_ptr<Block> child) {
  if (!child) raise<UserError>("{}: the new child '{}' is null", kind(), name);
  const auto known = child_places_.find(name);
  if (known == child_places_.end()) raise<UserError>("{} has no child named '{}' to replace", kind(), name);
  check_child(name, *child);
  check_no_cycle(*child);
  Child& c = children_[known->second];
  c.block->parent_ = nullptr;
  child->parent_ = this;
  child->name_in_parent_ = name;
  ++tree_version;
  c = {name, child.get(), child};
  invalidate();
}
Block& Block::child(const std::string& name) const {
  if (const auto known = child_places_.find(name); known != child_places_.end()) return *children_[known->second].block;
  std::vector<std::string> names;
  for (const Child& c : children_) names.push_back(c.name);
  raise<UserError>("{} has no child named '{}'{}", kind(), name, did_you_mean(name, names));
}

Block& Block::child(size_t number) const {
  if (number >= children_.size()) raise<IndexError>("{} has {} children, but number {} was asked for", kind(), children_.size(), number);
  return *children_[number].block;
}

// ---- names

std::string Block::kind() const {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? text.get() : typeid(*this).name();
  if (const size_t colon = name.rfind("::"); colon != std::string::npos) name = name.substr(colon + 2);
  return name;
}
void Block::set_prefix(std::string prefix) {
  const std::lock_guard lock(naming);
  own_prefix_ = std::move(prefix);
  ++tree_version;
}
std::string Block::hint() const { return lower(kind()); }

// Gives prefixes to everything in this block's scope: its children, and what is below those that are see-through.
void Block::name_scope(const std::string& prefix) const {
  std::map<std::string, int> counters;
  const std::function<void(const Block&)> visit = [&](const Block& b) {
    for (const Child& c : b.children_) {
      const Block& child = *c.block;
      child.prefix_version_ = tree_version;
      child.prefix_ = prefix;
      if (!child.own_prefix_) {
        const std::string kind = child.hint();
        child.prefix_ += fmt::format("{}{}_", kind, counters[kind]++);
      } else if (child.own_prefix_->empty()) {
        visit(child);
      } else {
        child.prefix_ += *child.own_prefix_;
      }
    }
  };
  visit(*this);
}
std::string Block::prefix() const {
  const std::lock_guard lock(naming);
  if (parent_) {
    if (prefix_version_ == tree_version) return prefix_;
    const Block* scope = parent_;
    while (scope->parent_ && scope->own_prefix_ == "") scope = scope->parent_;
    scope->name_scope(scope->prefix());
    return prefix_;
  }
  if (own_prefix_) return *own_prefix_;
  if (root_prefix_.empty()) root_prefix_ = fmt::format("{}{}_", hint(), next_number(hint()));
  return root_prefix_;
}
std::string Block::name() const {
  const std::string p = prefix();
  return p.ends_with('_') ? p.substr(0, p.size() - 1) : p;
}
std::string Block::path() const { return parent_ ? parent_->path() + "." + name_in_parent_ : lower(kind()); }

// ---- parameters

ParameterPtr Block::add_parameter(const std::string& name, ParameterOptions options) {
  auto p = std::make_shared<Parameter>(name, std::move(options));
  p->owner_ = this;
  parameters_.emplace_back(name, p);
  return p;
}
ParameterPtr Block::add_constant(const std::string& name, const Tensor& value) {
  auto p = Parameter::constant(name, value);
  p->owner_ = this;
  parameters_.emplace_back(name, p);
  return p;
}
void Block::collect(const std::string& path, ParameterDict& structural) const {
  for (const auto& [name, p] : parameters_) structural.add(path + name, p);
  for (const Child& c : children_) c.block->collect(path + c.name + ".", structural);
}
ParameterDict Block::collect_structural_params() const {
  ParameterDict d;
  collect("", d);
  return d;
}
ParameterDict Block::collect_params(const std::string& pattern) const {
  ParameterDict d;
  std::optional<NamePattern> filter;
  if (!pattern.empty()) filter.emplace(pattern);
  std::set<std::string> seen;
  for (const auto& [path, p] : collect_structural_params()) {
    const std::string name = p->name();
    if (seen.insert(name).second && (!filter || filter->fits_beginning(name))) d.add(name, p);
  }
  return d;
}
std::string name_of_parameter(const Block& block, const Tensor& t) {
  const Parameter* p = Parameter::with_value(t);
  const Block* b = p ? p->owner() : nullptr;
  while (b && b != &block) b = b->parent();
  return b ? p->name() : "";
}
void Block::initialize(const init::InitializerPtr& init, Device device, bool force_reinit) {
  collect_params().initialize(init, device, force_reinit);
  clear_caches();
  invalidate();
}
void Block::initialize(const init::InitializerPtr& init, const std::vector<Device>& devices, bool force_reinit) {
  collect_params().initialize(init, devices, force_reinit);
  clear_caches();
  invalidate();
}
void Block::reset_devices(const std::vector<Device>& devices) {
  collect_params().reset_devices(devices);
  clear_caches();
  invalidate();
}
void Block::build(const std::vector<Shape>& input_shapes, DType dtype) {
  // A trace on symbols of these shapes: layers complete their parameters, nothing is computed.
  Tracer tracer;
  Tensors inputs;
  for (size_t i = 0; i < input_shapes.size(); ++i)
    inputs.push_back(tracer.add_input(fmt::format("data{}", i), input_shapes[i], dtype, current_device()));
  forward(inputs);
}
void Block::save_parameters(const std::string& path) const { collect_structural_params().save(path); }

static std::string bare(const std::string& name) { return name.starts_with("arg:") || name.starts_with("aux:") ? name.substr(4) : name; }

// The spelling that fits the most names of the file: by structure ("0.weight"), with the prefix ("net0_dense0_weight"), without it
// ("dense0_weight"), or with the prefix of another block of the same kind.
static ParameterDict spelled_as(const NamedTensors& file, const Block& block) {
  const ParameterDict structural = block.collect_structural_params(), prefixed = block.collect_params();
  std::vector<std::string> prefixes{block.prefix(), ""};
  for (const auto& [name, p] : prefixed) {
    const std::string relative = name.substr(block.prefix().size()), first = file.empty() ? "" : bare(file[0].first);
    if (first.size() > relative.size() && first.ends_with("_" + relative))
      prefixes.push_back(first.substr(0, first.size() - relative.size()));
  }
  auto fits = [&](const ParameterDict& names) {
    return std::count_if(file.begin(), file.end(), [&](const auto& entry) { return names.contains(bare(entry.first)); });
  };
  ParameterDict best = structural;
  for (const std::string& prefix : prefixes) {
    ParameterDict candidate;
    for (const auto& [name, p] : prefixed) candidate.add(prefix + name.substr(block.prefix().size()), p);
    if (fits(candidate) > fits(best)) best = candidate;
  }
  return best;
}

void Block::load_parameters(const std::string& path, bool allow_missing, bool ignore_extra, bool cast_dtype) {
  const NamedTensors file = load_tensors(path);
  const ParameterDict names = spelled_as(file, *this);
  if (cast_dtype)
    for (const auto& [name, t] : file)
      if (names.contains(bare(name)) && t.defined()) names[bare(name)]->cast(t.dtype());
  names.load(path, allow_missing, ignore_extra);
  clear_caches();
  invalidate();
}

void Block::apply(const std::function<void(Block&)>& f) {
  for (const Child& c : children_) c.block->apply(f);
  f(*this);
}
void Block::cast(DType dtype) {
  for (const Child& c : children_) c.block->cast(dtype);
  for (const auto& [name, p] : parameters_) p->cast(dtype);
  clear_caches();
  invalidate();
}

// ---- hooks, hybridize, caches

int Block::add_pre_hook(PreHook hook) {
  pre_hooks_.emplace_back(next_hook_, std::move(hook));
  ++hook_count;
  return next_hook_++;
}
int Block::add_hook(Hook hook) {
  hooks_.emplace_back(next_hook_, std::move(hook));
  ++hook_count;
  return next_hook_++;
}
void Block::remove_hook(int number) {
  const auto removed = std::erase_if(pre_hooks_, [&](const auto& h) { return h.first == number; }) +
                       std::erase_if(hooks_, [&](const auto& h) { return h.first == number; });
  hook_count -= static_cast<int>(removed);
}
void Block::hybridize(bool active, HybridOptions options) {
  for (const Child& c : children_) c.block->hybridize(active, options);
}
void Block::clear_caches() {
  for (const Child& c : children_) c.block->clear_caches();
}
void Block::invalidate() {
  for (Block* b = parent_; b; b = b->parent_)
    if (auto* h = dynamic_cast<HybridBlock*>(b)) h->cache().clear();
  if (auto* h = dynamic_cast<HybridBlock*>(this)) h->cache().clear();
}

// ---- text

static std::string indented(const std::string& text) {
  std::string out;
  for (char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}
std::string Block::str() const {
  const std::string inside = describe();
  if (children_.empty()) return fmt::format("{}({})", kind(), inside);
  std::string text = kind() + "(\n";
  for (const Child& c : children_) text += fmt::format("  ({}): {}\n", c.name, indented(c.block->str()));
  return text + ")";
}
std::ostream& operator<<(std::ostream& os, const Block& block) { return os << block.str(); }

std::string Block::summary(const std::vector<Shape>& input_shapes) {
  struct Row {
    std::string name, shape;
    int64_t parameters;
  };
  std::vector<Row> rows;
  std::vector<std::pair<Block*, int>> hooks;
  apply([&](Block& b) {
    hooks.emplace_back(&b, b.add_hook([&rows](Block& block, const Tensors&, const Tensors& outputs) {
      int64_t count = 0;
      for (const auto& [name, p] : block.own_parameters()) count += p->shape().elements();
      rows.push_back({fmt::format("{} ({})", block.kind(), block.path()), outputs.empty() ? "" : peek_shape(outputs[0]).str(), count});
    }));
  });
  {
    Tracer tracer;
    Tensors inputs;
    for (const Shape& s : input_shapes) inputs.push_back(tracer.add_input("data", s, DType::float32, current_device()));
    Block::call(inputs);
  }
  for (auto& [block, number] : hooks) block->remove_hook(number);
  std::string text = fmt::format("{:<48} {:<24} {:>12}\n{:-<86}\n", "Layer", "Output shape", "Parameters", "");
  int64_t total = 0;
  for (const Row& r : rows) {
    text += fmt::format("{:<48} {:<24} {:>12}\n", r.name, r.shape, r.parameters);
    total += r.parameters;
  }
  return text + fmt::format("{:-<86}\n{} parameters\n", "", total);
}

}  // namespace gluino
