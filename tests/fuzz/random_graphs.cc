#include "fuzz/random_graphs.h"

#include <nlohmann/json.hpp>

#include "gluino/control_flow.h"

namespace gluino::fuzz {
namespace {

using Json = nlohmann::json;

size_t pick(Random& random, size_t n) { return n ? random() % n : 0; }
bool chance(Random& random, unsigned one_in) { return random() % one_in == 0; }

// Loops and branches with bodies, as files of ours hold them.
const std::vector<std::string>& control_flow_files() {
  static const std::vector<std::string> files = [] {
    const Tensor data = sym::var("data", {.shape = Shape{3, 2}}).tensor(), state = sym::var("state", {.shape = Shape{2}}).tensor();
    const auto step = [](const Tensors& x, const Tensors& s) { return TensorsPair{{x[0] * s[0]}, {s[0] + x[0]}}; };
    const auto grow = [](const Tensors& v) { return TensorsPair{{v[0] * 2}, {v[0] + 1}}; };
    const auto small = [](const Tensors& v) { return v[0].sum() < 20; };
    std::vector<Tensor> results{
        foreach (step, {data}, {state}).first[0], while_loop(small, grow, {state}, 4).first[0],
        cond(
            small, [](const Tensors& v) { return Tensors{v[0] * 2}; }, [](const Tensors& v) { return Tensors{v[0] - 1}; }, {state})[0]};
    std::vector<std::string> texts;
    for (const Tensor& t : results) texts.push_back(Symbol(t).to_json());
    return texts;
  }();
  return files;
}

class GraphMaker {
 public:
  explicit GraphMaker(Random& random) : random_(random) {}

  RandomGraph make(int64_t number) {
    if (chance(random_, 8)) {
      const auto& files = control_flow_files();
      graph_.json = files[pick(random_, files.size())];
      for (const char* name : {"data", "state"}) graph_.variables[name] = input_like(name == std::string("data") ? Shape{3, 2} : Shape{2});
      damage_text();
    } else {
      const auto& all = OpRegistry::global().all();
      for (size_t n = chance(random_, 2) ? 1 : 1 + pick(random_, 4); n > 0; --n) add_call(*all[pick(random_, all.size())], number);
      finish();
      if (chance(random_, 4)) damage_text();
    }
    return std::move(graph_);
  }

 private:
  RandomInput input_like(const Shape& shape) {
    RandomInput input = random_input(random_);
    if (chance(random_, 4)) return input;
    input.shape = shape;
    input.dtype = DType::float32;
    input.values.assign(static_cast<size_t>(shape.elements()), 0.5);
    return input;
  }
  void add_call(const OpDef& op, int64_t number) {
    const RandomCall call = random_call(op, number * 5 + static_cast<int64_t>(pick(random_, 1000)));
    Json inputs = Json::array();
    for (const RandomInput& input : call.inputs) inputs.push_back(entry(input));
    Json node{{"op", op.name}, {"name", name("n")}, {"inputs", inputs}};
    if (!call.attrs.empty()) node[chance(random_, 6) ? "param" : "attrs"] = call.attrs;
    if (chance(random_, 30)) node["subgraphs"] = Json::array({Json{{"nodes", nodes_}, {"heads", Json::array({Json::array({0, 0, 0})})}}});
    calls_.push_back(nodes_.size());
    nodes_.push_back(node);
  }
  // What a call reads: mostly a variable of its own that holds what was drawn for it, or what an earlier node gives.
  Json entry(const RandomInput& input) {
    if (!nodes_.empty() && chance(random_, 3))
      return Json::array({pick(random_, nodes_.size()), chance(random_, 4) ? pick(random_, 4) : 0, 0});
    const std::string variable = name("v");
    Json node{{"op", "null"}, {"name", variable}, {"inputs", Json::array()}};
    if (chance(random_, 4)) node["attrs"] = StringMap{{"__shape__", AttrType<Shape>::print(input.shape)}};
    if (chance(random_, 8)) node["attrs"]["__dtype__"] = std::to_string(static_cast<int>(input.dtype));
    if (!chance(random_, 20)) graph_.variables[variable] = input;
    nodes_.push_back(node);
    return Json::array({nodes_.size() - 1, 0, 0});
  }
  std::string name(const char* kind) { return chance(random_, 40) ? "same" : kind + std::to_string(nodes_.size()); }
  void finish() {
    Json heads = Json::array({Json::array({nodes_.size() - 1, 0, 0})});
    for (size_t c : calls_)
      if (chance(random_, 3)) heads.push_back(Json::array({c, chance(random_, 8) ? pick(random_, 3) : 0, 0}));
    Json file{{"nodes", nodes_}, {"arg_nodes", Json::array()}, {"heads", heads}};
    if (!chance(random_, 4)) file["attrs"] = {{"mxnet_version", Json::array({"int", 10901})}};
    graph_.json = file.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  void damage_text() {
    static const char* words[] = {"0",   "-1",  "1", "2", "9223372036854775807", "2147483648", "None", "()", "(0, 0)", "\"",
                                  "nan", "1e9", "[", ","};
    std::string& text = graph_.json;
    for (size_t n = 1 + pick(random_, 3); n > 0 && !text.empty(); --n) {
      size_t at = pick(random_, text.size());
      if (chance(random_, 2)) at = std::min(text.find_first_of("0123456789", at), text.size() - 1);
      switch (pick(random_, 4)) {
        case 0: text.replace(at, 1, words[pick(random_, std::size(words))]); break;
        case 1: text.erase(at, 1 + pick(random_, 6)); break;
        case 2: text.insert(at, words[pick(random_, std::size(words))]); break;
        default: text[at] = static_cast<char>('0' + pick(random_, 10));
      }
    }
  }

  Random& random_;
  RandomGraph graph_;
  std::vector<Json> nodes_;
  std::vector<size_t> calls_;
};

}  // namespace

RandomGraph random_graph(int64_t number) {
  Random random = random_of("graph", number);
  return GraphMaker(random).make(number);
}

}  // namespace gluino::fuzz
