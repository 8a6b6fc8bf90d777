// What all programs of the comparison share: they read requests "workload mode seconds" from standard input and answer
// each with one line of JSON. peers/torch_peer.py does the same in Python; tools/bench.py asks them in turn.
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <exception>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// Element j of a fixed sequence in [-1, 1), so that every runner fills weights and inputs with the same numbers.
inline float noise(uint32_t stream, uint32_t j) {
  uint32_t h = (j + 1000003u * stream) * 2654435761u;
  h ^= h >> 16;
  h *= 0x45d9f3bu;
  h ^= h >> 16;
  return static_cast<float>(h * 0x1p-31 - 1);
}
inline std::vector<float> noise_vector(uint32_t stream, int64_t n, double scale = 1) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t j = 0; j < v.size(); ++j) v[j] = static_cast<float>(scale * noise(stream, static_cast<uint32_t>(j)));
  return v;
}

struct Facts {
  int64_t parameters = 0;  // 0: not known
  std::vector<int64_t> shape;
  double norm = 0, dot = 0;  // of the output: its length, and its product with stream 99 of noise
  void set_output(const float* y, int64_t n) {
    double squares = 0;
    dot = 0;
    for (int64_t j = 0; j < n; ++j) {
      squares += double{y[j]} * y[j];
      dot += double{y[j]} * noise(99, static_cast<uint32_t>(j));
    }
    norm = std::sqrt(squares);
  }
};

struct Program {
  std::function<void()> start;   // compiles, where there is something to compile, and makes the first call
  std::function<void()> call;    // what is measured
  std::function<Facts()> facts;  // asked once, after start
};

inline double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
inline double processor_seconds() {  // of all threads
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

inline double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

struct Times {
  double wall_us, processor_us;
};
// The median times of a call. Short calls are timed in groups of a millisecond.
inline Times measure(const std::function<void()>& call, double duration) {
  const double begin = seconds();
  call();
  const double once = seconds() - begin;
  const int group = once < 1e-3 ? static_cast<int>(1e-3 / once) + 1 : 1;
  std::vector<double> wall, processor;
  while (wall.empty() || seconds() - begin < duration) {
    const double p = processor_seconds(), w = seconds();
    for (int i = 0; i < group; ++i) call();
    wall.push_back((seconds() - w) / group * 1e6);
    processor.push_back((processor_seconds() - p) / group * 1e6);
  }
  return {median(std::move(wall)), median(std::move(processor))};
}

inline std::string json(const Facts& f) {
  std::ostringstream out;
  out.precision(9);
  out << "\"parameters\": " << f.parameters << ", \"shape\": [";
  for (size_t i = 0; i < f.shape.size(); ++i) out << (i ? ", " : "") << f.shape[i];
  out << "], \"norm\": " << f.norm << ", \"dot\": " << f.dot;
  return out.str();
}

// Answers requests until the input ends. Programs of one workload are kept, so that modes can be asked in turn.
inline int serve(const std::function<Program(const std::string& workload, const std::string& mode)>& prepare) {
  struct Ready {
    std::string mode;
    Program program;
    std::string facts;
  };
  std::string workload, mode, current;
  double duration = 0;
  std::vector<Ready> ready;
  while (std::cin >> workload >> mode >> duration) {
    try {
      if (workload != current) ready.clear();
      current = workload;
      auto found = std::find_if(ready.begin(), ready.end(), [&](const Ready& r) { return r.mode == mode; });
      if (found == ready.end()) {
        Program p = prepare(workload, mode);
        const double t = seconds();
        p.start();
        std::ostringstream facts;
        facts << "\"first_us\": " << (seconds() - t) * 1e6 << ", " << json(p.facts());
        measure(p.call, duration);  // warms up
        found = ready.insert(ready.end(), {mode, std::move(p), facts.str()});
      }
      const Times t = measure(found->program.call, duration);
      std::cout << "{\"wall_us\": " << t.wall_us << ", \"processor_us\": " << t.processor_us << ", " << found->facts << "}" << std::endl;
    } catch (const std::exception& e) {
      std::string text = e.what();
      std::replace_if(
          text.begin(), text.end(), [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' '; }, ' ');
      std::cout << "{\"error\": \"" << text << "\"}" << std::endl;
    }
  }
  return 0;
}

}  // namespace bench
