// Microseconds of one call, the best of many rounds: bench net-symbol.json
#include <gluino/c_model.hpp>

#include <algorithm>
#include <ctime>
#include <iostream>

int main(int, char** argv) {
  using namespace gluino_c;
  const Model net(argv[1]);
  const std::vector<float> x(512);
  const std::vector<gluino_buffer> inputs{buffer(x.data(), {1, 512})};
  double best = 1e30;
  for (int round = 0; round < 30; ++round) {
    const clock_t start = clock();
    for (int i = 0; i < 2000; ++i) net.predict(inputs);
    best = std::min(best, 1e6 * static_cast<double>(clock() - start) / CLOCKS_PER_SEC / 2000);
  }
  std::cout << "{\"C++ over the C interface\": " << best << "}\n";
}
