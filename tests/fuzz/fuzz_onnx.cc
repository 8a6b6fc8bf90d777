// ONNX files: read, checked, constants folded, and the rules run on symbols, with ONNX's messages under the sanitizers too. libFuzzer's
// entry point; standalone.cc runs it without libFuzzer.
#include <cstdio>
#include <cstdlib>

#include "fuzz/targets.h"
#include "gluino/control_flow.h"
#include "gluino/gluino.h"
#include "onnx/export/exporter.h"
#include "onnx/symbol.h"
#include "onnx_format/proto.h"

namespace gluino::fuzz {
namespace {

void read_onnx(const std::string& bytes) {
  const std::string folder = "no_such_folder";
  const onnx::Program program(onnx::read_bytes(bytes, "damaged.onnx", &folder), "damaged.onnx");
  onnx::to_symbol(program);
}

std::string written(const Symbol& symbol, const std::map<std::string, Tensor>& parameters, std::vector<onnx::ExportInput> inputs) {
  for (onnx::ExportInput& i : inputs) i.other_shape = i.shape;
  return onnx::write_bytes(onnx::Exporter(symbol.graph(), parameters, std::move(inputs), 13).run(), nullptr);
}

Symbol applied(const char* op, const std::vector<Symbol>& inputs, const StringMap& attrs) { return sym::apply(op, inputs, attrs, op); }

std::string picture_network() {
  const Symbol x = sym::var("data");
  const Symbol conv = applied("Convolution", {x, sym::var("cw"), sym::var("cb")}, {{"kernel", "(3, 3)"}, {"num_filter", "2"}});
  const Symbol norm = applied("BatchNorm", {conv, sym::var("gamma"), sym::var("beta"), sym::var("mean"), sym::var("var")}, {});
  const Symbol pool = applied("Pooling", {applied("relu", {norm}, {})}, {{"kernel", "(2, 2)"}, {"pool_type", "max"}});
  const Symbol dense = applied("FullyConnected", {pool, sym::var("fw"), sym::var("fb")}, {{"num_hidden", "3"}});
  return written(applied("softmax", {dense}, {}),
                 {{"cw", ones({2, 1, 3, 3})},
                  {"cb", ones({2})},
                  {"gamma", ones({2})},
                  {"beta", ones({2})},
                  {"mean", ones({2})},
                  {"var", ones({2})},
                  {"fw", ones({3, 8})},
                  {"fb", ones({3})}},
                 {{.name = "data", .shape = {1, 1, 5, 5}}});
}

std::string loop_network() {
  const Tensor data = sym::var("data", {.shape = Shape{3, 2}}).tensor(), state = sym::var("s", {.shape = Shape{2}}).tensor();
  const auto [outputs, states] = foreach (
      [](const Tensors& rows, const Tensors& now) -> TensorsPair {
        const Tensor next = cond(
                                relu(now[0].sum()), [&] { return Tensors{now[0] + rows[0]}; }, [&] { return Tensors{now[0] * 2}; })
                                .at(0);
        return {{next}, {next}};
      },
      {data}, {state});
  return written(sym::group({Symbol(outputs[0]), Symbol(states[0])}), {}, {{.name = "data", .shape = {3, 2}}, {.name = "s", .shape = {2}}});
}

std::string shape_arithmetic() {
  const Symbol x = sym::var("data");
  const Symbol taken = applied("take", {sym::var("table"), applied("Reshape", {x}, {{"shape", "(-1,)"}})}, {{"mode", "wrap"}});
  const Symbol rows = applied("Reshape", {taken}, {{"shape", "(-1, 2, 6)"}});
  const Symbol tiled =
      applied("tile", {applied("slice_axis", {rows}, {{"axis", "1"}, {"begin", "0"}, {"end", "1"}})}, {{"reps", "(1, 2, 1)"}});
  return written(applied("transpose", {applied("LayerNorm", {tiled, sym::var("gamma"), sym::var("beta")}, {})}, {{"axes", "(0, 2, 1)"}}),
                 {{"table", ones({4, 6})}, {"gamma", ones({6})}, {"beta", ones({6})}}, {{.name = "data", .shape = {2, 3}}});
}

std::vector<std::string> onnx_seeds() {
  std::vector<std::string> seeds{picture_network(), loop_network(), shape_arithmetic()};
  for (const std::string& seed : seeds) read_onnx(seed);  // raises where one is not whole
  return seeds;
}

const Target kOnnx{"onnx", read_onnx, onnx_seeds};

}  // namespace

const Target& fuzz_target() { return kOnnx; }
}  // namespace gluino::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  google::protobuf::SetLogHandler(nullptr);
  const std::string problem = gluino::fuzz::run(gluino::fuzz::fuzz_target(), std::string(reinterpret_cast<const char*>(data), size));
  if (problem.empty()) return 0;
  std::fprintf(stderr, "%s\n", problem.c_str());
  std::abort();
}
