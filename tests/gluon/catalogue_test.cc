// Every sample of every layer and loss: eager = hybridized, forward and backward; numeric gradients; exported and imported again.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "gluino/catalogue.h"
#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using catalogue::BlockSample;

Tensors inputs_of(const BlockSample& sample) {
  Tensors inputs;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const SampleInput& s = sample.inputs[i];
    const Tensor t = random_tensor(s.shape, DType::float64, 11 + i * 31, s.low, s.high);
    inputs.push_back(s.integer ? floor(t) : t);
  }
  return inputs;
}

// A block with float64 parameters that are the same at every call.
std::shared_ptr<HybridBlock> make_block(const BlockSample& sample, const Tensors& inputs) {
  auto block = sample.make();
  block->cast(DType::float64);
  block->initialize(init::uniform(0.7));
  std::vector<Shape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  block->build(shapes, DType::float64);
  uint64_t number = 100;
  for (const auto& [name, p] : block->collect_params())
    p->set_data(random_tensor(p->shape(), DType::float64, ++number, name.ends_with("var") || name.ends_with("gamma") ? 0.5 : -0.8, 0.9));
  return block;
}

struct Result {
  Tensors outputs, input_grads, parameter_grads, states;
};

double weighted_sum(const Tensors& outputs) {
  double total = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    total += (outputs[i] * random_tensor(outputs[i].shape(), DType::float64, 500 + i)).sum().item<double>();
  return total;
}

Result run(HybridBlock& block, const BlockSample& sample, Tensors inputs, bool training) {
  Result r;
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = inputs[i].copy();
    if (!sample.inputs[i].integer) inputs[i].attach_grad();
  }
  seed(3);
  {
    const auto record = autograd::record(training);
    r.outputs = block(inputs);
  }
  Tensors heads;
  for (size_t i = 0; i < r.outputs.size(); ++i) heads.push_back(random_tensor(r.outputs[i].shape(), DType::float64, 500 + i));
  autograd::backward(r.outputs, heads, {.train_mode = training});
  for (size_t i = 0; i < inputs.size(); ++i) r.input_grads.push_back(sample.inputs[i].integer ? Tensor() : inputs[i].grad().copy());
  for (const auto& [name, p] : block.collect_params())
    (p->grad_req() == GradReq::null ? r.states : r.parameter_grads)
        .push_back(p->grad_req() == GradReq::null ? p->data().copy() : p->grad().copy());
  return r;
}

void expect_close(const Tensors& got, const Tensors& want, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!want[i].defined()) continue;
    EXPECT_TRUE(close(got[i], want[i], 1e-9, 1e-11)) << what << " " << i;
  }
}

class EverySample : public ::testing::TestWithParam<BlockSample> {};

TEST_P(EverySample, IsTheSameEagerAndHybridized) {
  const Tensors inputs = inputs_of(GetParam());
  for (const bool training : {false, true}) {
    SCOPED_TRACE(training ? "training" : "predicting");
    const auto eager = make_block(GetParam(), inputs), hybrid = make_block(GetParam(), inputs);
    hybrid->hybridize();
    const Result want = run(*eager, GetParam(), inputs, training);
    for (int call = 0; call < 2; ++call) {  // traced, then from the cache
      const auto fresh = make_block(GetParam(), inputs);
      if (call == 1)
        for (const auto& [name, p] : hybrid->collect_structural_params()) p->set_data(fresh->collect_structural_params()[name]->data());
      const Result got = run(*hybrid, GetParam(), inputs, training);
      expect_close(got.outputs, want.outputs, "output");
      expect_close(got.input_grads, want.input_grads, "gradient of input");
      expect_close(got.parameter_grads, want.parameter_grads, "gradient of parameter");
      expect_close(got.states, want.states, "state");
    }
    EXPECT_EQ(hybrid->cache().stats().traces, 1);
  }
}

TEST_P(EverySample, HasTheGradientThatDifferencesGive) {
  Tensors inputs = inputs_of(GetParam());
  const auto block = make_block(GetParam(), inputs);
  const Result got = run(*block, GetParam(), inputs, true);
  auto value = [&] {
    seed(3);
    const auto scope = autograd::train_mode();
    return weighted_sum((*block)(inputs));
  };
  auto check = [&](Tensor variable, const Tensor& gradient, const std::string& what) {
    const double step = 1e-6;
    double* x = variable.mutable_data<double>();
    for (int64_t i = 0; i < variable.size(); ++i) {
      const double before = x[i];
      x[i] = before + step;
      const double above = value();
      x[i] = before - step;
      const double below = value();
      x[i] = before;
      ASSERT_NEAR(gradient.to_vector<double>()[i], (above - below) / (2 * step), 1e-5) << what << " element " << i;
    }
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!GetParam().inputs[i].integer) check(inputs[i], got.input_grads[i], "input " + std::to_string(i));
  size_t at = 0;
  for (const auto& [name, p] : block->collect_params())
    if (p->grad_req() != GradReq::null) check(p->data().detach(), got.parameter_grads[at++], name);
}

TEST_P(EverySample, GivesTheSameExportedAndImported) {
  const std::string path = ::testing::TempDir() + "gluino_catalogue_" + std::to_string(reinterpret_cast<uintptr_t>(this));
  const Tensors inputs = inputs_of(GetParam());
  const auto block = make_block(GetParam(), inputs);
  block->hybridize();
  const Tensors want = (*block)(inputs);
  block->export_model(path);
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) names.push_back(inputs.size() == 1 ? "data" : "data" + std::to_string(i));
  const auto loaded = SymbolBlock::imports(path + "-symbol.json", names, path + "-0000.params");
  expect_close((*loaded)(inputs), want, "output");
  std::filesystem::remove(path + "-symbol.json");
  std::filesystem::remove(path + "-0000.params");
}

std::string sample_name(const ::testing::TestParamInfo<BlockSample>& info) { return info.param.kind() + "_" + std::to_string(info.index); }
INSTANTIATE_TEST_SUITE_P(Layers, EverySample, ::testing::ValuesIn(catalogue::layers()), sample_name);
INSTANTIATE_TEST_SUITE_P(Losses, EverySample, ::testing::ValuesIn(catalogue::losses()), sample_name);

// ---- nothing is forgotten: the classes that the headers declare are those of the catalogue

void add_kinds(const Block& block, std::set<std::string>& kinds) {
  kinds.insert(block.kind());
  for (const Block::Child& c : block.children()) add_kinds(*c.block, kinds);
}

TEST(Catalogue, HoldsEveryClassOfTheHeaders) {
  std::set<std::string> sampled;
  for (const auto* list : {&catalogue::layers(), &catalogue::losses()})
    for (const BlockSample& s : *list) add_kinds(*s.make(), sampled);
  for (const char* header : {"nn.h", "rnn.h", "loss.h"}) {
    std::ifstream file(std::string(GLUINO_SOURCE_DIR) + "/include/gluino/" + header);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    std::set<std::string> classes, bases{"Sequential", "Chain", "Pool"};
    const std::regex declaration(R"(\nclass (\w+) : public ([\w:]+))"), pool(R"(\nGLUINO_POOL\((\w+), )");
    for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) {
      if ((*it)[2] != "Block" && (*it)[2] != "Sequential") classes.insert((*it)[1]);  // those two are not hybrid
      bases.insert((*it)[2]);
    }
    for (std::sregex_iterator it(text.begin(), text.end(), pool), end; it != end; ++it)
      classes.insert({(*it)[1], "Global" + (*it)[1].str()});
    EXPECT_GE(classes.size(), 10u) << header;
    for (const std::string& name : classes) EXPECT_TRUE(bases.contains(name) || sampled.contains(name)) << name << " has no sample";
  }
}

}  // namespace
}  // namespace gluino::test
