#include "fuzz/targets.h"

#include <cstdlib>
#include <new>

#include "gluino/device.h"
#include "gluino/error.h"
#include "gluino/io.h"
#include "gluino/op.h"
#include "gluino/symbol.h"
#include "io/safetensors.h"
#include "support/params_bytes.h"

namespace {
thread_local size_t largest_new = 0;
void* counted_new(size_t size) {
  largest_new = std::max(largest_new, size);
  if (size > 2 * gluino::fuzz::kLargestAllocation) throw std::bad_alloc();
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
}  // namespace

// Replaced for the whole program, the library included: sees what readers ask of the heap besides tensors.
void* operator new(size_t size) { return counted_new(size); }
void* operator new[](size_t size) { return counted_new(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return std::malloc(size ? size : 1); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return std::malloc(size ? size : 1); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }

namespace gluino::fuzz {
namespace {

std::vector<std::string> params_seeds() {
  NamedTensors named{{"arg:w", arange(6).reshape({2, 3})},
                     {"aux:m", ones({4}, {DType::float16})},
                     {"s", Tensor(1.0)},
                     {"b", zeros({2}, {DType::boolean})}};
  std::vector<std::string> seeds{write_params(named), write_params({{"", arange(3)}})};
  for (const test::ParamsFile& f : test::params_of_every_era()) seeds.push_back(f.bytes);
  return seeds;
}

std::vector<std::string> npy_seeds() {
  std::string fortran = write_npy(arange(6).reshape({2, 3}));
  fortran.replace(fortran.find("False"), 5, "True ");
  return {write_npy(arange(6).reshape({2, 3})), write_npy(ones({}, {DType::int8})), write_npy(zeros({2, 0}, {DType::float64})), fortran};
}

// numpy.savez_compressed(w = arange(12) as float32 (3, 4), z = zeros(40) as int16)
std::string compressed_npz() {
  const std::string hex =
      "504b0304140000000800000021002d6f222666000000b000000005001400772e6e707901001000b00000000000000066000000000000009bec17ea1b"
      "10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91ac63a0a269a3a0ab5"
      "0a64032e063068b007120e4004c40d40bc00880f00f1032066706460100062052036700400504b030414000000080000002100bb34463a48000000d0"
      "000000050014007a2e6e707901001000d00000000000000048000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a4aea3a0"
      "9e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a26063a9a3a0ab50ae4032e062a0300504b0102140314000000080000002100"
      "2d6f222666000000b0000000050000000000000000000000800100000000772e6e7079504b0102140314000000080000002100bb34463a48000000d0"
      "00000005000000000000000000000080019d0000007a2e6e7079504b05060000000002000200660000001c0100000000";
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}
std::vector<std::string> npz_seeds() {
  return {write_npz({{"w", arange(6).reshape({2, 3})}, {"b", ones({2}, {DType::int32})}}), compressed_npz()};
}

std::vector<std::string> safetensors_seeds() {
  return {write_safetensors({{"w", arange(6).reshape({2, 3})}, {"b", ones({2}, {DType::int32})}, {"none", zeros({0, 2})}})};
}

std::vector<Symbol> sample_symbols() {
  const Symbol data = sym::var("data", {.shape = Shape{2, 3, 8, 8}});
  const Symbol conv = sym::apply("Convolution", {data}, {{"kernel", "(3, 3)"}, {"num_filter", "4"}, {"pad", "(1, 1)"}}, "conv");
  const Symbol norm = sym::apply("BatchNorm", {conv}, {}, "bn");
  const Symbol pool = sym::apply("Pooling", {norm}, {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pool_type", "max"}}, "pool");
  const Symbol flat = sym::apply("FullyConnected", {pool}, {{"num_hidden", "6"}}, "fc");
  const Symbol parts = sym::apply("SliceChannel", {flat}, {{"num_outputs", "2"}, {"axis", "1"}}, "split");
  const Symbol shaped = sym::apply("Reshape", {parts[1]}, {{"shape", "(0, -1, 1)"}}, "shaped");
  const Symbol odd = sym::apply("relu", {sym::var("say \"x\"", {.attrs = {{"key", "a, b"}}})}, {}, "7");
  return {sym::group({sym::apply("SoftmaxOutput", {parts[0]}, {}, "softmax"), shaped}), odd};
}
std::vector<std::string> json_seeds() {
  std::vector<std::string> seeds;
  for (const Symbol& s : sample_symbols()) seeds.push_back(s.to_json());
  seeds.push_back(
      R"({"nodes": [{"op": "null", "name": "x"}, {"op": "argmax", "name": "a", "param": {"axis": "-1"}, "attr": {"lr_mult": "2"},
    "inputs": [[0, 0]], "backward_source_id": -1}], "arg_nodes": [0], "heads": [[1, 0]]})");
  seeds.push_back(
      R"json({"nodes": [{"op": "null", "name": "x"}, {"op": "_foreach", "name": "loop", "inputs": [[0, 0, 0]],
    "attrs": {"in_data_locs": "[0]", "in_state_locs": "[]", "num_args": "2", "num_out_data": "1", "num_outputs": "1", "remain_locs": "()"},
    "subgraphs": [{"nodes": [{"op": "null", "name": "y"}, {"op": "relu", "name": "r", "inputs": [[0, 0, 0]]}], "heads": [[1, 0, 0]]}]}],
    "arg_nodes": [0], "heads": [[1, 0, 0]]})json");
  return seeds;
}
std::vector<std::string> text_seeds() {
  std::vector<std::string> seeds;
  for (const Symbol& s : sample_symbols()) seeds.push_back(s.str());
  seeds.push_back("graph(x: float32 (2, ?), x#2 {a=b}) {\n  r = relu(x#2) @{c=\"d\"}: float32 (2, 3)\n  return r, x\n}\n");
  return seeds;
}

// A graph that loaded is also asked the questions that programs ask first.
void use(const Symbol& s) {
  s.str();
  s.to_json();
  s.list_inputs();
  s.list_outputs();
  s.infer_shape_partial({});
}

}  // namespace

const Target kParams{"params", [](const std::string& b) { read_params(b, "fuzz"); }, params_seeds};
const Target kNpy{"npy", [](const std::string& b) { read_npy(b, "fuzz"); }, npy_seeds};
const Target kNpz{"npz", [](const std::string& b) { read_npz(b, "fuzz"); }, npz_seeds};
const Target kSafetensors{"safetensors", [](const std::string& b) { read_safetensors(b, "fuzz"); }, safetensors_seeds};
const Target kSymbolJson{"symbol_json", [](const std::string& b) { use(Symbol::from_json(b, "fuzz")); }, json_seeds};
const Target kGraphText{"graph_text", [](const std::string& b) { use(Symbol::parse(b)); }, text_seeds};

std::string run(const Target& target, const std::string& bytes) {
  reset_peak();
  const int64_t before = memory_stats().live;
  largest_new = 0;
  std::string problem;
  try {
    target.read(bytes);
  } catch (const InternalError& e) {
    problem = std::string("an internal error: ") + e.what();
  } catch (const Error&) {
  } catch (const std::exception& e) {
    problem = std::string("an error that is not gluino's: ") + e.what();
  }
  if (memory_stats().peak - before > static_cast<int64_t>(kLargestAllocation))
    problem = "tensors took " + std::to_string(memory_stats().peak - before) + " bytes";
  if (largest_new > kLargestAllocation) problem = "one allocation of " + std::to_string(largest_new) + " bytes";
  if (memory_stats().live != before) problem = "tensors were left behind";
  return problem;
}

}  // namespace gluino::fuzz
