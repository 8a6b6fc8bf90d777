// Files of tensors and symbols: what is written is read back; the layouts of every era are read.
#include <filesystem>

#include "base/file.h"
#include "gluino/io.h"
#include "gluino/symbol.h"
#include "io/safetensors.h"
#include "support/params_bytes.h"
#include "support/support.h"

namespace gluino::test {
namespace {

NamedTensors sample_tensors() {
  NamedTensors all;
  for (DType dtype : kAllDTypes) all.emplace_back("arg:" + std::string(dtype_name(dtype)), arange(6).reshape({2, 3}).astype(dtype));
  all.emplace_back("scalar", Tensor(2.5));
  all.emplace_back("none of it", zeros({2, 0}));
  return all;
}

void expect_same(const NamedTensors& got, const NamedTensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].first, want[i].first);
    EXPECT_TRUE(same_bits(got[i].second, want[i].second)) << want[i].first;
  }
}

TEST(Params, RoundTrip) {
  expect_same(read_params(write_params(sample_tensors()), "x"), sample_tensors());
  expect_same(read_params(write_params({{"", tensor({1})}}), "x"), {{"", tensor({1})}});
  expect_same(read_params(write_params({}), "x"), {});
}

TEST(Params, OfEveryEra) {
  for (const ParamsFile& file : params_of_every_era()) expect_same(read_tensors(file.bytes, file.name), file.content);
}

TEST(Params, WritesTheLayoutOfMXNet19) {
  const std::string bytes = write_params({{"w", tensor({{1, 2}})}});
  Bytes want;
  want.u64(0x112).u64(0).u64(1);
  want.u32(0xF993fac9).i32(0).i32(2).i64(1).i64(2).i32(1).i32(0).i32(0).f32(1).f32(2);
  want.u64(1).u64(1).text("w");
  EXPECT_EQ(bytes, want.str());
}

TEST(Safetensors, RoundTrip) {
  expect_same(read_safetensors(write_safetensors(sample_tensors()), "x"), sample_tensors());
  expect_same(read_tensors(write_safetensors(sample_tensors()), "x"), sample_tensors());  // told by its first bytes
  GLUINO_EXPECT_ERROR(UserError, "no name", write_safetensors({{"", tensor({1})}}));
  GLUINO_EXPECT_ERROR(UserError, "two tensors", write_safetensors({{"a", tensor({1})}, {"a", tensor({1})}}));
}

std::string safetensors(const std::string& header, const std::string& data) {
  return Bytes().u64(header.size()).text(header).text(data).str();
}
TEST(Safetensors, DamageIsNamed) {
  const auto read = [](const std::string& header) { return read_safetensors(safetensors(header, std::string(8, '\0')), "x"); };
  expect_same(read(R"({"__metadata__": {"format": "pt"}, "a": {"dtype": "I16", "shape": [4], "data_offsets": [0, 8]}})"),
              {{"a", zeros({4}, {DType::int32})}});
  GLUINO_EXPECT_ERROR(SystemError, "not supported", read(R"({"a": {"dtype": "F8", "shape": [8], "data_offsets": [0, 8]}})"));
  GLUINO_EXPECT_ERROR(SystemError, "data_offsets", read(R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}})"));
  GLUINO_EXPECT_ERROR(SystemError, "data_offsets", read(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})"));
  GLUINO_EXPECT_ERROR(SystemError, "absurd", read(R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 8]}})"));
  GLUINO_EXPECT_ERROR(SystemError, "claim 16 bytes",
                      read(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, )"
                           R"("b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})"));
  GLUINO_EXPECT_ERROR(SystemError, "header", read("{"));
  GLUINO_EXPECT_ERROR(SystemError, "header", read("[]"));
  GLUINO_EXPECT_ERROR(SystemError, "needs", read_safetensors(Bytes().u64(1000).text("{}").str(), "x"));
}

TEST(Npy, RoundTrip) {
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::bfloat16) continue;
    for (const Tensor& t : {arange(6).reshape({2, 3}).astype(dtype), ones({}, {dtype}), zeros({0, 4}, {dtype}), ones({7}, {dtype})})
      EXPECT_TRUE(same_bits(read_npy(write_npy(t), "x"), t)) << dtype_name(dtype);
  }
  GLUINO_EXPECT_ERROR(DTypeError, "bfloat16", write_npy(ones({1}, {DType::bfloat16})));
}

std::string npy(const std::string& header, const std::string& data) {
  Bytes b;
  b.text(std::string("\x93NUMPY\x01\x00", 8)).u16(static_cast<uint16_t>(header.size())).text(header).text(data);
  return b.str();
}

TEST(Npy, ReadsOtherLayouts) {
  const std::string two(std::string("\x01\x00\x02\x00\x03\x00\x04\x00", 8));
  EXPECT_TRUE(same_bits(read_npy(npy("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 2), }", two), "x"),
                        tensor({{1, 3}, {2, 4}}, {DType::int32})));
  EXPECT_TRUE(same_bits(read_npy(npy("{'shape': (4,), 'descr': \"<u2\", 'fortran_order': False}", two), "x"),
                        tensor({1, 2, 3, 4}, {DType::int32})));
  GLUINO_EXPECT_ERROR(SystemError, "big-endian", read_npy(npy("{'descr': '>i2', 'fortran_order': False, 'shape': (4,), }", two), "x"));
  GLUINO_EXPECT_ERROR(SystemError, "'<c8' is not supported",
                      read_npy(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", two), "x"));
  GLUINO_EXPECT_ERROR(SystemError, "only 8 are left", read_npy(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (5,), }", two), "x"));
}

TEST(Npz, RoundTripAndCompressed) {
  NamedTensors all = sample_tensors();
  std::erase_if(all, [](const auto& item) { return item.second.dtype() == DType::bfloat16; });
  expect_same(read_npz(write_npz(all), "x"), all);
}

TEST(Files, AreChosenByNameAndByContent) {
  const std::string folder = ::testing::TempDir();
  const NamedTensors one{{"a", tensor({1, 2})}};
  for (const char* name : {"x.params", "x.npz", "x.bin"}) {
    save_tensors(folder + name, one);
    expect_same(load_tensors(folder + name), one);
  }
  save_tensors(folder + "x.npy", {{"ignored", tensor({1, 2})}});
  expect_same(load_tensors(folder + "x.npy"), {{"", tensor({1, 2})}});
  EXPECT_EQ(find_tensor(one, "b"), nullptr);
  EXPECT_TRUE(find_tensor(one, "a")->defined());
  GLUINO_EXPECT_ERROR(SystemError, "cannot open", load_tensors(folder + "absent.params"));
  GLUINO_EXPECT_ERROR(SystemError, "cannot write", save_tensors(folder + "absent/x.params", one));
  GLUINO_EXPECT_ERROR(UserError, "holds one tensor", save_tensors(folder + "x.npy", {one[0], one[0]}));
  for (const auto& entry : std::filesystem::directory_iterator(folder)) EXPECT_FALSE(entry.path().string().ends_with(".tmp"));
}

TEST(SymbolFile, SavesAndLoads) {
  const std::string path = ::testing::TempDir() + "x-symbol.json";
  const Symbol s = sym::apply("relu", {sym::var("x")}, {}, "r");
  s.save(path);
  EXPECT_EQ(Symbol::load(path).str(), s.str());
}

// The same graph as each era wrote it.
TEST(SymbolFile, AttributesOfEveryEra) {
  for (const char* key : {"attrs", "attr", "param"}) {
    const std::string json = std::string(R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
      {"op": "null", "name": "fc_weight", "inputs": []}, {"op": "null", "name": "fc_bias", "inputs": []},
      {"op": "FullyConnected", "name": "fc", ")") +
                             key + R"(": {"num_hidden": "4"}, "inputs": [[0, 0], [1, 0], [2, 0]]}],
      "arg_nodes": [0, 1, 2], "heads": [[3, 0]]})";
    EXPECT_EQ(Symbol::from_json(json).attr("num_hidden"), "4");
  }
  const Symbol old =
      Symbol::from_json(R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "bn_gamma", "inputs": []},
    {"op": "null", "name": "bn_beta", "inputs": []}, {"op": "BatchNorm", "name": "bn", "param": {"eps": "0.01"}, "attr": {"lr_mult": "3", "gamma_lr_mult": "2"},
    "inputs": [[0, 0], [1, 0], [2, 0]]}], "arg_nodes": [0, 1, 2], "heads": [[3, 0]]})");
  EXPECT_EQ(old.list_auxiliary_states(), (std::vector<std::string>{"bn_moving_mean", "bn_moving_var"}));
  EXPECT_EQ(old.attr_dict().at("bn_gamma").at("__lr_mult__"), "2");
  EXPECT_EQ(old.attr("__lr_mult__"), "3");
}

TEST(SymbolFile, DamageIsNamed) {
  GLUINO_EXPECT_ERROR(SystemError, "f.json: not JSON", Symbol::from_json("{", "f.json"));
  GLUINO_EXPECT_ERROR(SystemError, "no list 'nodes'", Symbol::from_json("{}"));
  GLUINO_EXPECT_ERROR(SystemError, "has no heads", Symbol::from_json(R"({"nodes": [], "heads": []})"));
  GLUINO_EXPECT_ERROR(SystemError, "reads node 7",
                      Symbol::from_json(R"({"nodes": [{"op": "relu", "name": "r", "inputs": [[7, 0]]}], "heads": [[0, 0]]})"));
  GLUINO_EXPECT_ERROR(
      UserError, "2 operators are not supported: Nope (2 nodes, first 'a'), Nope2 (1 node, first 'c')",
      Symbol::from_json(
          R"({"nodes": [{"op": "Nope", "name": "a"}, {"op": "Nope", "name": "b"}, {"op": "Nope2", "name": "c"}], "heads": [[0, 0]]})"));
  GLUINO_EXPECT_ERROR(AttrError, "node 's'", Symbol::from_json(R"({"nodes": [{"op": "null", "name": "x"},
    {"op": "SliceChannel", "name": "s", "attrs": {"num_outputs": "2000000000"}, "inputs": [[0, 0]]}], "heads": [[1, 0]]})"));
  std::string deep = R"({"nodes": [{"op": "null", "name": "x"}], "heads": [[0, 0]]})";
  const std::string loop = R"json({"nodes": [{"op": "null", "name": "x"}, {"op": "_foreach", "name": "l", "inputs": [[0, 0]],
    "attrs": {"in_data_locs": "[0]", "in_state_locs": "[]", "num_args": "2", "num_out_data": "1", "num_outputs": "1", "remain_locs": "[]"},
    "subgraphs": [)json";
  for (int i = 0; i < 100; ++i) deep = loop + deep + R"(]}], "heads": [[1, 0]]})";
  GLUINO_EXPECT_ERROR(SystemError, "nested more than 32 deep", Symbol::from_json(deep));
  GLUINO_EXPECT_ERROR(SystemError, "'x' has subgraphs, but a variable takes none",
                      Symbol::from_json(R"({"nodes": [{"op": "null", "name": "x", "subgraphs": [{}]}], "heads": [[0, 0]]})"));
  GLUINO_EXPECT_ERROR(
      SystemError, "'y' has inputs, but a variable takes none",
      Symbol::from_json(R"({"nodes": [{"op": "null", "name": "x"}, {"op": "null", "name": "y", "inputs": [[0, 0]]}], "heads": [[1, 0]]})"));
  const std::string brackets(1000000, '[');
  GLUINO_EXPECT_ERROR(SystemError, "not JSON", Symbol::from_json(brackets));
}

}  // namespace
}  // namespace gluino::test
