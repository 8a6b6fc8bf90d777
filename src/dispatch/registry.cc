#include "base/format.h"
#include "dispatch/composition.h"

namespace gluino {

OpRegistry& OpRegistry::global() {
  static auto* registry = new OpRegistry;  // leaked: operators are used until the very end of the process
  return *registry;
}

// An operator that forgot a part is an error when the library starts, not a user's surprise.
static void check_complete(const OpDef& op) {
  auto need = [&](bool ok, const char* what) {
    if (!ok) throw InternalError(fmt::format("operator {} defines no {}", op.name, what));
  };
  need(!op.doc.empty(), "doc");
  need(op.infer_shape || op.is_dynamic_shape || is_composed(op), "shape rule");
  need(op.kernel || op.expression || op.is_view || is_composed(op), "kernel and no scalar expression");
  need(op.gradient || !op.not_differentiable.empty() || is_composed(op), "gradient and no reason for having none");
  // A body is made of other operators, which may not be there yet; what a user's program defines is not there at all.
  need(!op.samples.empty() || op.has_subgraphs() || op.set_other_attr, "sample");
  for (const AttrField& f : op.fields) need(!f.doc.empty(), "doc of an attribute");
  need(op.fields.size() <= 64, "room for more than 64 attributes");
}

void OpRegistry::add(OpDef def) {
  if (def.is_elementwise() && def.inplace.empty())
    for (int i = 0; i < static_cast<int>(def.inputs.size()); ++i) def.inplace.emplace_back(i, 0);
  def.has_states = def.is_state_if || std::any_of(def.inputs.begin(), def.inputs.end(), [](const InputSpec& i) { return i.is_state; });
  def.has_optional_inputs =
      std::any_of(def.inputs.begin(), def.inputs.end(), [](const InputSpec& i) { return static_cast<bool>(i.present); });
  check_complete(def);
  if (const auto waiting = spellings_to_come_.find(def.name); waiting != spellings_to_come_.end()) {
    def.aliases.insert(def.aliases.end(), waiting->second.begin(), waiting->second.end());
    spellings_to_come_.erase(waiting);
  }
  auto owned = std::make_unique<OpDef>(std::move(def));
  const OpDef* op = owned.get();
  auto insert = [&](const std::string& name) {
    if (!by_name_.emplace(name, op).second) throw InternalError(fmt::format("two operators are named '{}'", name));
  };
  insert(op->name);
  for (const std::string& alias : op->aliases) insert(alias);
  ops_.push_back(std::move(owned));
}

void OpRegistry::add_spellings(const std::string& op, const std::vector<std::string>& names) {
  const auto defined = std::find_if(ops_.begin(), ops_.end(), [&](const auto& each) { return each->name == op; });
  if (defined == ops_.end()) {
    std::vector<std::string>& waiting = spellings_to_come_[op];
    waiting.insert(waiting.end(), names.begin(), names.end());
    return;
  }
  for (const std::string& name : names) {
    if (!by_name_.emplace(name, defined->get()).second) throw InternalError(fmt::format("two operators are named '{}'", name));
    (*defined)->aliases.push_back(name);
  }
}

OpBuilderBase::OpBuilderBase(std::string_view name) { def_.name = name; }
OpBuilderBase::~OpBuilderBase() = default;
void OpBuilderBase::add_alias(std::string_view name) { def_.aliases.emplace_back(name); }
void OpBuilderBase::add_input(std::string_view name) { def_.inputs.push_back({.name = std::string(name)}); }
void OpBuilderBase::add_state(std::string_view name) {
  def_.inputs.push_back({.name = std::string(name), .own_dtype = true, .is_state = true});
}
void OpBuilderBase::set_outputs(std::initializer_list<std::string_view> names) { def_.output_names.assign(names.begin(), names.end()); }
void OpBuilderBase::set_ignored(std::initializer_list<std::string_view> attrs) { def_.ignored_attrs.assign(attrs.begin(), attrs.end()); }
void OpBuilderBase::set_uses(Uses uses) { def_.uses = std::move(uses); }
void OpBuilderBase::add_inplace(int in, int out) { def_.inplace.emplace_back(in, out); }
void OpBuilderBase::add_to_registry() { OpRegistry::global().add(std::move(def_)); }
void OpBuilderBase::add_sample(std::span<const SampleInput> inputs, Attrs attrs, bool numeric_gradient) {
  def_.samples.push_back({{inputs.begin(), inputs.end()}, std::move(attrs), numeric_gradient});
}
void OpBuilderBase::set_same_shape() {
  def_.is_same_shape = true;
  if (def_.infer_shape) return;
  def_.infer_shape = [](const void*, std::span<const Shape> in, std::vector<Shape>& out) {
    for (size_t i = 1; i < in.size(); ++i)
      if (!(in[i] == in[0]))
        raise<ShapeError>("inputs have shapes {} and {}, but this operator does not broadcast: they must be the same", in[0], in[i]);
    std::fill(out.begin(), out.end(), in[0]);
  };
}
void OpBuilderBase::set_broadcasting() {
  if (!def_.infer_shape)
    def_.infer_shape = [](const void*, std::span<const Shape> in, std::vector<Shape>& out) { out[0] = broadcast_shapes(in); };
}

const OpDef* OpRegistry::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

const OpDef& OpRegistry::get(std::string_view name) const {
  if (const OpDef* op = find(name)) return *op;
  raise<UserError>("no operator is named '{}'{}", name, did_you_mean(name, names()));
}

std::vector<std::string> OpRegistry::names() const {
  std::vector<std::string> all;
  for (const auto& [name, op] : by_name_) all.push_back(name);
  return all;
}

const CompilerRules& rules_of(const OpDef* op) {
  static const CompilerRules none;
  return op && op->compiler_rules ? *op->compiler_rules : none;
}

std::vector<const InputSpec*> OpDef::present_inputs(const Attrs& a) const {
  std::vector<const InputSpec*> present;
  for (const InputSpec& i : inputs)
    if (!i.present || i.present(a.get())) present.push_back(&i);
  return present;
}

const InputSpec& OpDef::present_input(const Attrs& a, size_t i) const {
  const InputSpec* last = nullptr;
  for (const InputSpec& input : inputs) {
    if (input.present && !input.present(a.get())) continue;
    last = &input;
    if (i-- == 0) break;
  }
  return last ? *last : inputs.back();
}

static const AttrField* find_field(const OpDef& op, std::string_view name) {
  for (const AttrField& f : op.fields)
    if (f.name == name) return &f;
  return nullptr;
}

[[noreturn]] static void unknown_attr(const OpDef& op, std::string_view name) {
  std::vector<std::string> known;
  for (const AttrField& f : op.fields) known.push_back(f.name);
  const std::string near = did_you_mean(name, known);
  raise<AttrError>("{}: there is no attribute '{}'{}{}", op.name, name, near,
                   near.empty() ? fmt::format("; known are: {}", fmt::join(known, ", ")) : "");
}

// Raises AttrError with the operator's and the attribute's name before it.
static void set_field(const OpDef& op, const AttrField& field, void* attrs, const AttrValue& value) {
  try {
    return field.set(attrs, op.name, value);
  } catch (const UserError&) {}
  const std::string who = fmt::format("{}: attribute '{}'", op.name, field.name);
  try {
    field.set(attrs, who, value);  // again, for a better message
  } catch (const UserError& e) {
    const std::string text = e.what();  // what programs and the like say has no `who` before it
    throw AttrError(text.starts_with(who) ? text : fmt::format("{}: {}", who, text), Located::in_operator);
  }
}

static Attrs build_attrs(const OpDef& op, auto&& assign) {
  std::shared_ptr<void> attrs = op.copy_attrs(nullptr);
  uint64_t given = 0;  // bit i: field i has a value
  assign([&](std::string_view name, const AttrValue& value) {
    const AttrField* field = find_field(op, name);
    if (!field) {
      if (std::find(op.ignored_attrs.begin(), op.ignored_attrs.end(), name) != op.ignored_attrs.end()) return;
      if (!op.set_other_attr) unknown_attr(op, name);
      op.set_other_attr(attrs.get(), std::string(name), attr_text(value));
      return;
    }
    set_field(op, *field, attrs.get(), value);
    given |= uint64_t{1} << (field - op.fields.data());
  });
  for (const AttrField& f : op.fields)
    if (f.required && !(given >> (&f - op.fields.data()) & 1))
      raise<AttrError>("{}: attribute '{}' is required: {}", op.name, f.name, f.doc);
  return attrs;
}

Attrs OpDef::parse_attrs(const StringMap& text) const {
  return build_attrs(*this, [&](auto&& set) {
    for (const auto& [key, value] : text) set(key, AttrValue(value));
  });
}

Attrs OpDef::make_attrs(std::span<const std::pair<std::string_view, AttrValue>> values) const {
  if (values.empty() && std::none_of(fields.begin(), fields.end(), [](const AttrField& f) { return f.required; })) return default_attrs;
  return build_attrs(*this, [&](auto&& set) {
    for (const auto& [key, value] : values) set(key, value);
  });
}

StringMap OpDef::print_attrs(const Attrs& a, bool with_defaults) const {
  const void* values = a ? a.get() : default_attrs.get();
  StringMap text = other_attrs_of ? other_attrs_of(values) : StringMap();
  for (const AttrField& f : fields) {
    std::string value = f.print(values);
    if (with_defaults || f.required || value != f.default_text) text.emplace(f.name, std::move(value));
  }
  return text;
}

}  // namespace gluino
