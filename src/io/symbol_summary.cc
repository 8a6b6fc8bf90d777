#include "io/symbol_summary.h"

#include "base/format.h"
#include "base/json.h"

namespace gluino::io {
namespace {

using Json = nlohmann::json;
constexpr int kMaxDepth = 32;  // of bodies in bodies, as the reader of graphs has it

int version_of(const Json& json) {
  if (!json.contains("attrs") || !json["attrs"].is_object() || !json["attrs"].contains("mxnet_version")) return 0;
  const Json& v = json["attrs"]["mxnet_version"];
  return v.is_array() && v.size() == 2 && v[1].is_number_integer() ? v[1].get<int>() : 0;
}

// Files of the years before versions were written are told apart by what their nodes hold.
std::string in_words(int version, const Json& nodes) {
  if (version > 0) return fmt::format("MXNet {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  for (const Json& node : nodes)
    if (node.is_object() && (node.contains("param") || node.contains("backward_source_id"))) return "MXNet 0.8 or older";
  return "not said";
}

void collect(const Json& json, const std::string& inside, int depth, const std::string& what, std::vector<SymbolSummary::Node>& into) {
  if (depth > kMaxDepth) raise<SystemError>("{}: subgraphs are nested more than {} deep", what, kMaxDepth);
  for (const Json& node : json.at("nodes")) {
    into.push_back({node.at("op").get<std::string>(), node.at("name").get<std::string>(), inside});
    if (!node.contains("subgraphs")) continue;
    const std::string name = into.back().name;
    for (const Json& body : node["subgraphs"]) collect(body, name, depth + 1, what, into);
  }
}

}  // namespace

SymbolSummary summarize_symbol_json(const std::string& text, const std::string& what) {
  SymbolSummary summary;
  try {
    const Json json = parse_json(text);
    if (!json.is_object() || !json.contains("nodes") || !json["nodes"].is_array()) raise<SystemError>("{}: there is no list 'nodes'", what);
    summary.version = version_of(json);
    summary.written_by = in_words(summary.version, json["nodes"]);
    collect(json, "", 0, what, summary.nodes);
  } catch (const Json::parse_error& e) {
    raise<SystemError>("{}: not JSON: {}", what, e.what());
  } catch (const Json::exception& e) {
    raise<SystemError>("{}: not a graph: {}", what, e.what());
  }
  return summary;
}

}  // namespace gluino::io
