// Block and HybridBlock: networks written imperatively; hybridize() runs them as compiled programs.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include "gluino/hybrid.h"
#include "gluino/detail/lock.h"
#include "gluino/parameter.h"
#include "gluino/symbol.h"

namespace gluino {

class HybridBlock;

class Block {
 public:
  Block() = default;
  // Names of parameters start with the prefix; "" makes the block see-through: what is below counts as the parent's.
  explicit Block(std::string prefix) : own_prefix_(std::move(prefix)) {}
  virtual ~Block();
  // A block may be moved while it has no member children: into a Sequential, for instance.
  Block(Block&& other);
  Block& operator=(Block&&) = delete;

  // What the network computes. Override the one that fits; the others call it.
  virtual Tensor forward(const Tensor& x);
  virtual Tensor forward(const Tensor& a, const Tensor& b);
  virtual Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c);
  virtual Tensors forward(const Tensors& inputs);

  Tensor operator()(const Tensor& x) { return first_of(call({x})); }
  Tensor operator()(const Tensor& a, const Tensor& b) { return first_of(call({a, b})); }
  Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c) { return first_of(call({a, b, c})); }
  Tensors operator()(const Tensors& inputs) { return call(inputs); }
  // The symbolic program: net(sym::var("data")).
  Symbol operator()(const Symbol& x) { return call_symbols({x}); }
  Symbol call_symbols(const std::vector<Symbol>& inputs);

  // Children that are members: name them as the members are named, or GLUINO_CHILDREN(hidden, output).
  void add_child(const std::string& name, Block& child);
  template <class... B>
  void add_children(B&... children) {
    (add_child(std::to_string(children_.size()), children), ...);
  }
  // `names` are the members' names with commas between them, as the macro GLUINO_CHILDREN writes them.
  template <class... B>
  void add_named_children(std::string_view names, B&... children) {
    (add_child(take_name(names), children), ...);
  }
  // Children that this block owns. A block whose children are all its own can be moved.
  void own_child(const std::string& name, std::shared_ptr<Block> child);
  template <class B, class... A>
  std::shared_ptr<B> make_child(const std::string& name, A&&... arguments) {
    auto made = std::make_shared<B>(std::forward<A>(arguments)...);
    own_child(name, made);
    return made;
  }
  void replace_child(const std::string& name, std::shared_ptr<Block> child);
  Block& child(const std::string& name) const;
  Block& child(size_t number) const;
  struct Child {
    std::string name;
    Block* block;
    std::shared_ptr<Block> owned;
  };
  const std::vector<Child>& children() const { return children_; }
  const Block* parent() const { return parent_; }

  ParameterPtr add_parameter(const std::string& name, ParameterOptions options = {});
  ParameterPtr add_constant(const std::string& name, const Tensor& value);
  const std::vector<std::pair<std::string, ParameterPtr>>& own_parameters() const { return parameters_; }

  // "net0_dense1_": the prefix of the parent, the kind, and a number.
  std::string prefix() const;
  void set_prefix(std::string prefix);
  virtual std::string hint() const;  // what a generated prefix starts with: the kind in lower case
  std::string name() const;          // the prefix without its last underscore
  std::string kind() const;          // "Dense": the class's name
  std::string path() const;          // where it stands: "net.hidden"
  std::string parameter_name(const std::string& suffix) const { return prefix() + suffix; }

  // By names with prefixes. A pattern is a regular expression that names begin with: ".*weight".
  ParameterDict collect_params(const std::string& pattern = "") const;
  ParameterDict collect_structural_params() const;  // "0.weight"
  void initialize(const init::InitializerPtr& init = nullptr, Device device = current_device(), bool force_reinit = false);
  void initialize(const init::InitializerPtr& init, const std::vector<Device>& devices, bool force_reinit = false);
  void reset_devices(const std::vector<Device>& devices);
  // Completes deferred shapes without computing: as the first call would.
  void build(const std::vector<Shape>& input_shapes, DType dtype = DType::float32);
  void save_parameters(const std::string& path) const;
  // Takes structural names, prefixed names and arg:/aux: names.
  void load_parameters(const std::string& path, bool allow_missing = false, bool ignore_extra = false, bool cast_dtype = false);
  void zero_grad() const { collect_params().zero_grad(); }
  void apply(const std::function<void(Block&)>& f);
  virtual void cast(DType dtype);

  using PreHook = std::function<void(Block&, const Tensors& inputs)>;
  using Hook = std::function<void(Block&, const Tensors& inputs, const Tensors& outputs)>;
  // Returns a number for remove_hook. Hooks run at every call, hybridized or not.
  int add_pre_hook(PreHook hook);
  int add_hook(Hook hook);
  void remove_hook(int number);

  // On a plain Block: hybridizes the hybrid blocks below.
  virtual void hybridize(bool active = true, HybridOptions options = {});
  virtual void clear_caches();

  std::string str() const;                                      // the tree
  std::string summary(const std::vector<Shape>& input_shapes);  // output shapes and parameter counts, layer by layer
  virtual std::string describe() const { return ""; }           // what stands in the brackets of str()

 protected:
  virtual Tensors call(const Tensors& inputs);
  Tensors run_with_hooks(const Tensors& inputs, const std::function<Tensors()>& body);
  // For layers: the shape of a tensor without making it a guard.
  static const Shape& peek_shape(const Tensor& t);
  static bool has_known_shape(const Tensor& t);
  virtual void check_child(const std::string& name, const Block& child) const;
  bool has_hooks_below() const;
  void invalidate();  // this block's and all parents' caches

 private:
  friend class Parameter;
  Tensor first_of(Tensors results) const;
  static std::string take_name(std::string_view& names);  // the first one, which is left out then
  void attach(const std::string& name, Block& child);
  void check_no_cycle(const Block& child) const;
  void collect(const std::string& path, ParameterDict& structural) const;
  void name_scope(const std::string& prefix) const;
  std::optional<std::string> own_prefix_;
  mutable std::string root_prefix_;  // given once, to a block without a parent
  mutable std::string prefix_;       // as of prefix_version_, a count of the changes to any tree of blocks
  mutable int64_t prefix_version_ = -1;
  Block* parent_ = nullptr;
  std::string name_in_parent_;
  std::vector<Child> children_;
  std::unordered_map<std::string, size_t> child_places_;  // in children_, by name
  std::vector<std::pair<std::string, ParameterPtr>> parameters_;
  std::vector<std::pair<int, PreHook>> pre_hooks_;
  std::vector<std::pair<int, Hook>> hooks_;
  int next_hook_ = 0;
};

std::ostream& operator<<(std::ostream& os, const Block& block);

// Registers members as children under their own names: GLUINO_CHILDREN(hidden, output).
#define GLUINO_CHILDREN(...) add_named_children(#__VA_ARGS__, __VA_ARGS__)

// A block whose forward can be traced: all its children are hybrid too.
class HybridBlock : public Block {
 public:
  HybridBlock();
  explicit HybridBlock(std::string prefix);
  HybridBlock(HybridBlock&& other);
  ~HybridBlock() override;

  void hybridize(bool active = true, HybridOptions options = {}) override;
  bool is_hybridized() const { return active_; }
  void clear_caches() override;

  // Writes path-symbol.json and path-0000.params for MXNet 1.9 and SymbolBlock::imports.
  void export_model(const std::string& path, int epoch = 0);
  // One file: graph, parameters, input names, version. load() in SymbolBlock reads it.
  void save(const std::string& path);
  Symbol symbol();  // the traced program; by tracing symbols when no call has been made

  std::string explain(const std::string& html = "") const { return held_cache()->explain(html, name()); }  // html: a page to write
  std::string memory_plan() const { return held_cache()->memory_plan(); }
  // The graph that runs, or the one traced, for graphviz and as a picture.
  std::string to_dot(bool before = false) const { return (before ? held_cache()->graph_before() : held_cache()->graph_after()).to_dot(); }
  std::string to_svg(bool before = false) const { return before ? held_cache()->svg_before() : held_cache()->svg_after(); }
  HybridCache& cache() { return *held_cache(); }  // until the next hybridize()

  // As operator(); results of a compiled program are in the memory of `destinations` where it fits (see HybridCache::call).
  Tensors call_into(const Tensors& inputs, std::span<const Tensor> destinations) { return run(inputs, destinations); }

 protected:
  Tensors call(const Tensors& inputs) override { return run(inputs, {}); }
  // A call of another function of this block than forward(Tensors); see HybridCache::call.
  HybridCache::Result call_function(const HybridCache::Function& function, const Tensors& inputs, const std::string& structure);
  void check_child(const std::string& name, const Block& child) const override;

 private:
  Tensors run(const Tensors& inputs, std::span<const Tensor> destinations);
  std::unique_ptr<HybridCache> make_cache(HybridOptions options);
  HybridCache::Traced traced();
  // Whoever uses the cache holds it: hybridize() may put another in its place meanwhile.
  std::shared_ptr<HybridCache> held_cache() const {
    const std::lock_guard lock(cache_mutex_);
    return cache_;
  }
  std::atomic<bool> active_ = false;
  mutable NoForkMutex cache_mutex_;
  std::shared_ptr<HybridCache> cache_;
};

// A block whose forward takes and gives what it likes: tensors, numbers, texts, optionals, pairs, tuples, vectors, structs that list their
// members (detail/structure.h). Numbers, and which optionals are there, are part of the signature of a compiled program.
//   struct Attend : HybridBlockOf<Attend> {
//     Tensor forward(const Tensor& query, const Tensor& keys, const std::optional<Tensor>& mask, double temperature);
//   };
//   Attend attend;  attend(q, k, std::nullopt, 0.5);
// In containers and files it is a function of tensors alone: where forward takes tensors, the last ones perhaps optional, and gives one or
// several. A forward of one to three tensors and nothing else gives one, as HybridBlock's do.
namespace detail {
[[noreturn]] void refuse_plain_call(const Block& block, size_t given, size_t least, size_t most, bool is_plain);

template <class Self>
class PlainForward : public HybridBlock {
 public:
  using HybridBlock::HybridBlock;
  Tensors forward(const Tensors& inputs) override { return plain(inputs, std::type_identity<PlainSignature<decltype(&Self::forward)>>()); }

 private:
  template <class S>
  Tensors plain(const Tensors& inputs, std::type_identity<S>) {
    return [&]<class... A>(std::type_identity<std::tuple<A...>>) -> Tensors {
      using Result = KeptResult<typename S::Result>;
      constexpr bool is_plain = ((std::is_same_v<A, Tensor> || std::is_same_v<A, std::optional<Tensor>>)&&...) &&
                                (std::is_same_v<Result, Tensor> || std::is_same_v<Result, Tensors>);
      constexpr size_t most = sizeof...(A), least = (size_t{0} + ... + std::is_same_v<A, Tensor>);
      if (!is_plain || inputs.size() < least || inputs.size() > most) refuse_plain_call(*this, inputs.size(), least, most, is_plain);
      if constexpr (is_plain) {
        Tensors padded = inputs;
        padded.resize(most);
        size_t at = 0;
        const auto next = [&]<class T>(std::type_identity<T>) -> T {
          const Tensor t = padded[at++];
          return t.defined() ? T(t) : T();
        };
        std::tuple<A...> arguments{next(std::type_identity<A>())...};
        if constexpr (std::is_same_v<Result, Tensor>)
          return {std::apply([this](A&... a) { return static_cast<Self&>(*this).forward(a...); }, arguments)};
        else
          return std::apply([this](A&... a) { return static_cast<Self&>(*this).forward(a...); }, arguments);
      }
      return {};
    }(std::type_identity<typename S::Arguments>());
  }
};
}  // namespace detail

template <class Self>
class HybridBlockOf : public detail::PlainForward<Self> {
 public:
  using detail::PlainForward<Self>::PlainForward;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverloaded-virtual"
  void forward() = delete;  // Self has its own: what that one hides is meant to be hidden
#pragma GCC diagnostic pop

  template <class... A>
  auto operator()(A&&... given) {
    using Signature = detail::PlainSignature<decltype(&Self::forward)>;
    using Arguments = typename Signature::Arguments;
    using Returned = typename Signature::Result;
    static_assert(std::is_constructible_v<Arguments, A...>, "a block is called with the arguments of its forward, all of them");
    auto forward = [this](const auto&... arguments) -> Returned { return static_cast<Self&>(*this).forward(arguments...); };
    const auto call = [this](const auto& function, const Tensors& inputs, const std::string& structure) {
      return this->call_function(function, inputs, structure);
    };
    return static_cast<std::conditional_t<std::is_void_v<Returned>, void, detail::KeptResult<Returned>>>(
        detail::call_structured<Returned>(Arguments(std::forward<A>(given)...), forward, call));
  }
};

// A block made of a graph: a loaded model runs, trains and hybridizes like any other.
class SymbolBlock : public HybridBlock {
 public:
  SymbolBlock(Symbol outputs, std::vector<std::string> inputs, const NamedTensors& parameters = {});
  SymbolBlock(Symbol outputs, std::vector<std::string> inputs, NamedTensors&& parameters);  // takes over their memory
  // Inputs are inferred when empty: the variables that the parameters leave over, labels aside.
  static std::unique_ptr<SymbolBlock> imports(const std::string& symbol_path, std::vector<std::string> inputs = {},
                                              const std::string& params_path = "");
  static std::unique_ptr<SymbolBlock> load(const std::string& path);                            // what HybridBlock::save wrote
  static std::unique_ptr<SymbolBlock> read(const std::string& bytes, const std::string& what);  // the same in memory; messages name `what`
  Tensors forward(const Tensors& inputs) override;
  const std::vector<std::string>& inputs() const { return inputs_; }
  const Symbol& outputs() const { return symbol_; }  // the graph it was made of
  std::string describe() const override;
  void cast(DType dtype) override;  // as the layers of which it was exported would be

 private:
  void add_parameters(const NamedTensors& parameters, bool take);
  Symbol symbol_;
  std::shared_ptr<const Graph> graph_;
  std::vector<std::string> inputs_;
};

}  // namespace gluino
