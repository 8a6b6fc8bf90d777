#include "page/page.h"

#include <map>

#include "base/format.h"
#include "base/json.h"
#include "graph/work.h"
#include "page/assets.h"

namespace gluino {
namespace {

using Json = nlohmann::ordered_json;

std::string size_text(int64_t bytes) {
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB"};
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}
std::string time_text(double microseconds) {
  return microseconds < 1000 ? fmt::format("{:.3g} us", microseconds) : fmt::format("{:.3g} ms", microseconds / 1000);
}

Json describe_output(const OutputInfo& info) {
  const bool known = info.shape && info.shape->is_known() && info.dtype;
  return {{"shape", info.shape ? info.shape->str() : "?"},
          {"dtype", info.dtype ? std::string(dtype_name(*info.dtype)) : ""},
          {"bytes", known ? info.shape->elements() * dtype_bytes(*info.dtype) : 0}};
}

// One graph as the page draws it: operators and inputs are boxes; parameters stand in the description of the operator that reads them.
class Side {
 public:
  Side(const Graph& graph, const std::vector<bool>& is_hidden) : graph_(graph), numbers_(graph.nodes.size(), -1), nodes_(Json::array()) {
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      if (!graph.nodes[n].is_constant() && !is_hidden[n]) add(n);
  }
  int number(int node) const { return numbers_[node]; }  // -1: not drawn
  Json& node(int drawn) { return nodes_[static_cast<size_t>(drawn)]; }
  Json take(const char* label) {
    Json outputs = Json::array();
    for (ValueId v : graph_.outputs)
      if (numbers_[v.node] >= 0) outputs.push_back(numbers_[v.node]);
    return {{"label", label}, {"nodes", std::move(nodes_)}, {"outputs", outputs}};
  }

 private:
  void add(size_t n) {
    const Graph::Node& node = graph_.nodes[n];
    Json inputs = Json::array(), parameters = Json::array(), outputs = Json::array();
    for (ValueId v : node.inputs)
      if (numbers_[v.node] >= 0)
        inputs.push_back(numbers_[v.node]);
      else
        parameters.push_back({{"name", graph_.node(v).name}, {"shape", describe_output(graph_.info(v))["shape"]}});
    for (const OutputInfo& info : node.outputs) outputs.push_back(describe_output(info));
    Json json{{"name", node.name}, {"op", node.op ? node.op->name : ""}, {"ins", inputs}, {"out", outputs}};
    if (node.op) json["attrs"] = node.op->print_attrs(node.attrs);
    if (!parameters.empty()) json["params"] = parameters;
    if (!node.origin.empty()) json["source"] = node.origin;
    if (const int64_t operations = operations_of(graph_, node)) json["flops"] = operations;
    numbers_[n] = static_cast<int>(nodes_.size());
    nodes_.push_back(std::move(json));
  }

  const Graph& graph_;
  std::vector<int> numbers_;
  Json nodes_;
};

std::string place_text(const Slot& slot, bool in_place) {
  switch (slot.kind) {
    case Slot::Kind::arena:
      return fmt::format("arena [{}, {}){}, steps {} to {}", slot.offset, slot.offset + slot.bytes, in_place ? " in place" : "",
                         slot.first_step, slot.last_step);
    case Slot::Kind::output: return "fresh for each call: a result";
    case Slot::Kind::variable: return "the caller's";
    case Slot::Kind::constant:
    case Slot::Kind::derived: return "kept from call to call";
  }
  return "";
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (double v : values) total += v;
  return total;
}

// Text that a script element may hold: the JSON must not end it.
std::string inside_script(const Json& json) {
  std::string text = json_text(json, -1, WrongText::is_replaced), safe;
  for (char c : text) safe += c == '<' ? "\\u003c" : std::string(1, c);
  return safe;
}
std::string inside_html(std::string_view text) {
  std::string safe;
  for (char c : text) safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return safe;
}

}  // namespace

std::string make_page(const PageContent& content) {
  const Plan& plan = content.plan;
  // What is computed once from parameters alone is not part of a call.
  std::vector<bool> shown(content.before.nodes.size(), false), is_kept(content.after.nodes.size(), false);
  for (const Slot& s : plan.slots)
    if (s.kind == Slot::Kind::derived) is_kept[s.node] = true;
  Side before(content.before, shown), after(content.after, is_kept);

  for (size_t n = 0; n < content.node_microseconds.size(); ++n)
    if (const int drawn = before.number(static_cast<int>(n)); drawn >= 0 && content.node_microseconds[n] > 0)
      before.node(drawn)["us"] = content.node_microseconds[n];
  for (size_t k = 0; k < content.step_microseconds.size() && k < plan.steps.size(); ++k)
    if (const int drawn = after.number(plan.slots[plan.steps[k].outputs.at(0)].node); drawn >= 0)
      after.node(drawn)["us"] = content.step_microseconds[k];
  Json slots = Json::array();
  for (size_t s = 0; s < plan.slots.size(); ++s) {
    const Slot& slot = plan.slots[s];
    const int drawn = after.number(slot.node);
    if (drawn < 0 || !content.after.node(slot.node).op) continue;
    const Slot& memory = plan.slots[slot.root];
    if (!after.node(drawn).contains("place")) after.node(drawn)["place"] = place_text(memory, slot.root != static_cast<int>(s));
    if (slot.kind == Slot::Kind::arena && slot.root == static_cast<int>(s) && slot.bytes > 0)
      slots.push_back(
          {{"node", drawn}, {"offset", slot.offset}, {"bytes", slot.bytes}, {"first", slot.first_step}, {"last", slot.last_step}});
  }
  const std::vector<std::vector<int>> origins = find_origins(content.before, content.after);
  Json links = Json::array();
  for (size_t n = 0; n < origins.size(); ++n) {
    if (after.number(static_cast<int>(n)) < 0) continue;
    Json link = Json::array();
    for (int origin : origins[n])
      if (before.number(origin) >= 0) link.push_back(before.number(origin));
    links.push_back(std::move(link));
  }
  const auto operators = [](const Graph& g) {
    return std::count_if(g.nodes.begin(), g.nodes.end(), [](const Graph::Node& n) { return n.op != nullptr; });
  };
  Json totals =
      Json::array({{{"what", "operators"},
                    {"before", std::to_string(operators(content.before))},
                    {"after", fmt::format("{} steps", plan.steps.size())}},
                   {{"what", "intermediate values"}, {"before", size_text(plan.unplanned_bytes)}, {"after", size_text(plan.arena_bytes)}}});
  if (sum(content.step_microseconds) > 0)
    totals.push_back({{"what", "time of a call"},
                      {"before", sum(content.node_microseconds) > 0 ? time_text(sum(content.node_microseconds)) : "not timed"},
                      {"after", time_text(sum(content.step_microseconds))}});
  const Json data{
      {"title", content.title},
      {"sides", {before.take("traced: what the program does"), after.take("compiled: what runs")}},
      {"links", links},
      {"plan", {{"steps", plan.steps.size()}, {"arena", plan.arena_bytes}, {"unplanned", plan.unplanned_bytes}, {"slots", slots}}},
      {"totals", totals}};

  const std::map<std::string_view, std::string> parts{{"@TITLE@", inside_html(content.title)},
                                                      {"@STYLE@", std::string(page::kStyle)},
                                                      {"@DATA@", inside_script(data)},
                                                      {"@SCRIPT@", std::string(page::kScript)}};
  std::string html(page::kHtml);
  for (const auto& [mark, part] : parts) html.replace(html.find(mark), mark.size(), part);
  return html;
}

}  // namespace gluino
