// One operator = one place: everything gluino knows about an operator stands in one definition.
// No pass, plan, executor or binding recognises an operator by its name; they ask these properties.
#pragma once
#include <span>

#include "gluino/attrs.h"
#include "gluino/expr.h"
#include "gluino/tensor.h"

namespace gluino {

struct CompilerRules;
struct OpDef;
class Symbol;

// Which dtypes the (promoting) inputs may have.
enum class DTypeSet : uint8_t { floating, numeric, any };

// What a kernel sees: inputs, outputs already allocated with the inferred shapes and dtypes, and the mode.
class KernelContext {
 public:
  KernelContext(const OpDef& op, std::span<const Tensor> inputs, std::span<Tensor> outputs, bool training)
      : op_(op), inputs_(inputs), outputs_(outputs), training_(training) {}
  const OpDef& op() const { return op_; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  const Tensor& in(int i) const { return inputs_[i]; }
  Tensor& out(int i = 0) { return outputs_[i]; }
  Tensor state(int i) const { return inputs_[i]; }  // an input declared with .state(): may be written
  template <class T>
  const T* data(int i) const {
    return in(i).data<T>();
  }
  template <class T>
  T* out_data(int i = 0) {
    return out(i).mutable_data<T>();
  }
  bool training() const { return training_; }
  // For operators with .dynamic_shape(): the kernel makes the output itself.
  void set_out(int i, Tensor t) { outputs_[i] = std::move(t); }

 private:
  const OpDef& op_;
  std::span<const Tensor> inputs_;
  std::span<Tensor> outputs_;
  bool training_;
};

// Which values of the forward call a gradient reads; nothing else is kept alive for backward.
struct Uses {
  std::vector<int> inputs = {};
  std::vector<int> outputs = {};
  bool all_inputs = false;   // for variadic operators
  bool last_output = false;  // for operators with a hidden output after a varying number of visible ones
};

// What a gradient is written against. It answers with Tensors of either kind, so gradients trace, fuse and
// differentiate again.
class Gradient {
 public:
  Gradient(const OpDef& op, Tensors inputs, Tensors outputs, Tensors heads, Tensors likes, std::vector<bool> wanted)
      : op_(op),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        heads_(std::move(heads)),
        likes_(std::move(likes)),
        wanted_(std::move(wanted)) {}
  int num_inputs() const { return static_cast<int>(likes_.size()); }
  const Tensor& in(int i) const;                             // must be declared in Uses
  const Tensor& out(int i) const;                            // must be declared in Uses
  const Tensor& head(int i = 0) const { return heads_[i]; }  // zeros where nothing flowed in
  // Has the shape and dtype of input i but no readable value: for operators that take a shape from a tensor.
  const Tensor& like(int i) const { return likes_[i]; }
  bool wants(int i) const { return wanted_[i]; }  // false: the result for input i is thrown away

 private:
  const OpDef& op_;
  Tensors inputs_, outputs_, heads_, likes_;
  std::vector<bool> wanted_;
};

struct InputSpec {
  std::string name;
  bool own_dtype = false;   // indices, labels, lengths: takes no part in dtype promotion
  bool wide_dtype = false;  // statistics and scales: where nothing says otherwise, the common dtype but at least float32
  bool shape_only = false;  // only the shape is read, never the value
  bool is_state = false;    // an auxiliary state, which the kernel may update
  std::function<bool(const void* attrs)> present = {};  // empty: always
};

// An input of a sample call: uniform in [low, high), or whole numbers in it.
struct SampleInput {
  SampleInput() = default;
  SampleInput(std::initializer_list<int64_t> s) : shape(s) {}
  SampleInput(Shape s, double lo, double hi, bool whole = false) : shape(std::move(s)), low(lo), high(hi), integer(whole) {}
  Shape shape;
  double low = -2, high = 2;
  bool integer = false;
};
inline SampleInput uniform_sample(Shape s, double low, double high) { return {std::move(s), low, high, false}; }
inline SampleInput index_sample(Shape s, int64_t end) { return {std::move(s), 0, static_cast<double>(end), true}; }

struct Sample {
  std::vector<SampleInput> inputs;
  Attrs attrs;
  bool numeric_gradient = true;  // false: the gradient is defined by convention (losses), not by the forward
};

using OptionalShapes = std::vector<std::optional<Shape>>;

struct OpDef {
  std::string name, doc;
  std::vector<std::string> aliases;
  std::vector<InputSpec> inputs;
  bool is_variadic = false;  // any number of inputs; the last of `inputs` describes all further ones
  std::vector<std::string> output_names{"output"};
  std::function<int(const void*attrs)> num_outputs_of, num_visible_of;         // empty: output_names.size(), num_outputs
  std::function<std::vector<std::string>(const void* attrs)> output_names_of;  // empty: output_names
  int num_hidden = 0;  // so many outputs at the end are for gradients only, unless num_visible_of says otherwise

  std::vector<AttrField> fields;
  std::vector<std::string> ignored_attrs;  // MXNet had them; accepted and without effect here
  // Attributes beside the fields, as text under any name: for an operator that a user's program defines. Empty: none.
  std::function<const StringMap&(const void* attrs)> other_attrs_of;
  std::function<void(void* attrs, const std::string& name, std::string value)> set_other_attr;
  Attrs default_attrs;
  std::function<std::shared_ptr<void>(const void*)> copy_attrs;

  DTypeSet dtypes = DTypeSet::floating;
  std::function<void(const void* attrs, std::span<const Shape> in, std::vector<Shape>& out)> infer_shape;
  // `promoted` is the common dtype of the inputs without own_dtype. Fills `out`; empty: all outputs are `promoted`.
  std::function<void(const void* attrs, std::span<const DType> in, DType promoted, std::vector<DType>& out)> infer_dtype;
  // Fills in input shapes that follow from others (weights from data) or from known outputs.
  std::function<void(const void* attrs, OptionalShapes& in, const OptionalShapes& out)> complete_inputs;

  std::function<void(const void* attrs, KernelContext&)> kernel;
  std::function<Expr(const void* attrs, std::span<const Expr>)> expression;  // set for elementwise operators
  std::vector<DType> kernel_dtypes;  // non-empty: other dtypes are computed in float32 and converted

  std::function<Tensors(const void* attrs, const Gradient&)> gradient;
  Uses uses;
  std::string not_differentiable;  // why there is no gradient

  std::vector<Sample> samples;
  std::vector<std::pair<int, int>> inplace;  // (input, output) pairs that may share memory
  // With equal shapes and dtypes, output 0 is input 0 unchanged (asked when a graph is compiled).
  std::function<bool(const void* attrs, bool training)> is_identity;
  // Bodies of control flow: graphs that are part of the attributes, written beside them in files. Empty: none.
  std::function<std::vector<Symbol>(const void* attrs)> subgraphs_of;
  std::function<void(void* attrs, std::vector<Symbol> bodies)> set_subgraphs;
  std::function<bool(const void* attrs, int input)> is_state_if;  // for bodies that update an input's tensor
  std::function<bool(const void* attrs)> is_random_if;            // draws from the device's generator with these attributes
  std::function<bool(const void* attrs)> refuses_values_if;       // with these attributes its kernel raises for some values of its inputs
  // What only the library's own compiler asks; null: nothing.
  std::shared_ptr<const CompilerRules> compiler_rules;

  bool is_view = false;              // output 0 is input 0 with another shape
  bool is_random = false;            // draws from the device's generator
  bool is_mode_dependent = false;    // behaves differently in training mode
  bool is_dynamic_shape = false;     // output shapes depend on values
  bool is_same_shape = false;        // inputs and outputs all have one shape: inference works in every direction
  bool has_optional_inputs = false;  // an input has a `present`; set by the registry
  bool has_states = false;           // an input may be an auxiliary state; set by the registry

  bool is_elementwise() const { return static_cast<bool>(expression); }
  int num_outputs(const Attrs& a) const { return num_outputs_of ? num_outputs_of(a.get()) : static_cast<int>(output_names.size()); }
  int num_visible_outputs(const Attrs& a) const { return num_visible_of ? num_visible_of(a.get()) : num_outputs(a) - num_hidden; }
  bool has_subgraphs() const { return static_cast<bool>(subgraphs_of); }
  bool draws_random(const Attrs& a) const { return is_random || (is_random_if && is_random_if(a.get())); }
  bool refuses_values(const Attrs& a) const { return refuses_values_if && refuses_values_if(a.get()); }
  // Input number i of a call with these attributes: absent inputs have no number.
  const InputSpec& input_spec(const Attrs& a, size_t i) const {
    return has_optional_inputs ? present_input(a, i) : inputs[std::min(i, inputs.size() - 1)];
  }
  const InputSpec& present_input(const Attrs& a, size_t i) const;
  bool is_state_input(const Attrs& a, size_t i) const {
    return is_state_if ? is_state_if(a.get(), static_cast<int>(i)) : input_spec(a, i).is_state;
  }
  // The inputs that a call with these attributes takes; a variadic operator repeats the last one.
  std::vector<const InputSpec*> present_inputs(const Attrs& a) const;

  Attrs parse_attrs(const StringMap& text) const;                                          // raises AttrError
  Attrs make_attrs(std::span<const std::pair<std::string_view, AttrValue>> values) const;  // raises AttrError
  StringMap print_attrs(const Attrs& a, bool with_defaults = false) const;
};

class OpRegistry {
 public:
  static OpRegistry& global();
  void add(OpDef def);  // raises InternalError on a duplicate name or an incomplete definition
  // Further names of an operator, whether it is defined already or will be.
  void add_spellings(const std::string& op, const std::vector<std::string>& names);
  const OpDef& get(std::string_view name) const;  // raises UserError with the nearest name
  const OpDef* find(std::string_view name) const;
  const std::vector<std::unique_ptr<OpDef>>& all() const { return ops_; }
  std::vector<std::string> names() const;  // with aliases

 private:
  std::vector<std::unique_ptr<OpDef>> ops_;
  std::map<std::string, const OpDef*, std::less<>> by_name_;
  std::map<std::string, std::vector<std::string>> spellings_to_come_;
};

// The one dispatch point. Concrete inputs run the kernel now and are recorded when autograd records; symbolic inputs
// append a node to their graph.
Tensors apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs);
Tensor apply_one(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs);  // the first output
void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, std::span<Tensor> outputs);

using NamedAttrs = std::initializer_list<std::pair<std::string_view, AttrValue>>;
Tensor call(std::string_view op, std::initializer_list<Tensor> inputs, NamedAttrs attrs = {});
Tensor call(std::string_view op, std::span<const Tensor> inputs, NamedAttrs attrs = {});
Tensors call_all(std::string_view op, std::span<const Tensor> inputs, NamedAttrs attrs = {});

// ---- The builder that an operator's definition sees.

// What it does that is the same for all attributes. Definitions are many and run once: what can be is compiled in one place.
class OpBuilderBase {
 protected:
  explicit OpBuilderBase(std::string_view name);
  ~OpBuilderBase();
  OpBuilderBase(const OpBuilderBase&) = delete;
  void add_alias(std::string_view name);
  void add_input(std::string_view name);
  void add_state(std::string_view name);
  void set_outputs(std::initializer_list<std::string_view> names);
  void set_ignored(std::initializer_list<std::string_view> attrs);
  void set_same_shape();
  void set_broadcasting();  // where no rule for shapes is known
  void set_uses(Uses uses);
  void add_sample(std::span<const SampleInput> inputs, Attrs attrs, bool numeric_gradient);
  void add_inplace(int in, int out);
  void add_to_registry();
  OpDef def_;
};

template <class A>
class OpBuilder : OpBuilderBase {
 public:
  GLUINO_ONCE explicit OpBuilder(std::string_view name) : OpBuilderBase(name) {
    AttrFields<A> fields;
    A::fields(fields);
    def_.fields = fields.take();
    def_.default_attrs = shared({});
    def_.copy_attrs = [](const void* a) { return shared(a ? A(*static_cast<const A*>(a)) : A()); };
  }
  OpBuilder& doc(std::string_view text) { return def_.doc = text, *this; }
  template <class... S>
  OpBuilder& alias(S... names) {
    return (add_alias(names), ...), *this;
  }
  OpBuilder& input(std::string_view name) { return add_input(name), *this; }
  OpBuilder& state(std::string_view name) { return add_state(name), *this; }
  OpBuilder& variadic(std::string_view name) { return def_.is_variadic = true, input(name); }
  // These describe the input named just before.
  OpBuilder& own_dtype() { return def_.inputs.back().own_dtype = true, *this; }
  OpBuilder& wide_dtype() { return def_.inputs.back().wide_dtype = def_.inputs.back().own_dtype = true, *this; }
  OpBuilder& shape_only() { return def_.inputs.back().shape_only = def_.inputs.back().own_dtype = true, *this; }
  template <class F>
  OpBuilder& present_if(F f) {
    return keep(def_.inputs.back().present, f, [](const F& f, const void* a) -> bool { return f(as(a)); });
  }

  OpBuilder& outputs(std::initializer_list<std::string_view> names) { return set_outputs(names), *this; }
  OpBuilder& outputs(std::vector<std::string> names) { return def_.output_names = std::move(names), *this; }
  template <class F>
  OpBuilder& num_outputs(F f) {
    return keep(def_.num_outputs_of, f, [](const F& f, const void* a) { return static_cast<int>(f(as(a))); });
  }
  template <class F>
  OpBuilder& visible_outputs(F f) {
    return keep(def_.num_visible_of, f, [](const F& f, const void* a) { return static_cast<int>(f(as(a))); });
  }
  // f(attrs) -> names of the visible outputs
  template <class F>
  OpBuilder& output_names(F f) {
    return keep(def_.output_names_of, f, [](const F& f, const void* a) { return f(as(a)); });
  }
  // The last n outputs are for gradients only.
  OpBuilder& hidden_outputs(int n) { return def_.num_hidden = n, *this; }
  OpBuilder& ignores(std::initializer_list<std::string_view> attrs) { return set_ignored(attrs), *this; }
  // The member of the attributes that holds those without a field.
  OpBuilder& other_attrs(StringMap A::*member) {
    def_.other_attrs_of = [member](const void* a) -> const StringMap& { return as(a).*member; };
    def_.set_other_attr = [member](void* a, const std::string& name, std::string value) {
      (static_cast<A*>(a)->*member)[name] = std::move(value);
    };
    return *this;
  }

  OpBuilder& dtypes(DTypeSet set) { return def_.dtypes = set, *this; }
  OpBuilder& kernel_dtypes(std::vector<DType> d) { return def_.kernel_dtypes = std::move(d), *this; }
  // f(attrs, span<const DType> in, DType promoted) -> DType or std::vector<DType>
  template <class F>
  OpBuilder& dtype(F f) {
    return keep(def_.infer_dtype, f,
                [](const F& f, const void* a, std::span<const DType> in, DType promoted, std::vector<DType>& out) -> void {
                  if constexpr (std::is_same_v<decltype(f(as(a), in, promoted)), DType>)
                    std::fill(out.begin(), out.end(), f(as(a), in, promoted));
                  else
                    out = f(as(a), in, promoted);
                });
  }
  // f(attrs, span<const Shape> in) -> Shape (of every output) or std::vector<Shape>
  template <class F>
  OpBuilder& shape(F f) {
    return keep(def_.infer_shape, f, [](const F& f, const void* a, std::span<const Shape> in, std::vector<Shape>& out) -> void {
      if constexpr (std::is_convertible_v<decltype(f(as(a), in)), Shape>)
        std::fill(out.begin(), out.end(), Shape(f(as(a), in)));
      else
        out = f(as(a), in);
    });
  }
  // f(attrs, OptionalShapes& in, const OptionalShapes& out)
  template <class F>
  OpBuilder& complete(F f) {
    return keep(def_.complete_inputs, f,
                [](const F& f, const void* a, OptionalShapes& in, const OptionalShapes& out) -> void { f(as(a), in, out); });
  }
  // All inputs and outputs have the shape of the first.
  OpBuilder& same_shape() { return set_same_shape(), *this; }

  // f(attrs, KernelContext&)
  template <class F>
  OpBuilder& kernel(F f) {
    return keep(def_.kernel, f, [](const F& f, const void* a, KernelContext& k) -> void { f(as(a), k); });
  }
  // f([attrs,] Expr...): what happens to one element. Inputs broadcast unless same_shape() was said; beside a kernel, if ranks are equal.
  template <class F>
  OpBuilder& scalar(F f) {
    keep(def_.expression, f, [](const F& f, const void* a, std::span<const Expr> x) -> Expr { return invoke_scalar(f, as(a), x); });
    return set_broadcasting(), *this;
  }

  template <class F>
  OpBuilder& gradient(Uses uses, F f) {
    set_uses(std::move(uses));
    return keep(def_.gradient, f, [](const F& f, const void* a, const Gradient& g) -> Tensors {
      if constexpr (std::is_invocable_v<F, const A&, const Gradient&>)
        return f(as(a), g);
      else
        return f(g);
    });
  }
  OpBuilder& not_differentiable(std::string_view why) { return def_.not_differentiable = why, *this; }

  OpBuilder& sample(std::initializer_list<SampleInput> inputs, A attrs = {}) {
    return add_sample(inputs, shared(std::move(attrs)), true), *this;
  }
  OpBuilder& sample(const std::vector<SampleInput>& inputs, A attrs = {}) {
    return add_sample(inputs, shared(std::move(attrs)), true), *this;
  }
  // The gradient is defined by convention, so it is not compared with a numeric one.
  OpBuilder& sample_without_gradient(std::initializer_list<SampleInput> inputs, A attrs = {}) {
    return add_sample(inputs, shared(std::move(attrs)), false), *this;
  }

  // f(attrs, training): whether the node can be left out where input 0 and output 0 have the same shape and dtype.
  template <class F>
  OpBuilder& identity_if(F f) {
    return keep(def_.is_identity, f, [](const F& f, const void* a, bool training) -> bool { return f(as(a), training); });
  }
  OpBuilder& inplace(int in, int out = 0) { return add_inplace(in, out), *this; }
  OpBuilder& view() { return def_.is_view = true, *this; }
  OpBuilder& random() { return def_.is_random = true, *this; }
  template <class F>
  OpBuilder& random_if(F f) {
    return keep(def_.is_random_if, f, [](const F& f, const void* a) -> bool { return f(as(a)); });
  }
  // The kernel raises an error for some values: an index out of range, a singular matrix. Such a call is made even where nothing reads
  // its results, and fails where it stands. What follows from shapes and dtypes alone is refused by their rules.
  OpBuilder& refuses_values() {
    return refuses_values_if([](const A&) { return true; });
  }
  template <class F>
  OpBuilder& refuses_values_if(F f) {
    return keep(def_.refuses_values_if, f, [](const F& f, const void* a) -> bool { return f(as(a)); });
  }
  // f(attrs, input number)
  template <class F>
  OpBuilder& state_if(F f) {
    return keep(def_.is_state_if, f, [](const F& f, const void* a, int input) -> bool { return f(as(a), input); });
  }
  // The member of the attributes that holds the bodies, a std::vector<Symbol>.
  template <class Bodies>
  OpBuilder& subgraphs(Bodies A::*member) {
    def_.subgraphs_of = [member](const void* a) { return as(a).*member; };
    def_.set_subgraphs = [member](void* a, Bodies bodies) { static_cast<A*>(a)->*member = std::move(bodies); };
    return *this;
  }
  OpBuilder& mode_dependent() { return def_.is_mode_dependent = true, *this; }
  OpBuilder& dynamic_shape() { return def_.is_dynamic_shape = true, *this; }
  OpBuilder& compiler_rules(std::shared_ptr<const CompilerRules> rules) { return def_.compiler_rules = std::move(rules), *this; }

  // The attributes of a call; a call without any has the defaults.
  static const A& as(const void* a) {
    static const A defaults{};
    return a ? *static_cast<const A*>(a) : defaults;
  }
  // Defines and registers an operator.
  GLUINO_ONCE static bool add(const char* name, void (*define)(OpBuilder&)) {
    OpBuilder builder(name);
    define(builder);
    return builder.add_to_registry(), true;
  }

 private:
  template <class Function, class F, class Adapter>
  OpBuilder& keep(Function& to, F f, Adapter adapter) {
    return detail::keep(to, std::move(f), adapter), *this;
  }
  GLUINO_ONCE static std::shared_ptr<void> shared(A attrs) { return std::make_shared<A>(std::move(attrs)); }
  template <class F>
  static Expr invoke_scalar(const F& f, const A& a, std::span<const Expr> x) {
    if constexpr (std::is_invocable_v<F, const A&, Expr>)
      return f(a, x[0]);
    else if constexpr (std::is_invocable_v<F, const A&, Expr, Expr>)
      return f(a, x[0], x[1]);
    else if constexpr (std::is_invocable_v<F, const A&, Expr, Expr, Expr>)
      return f(a, x[0], x[1], x[2]);
    else if constexpr (std::is_invocable_v<F, Expr>)
      return f(x[0]);
    else if constexpr (std::is_invocable_v<F, Expr, Expr>)
      return f(x[0], x[1]);
    else if constexpr (std::is_invocable_v<F, Expr, Expr, Expr>)
      return f(x[0], x[1], x[2]);
    else
      return f(a, x);
  }
};

// Defines and registers an operator: GLUINO_OP(softplus, SoftplusAttrs) { op.doc("...")...; }
#define GLUINO_OP(opname, AttrsType)                                                                                                    \
  [[gnu::cold]] static void gluino_define_##opname(::gluino::OpBuilder<AttrsType>& op);                                                 \
  [[maybe_unused]] static const bool gluino_registered_##opname = ::gluino::OpBuilder<AttrsType>::add(#opname, gluino_define_##opname); \
  static void gluino_define_##opname(::gluino::OpBuilder<AttrsType>& op)

}  // namespace gluino
