// Runs the models of make_models.py and compares with what Python computed, from several threads: test_models FOLDER
#include <gluino/c_model.hpp>

#include <atomic>
#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

using namespace gluino_c;

struct Case {
  std::vector<Array> inputs, outputs;
};

static Array read_array(std::istream& line) {
  std::string name, dtype;
  size_t ndim, n = 1;
  line >> name >> dtype >> ndim;
  Shape shape(ndim);
  for (int64_t& extent : shape) {
    line >> extent;
    n *= static_cast<size_t>(extent);
  }
  std::vector<float> floats(n);
  for (float& v : floats) line >> v;
  return dtype == "int32" ? Array(shape, std::vector<int32_t>(floats.begin(), floats.end())) : Array(shape, floats);
}

static std::vector<Case> read_cases(const std::string& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  Case current;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string kind;
    line >> kind;
    if (kind == "run")
      cases.push_back(std::exchange(current, {}));
    else
      (kind == "input" ? current.inputs : current.outputs).push_back(read_array(line));
  }
  return cases;
}

static bool is_close(const Array& got, const Array& want) {
  const std::vector<float> a = got.to_vector<float>(), b = want.to_vector<float>();
  if (got.shape() != want.shape()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 1e-6)) return false;
  return true;
}

static bool runs_as_python(const Model& net, const std::vector<Case>& cases) {
  bool good = !cases.empty();
  for (const Case& c : cases) {
    std::vector<gluino_buffer> inputs;
    for (const Array& a : c.inputs) inputs.push_back(a.info());
    const std::vector<Array> outputs = net.predict(inputs);
    for (size_t i = 0; i < outputs.size(); ++i) good &= is_close(outputs[i], c.outputs[i]);
    // And into memory of our own.
    std::vector<std::vector<float>> memory;
    std::vector<gluino_buffer> room;
    for (const Array& a : c.outputs) memory.emplace_back(a.to_vector<float>().size());
    for (size_t i = 0; i < memory.size(); ++i) room.push_back(buffer(memory[i].data(), c.outputs[i].shape()));
    net.run(inputs, room);
    for (size_t i = 0; i < memory.size(); ++i) good &= is_close(Array(c.outputs[i].shape(), memory[i]), c.outputs[i]);
  }
  return good;
}

template <class F>
static bool raises(gluino_status code, const std::string& text, F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code() == code && (std::string(e.what()) + e.hint()).find(text) != std::string::npos;
  }
  return false;
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  int failures = 0;
  const auto expect = [&](bool good, const std::string& what) {
    std::cout << what << (good ? "\n" : ": WRONG\n");
    failures += !good;
  };
  for (const std::string name : {"mlp", "conv", "loop", "embedding"}) {
    const Model net(folder + "/" + name + "-symbol.json");
    const std::vector<Case> cases = read_cases(folder + "/" + name + ".cases");
    std::atomic<int> good = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) threads.emplace_back([&] { good += runs_as_python(net, cases); });
    for (std::thread& t : threads) t.join();
    expect(good == 4, name + " as Python");
  }
  const Model net(folder + "/mlp-symbol.json");
  expect(net.inputs().at(0).shape == Shape{-1, 8} && net.outputs().at(0).shape == Shape{-1, 3}, "shapes");
  const Array a(Shape{2, 2}, std::vector<float>{1, 2, 3, 4}), wrong(Shape{3}, std::vector<float>{1, 2, 3});
  expect((a * a + a - a / a).to_vector<float>() == std::vector<float>{1, 5, 11, 19}, "arithmetic");
  expect(invoke("split", {&a}, {{"num_outputs", "2"}}).size() == 2, "several outputs");
  expect(raises(GLUINO_ERROR_ARGUMENT, "did you mean 'broadcast_add'?", [&] { a.call("broadcast_ad", {&a}); }), "hints");
  expect(raises(GLUINO_ERROR_SYSTEM, "/nowhere", [] { Model("/nowhere-symbol.json"); }), "missing files");
  expect(raises(GLUINO_ERROR_SHAPE, "", [&] { net(wrong); }), "wrong shapes");
  return failures != 0;
}
