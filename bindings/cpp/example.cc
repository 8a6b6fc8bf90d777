// Runs an exported network, and an operator on what it gives: example net-symbol.json
#include <gluino/c_model.hpp>

#include <iostream>

int main(int argc, char** argv) try {
  using namespace gluino_c;
  const Model net(argc > 1 ? argv[1] : "net-symbol.json");
  Shape shape = net.inputs().at(0).shape;
  size_t n = 1;
  for (int64_t& extent : shape) n *= static_cast<size_t>(extent = extent < 0 ? 2 : extent);  // free extents: two
  const std::vector<Array> outputs = net(Array(shape, std::vector<float>(n, 0.5f)));
  const Array most = outputs[0].call("argmax", {}, {{"axis", "1"}});
  for (float row : most.to_vector<float>()) std::cout << "most likely: " << row << '\n';
} catch (const gluino_c::Error& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
