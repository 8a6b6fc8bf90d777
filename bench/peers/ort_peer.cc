// The workloads of the comparison in ONNX Runtime, mode "session". Usage: ort_peer THREADS LIBRARY FOLDER, where the folder
// holds WORKLOAD.onnx; requests as in ../runner.h. The library is loaded at run time and called through its C ABI: a table
// of functions that only ever grows at its end, so positions stand for names and no header is needed.
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "../runner.h"

namespace {

enum Function {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kSetGraphOptimizationLevel = 23,
  kSetIntraOpNumThreads = 24,
  kGetInputCount = 30,
  kGetInputTypeInfo = 33,
  kGetInputName = 36,
  kGetOutputName = 37,
  kCreateTensorWithData = 49,
  kGetTensorData = 51,
  kCastTypeInfoToTensorInfo = 55,
  kGetDimensionsCount = 61,
  kGetDimensions = 62,
  kGetTensorTypeAndShape = 65,
  kCreateCpuMemoryInfo = 69,
  kGetDefaultAllocator = 78,
  kReleaseSession = 95,
  kReleaseValue = 96,
};
constexpr uint32_t kApiVersion = 12;
constexpr int kAllOptimizations = 99, kWarnings = 2, kArenaAllocator = 1, kFloat = 1;

using Handle = void*;
Handle* table = nullptr;

// Calls a function of the table that returns a status.
template <class... A>
void call(Function f, A... arguments) {
  if (Handle status = reinterpret_cast<Handle (*)(A...)>(table[f])(arguments...))
    throw std::runtime_error(reinterpret_cast<const char* (*)(Handle)>(table[kGetErrorMessage])(status));
}
void release(Function f, Handle object) { reinterpret_cast<void (*)(Handle)>(table[f])(object); }

struct Runtime {
  Handle environment = nullptr, options = nullptr, allocator = nullptr, memory = nullptr;
  Runtime(const char* library, int threads) {
    Handle loaded = dlopen(library, RTLD_NOW);
    if (!loaded) throw std::runtime_error(dlerror());
    auto get_base = reinterpret_cast<Handle* (*)()>(dlsym(loaded, "OrtGetApiBase"));
    if (!get_base) throw std::runtime_error("not ONNX Runtime");
    table = reinterpret_cast<Handle* (*)(uint32_t)>(get_base()[0])(kApiVersion);
    call(kCreateEnv, kWarnings, "bench", &environment);
    call(kCreateSessionOptions, &options);
    call(kSetGraphOptimizationLevel, options, kAllOptimizations);
    call(kSetIntraOpNumThreads, options, threads);
    call(kGetDefaultAllocator, &allocator);
    call(kCreateCpuMemoryInfo, kArenaAllocator, 0, &memory);
  }
};

std::vector<int64_t> extents(Handle tensor_info) {
  size_t rank = 0;
  call(kGetDimensionsCount, tensor_info, &rank);
  std::vector<int64_t> shape(rank);
  call(kGetDimensions, tensor_info, shape.data(), rank);
  return shape;
}
int64_t product(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

// A model with its inputs; all are float32 of fixed shapes. Of the outputs, only the first is asked for.
class Session {
 public:
  Session(const Runtime& runtime, std::string path) : runtime_(runtime), path_(std::move(path)) {}
  ~Session() {
    for (Handle v : inputs_) release(kReleaseValue, v);
    if (session_) release(kReleaseSession, session_);
  }
  Session(const Session&) = delete;

  void start() {
    call(kCreateSession, runtime_.environment, path_.c_str(), runtime_.options, &session_);
    size_t count = 0;
    call(kGetInputCount, session_, &count);
    for (size_t i = 0; i < count; ++i) add_input(i);
    call(kGetOutputName, session_, size_t{0}, runtime_.allocator, &output_name_);
    run();
  }
  void run() const { release(kReleaseValue, output()); }

  bench::Facts facts() const {
    Handle value = output(), info = nullptr;
    float* y = nullptr;
    call(kGetTensorTypeAndShape, value, &info);
    call(kGetTensorData, value, &y);
    bench::Facts f{.shape = extents(info)};
    f.set_output(y, product(f.shape));
    release(kReleaseValue, value);
    return f;
  }

 private:
  void add_input(size_t i) {
    Handle type = nullptr, info = nullptr, value = nullptr;
    char* name = nullptr;
    call(kGetInputName, session_, i, runtime_.allocator, &name);
    call(kGetInputTypeInfo, session_, i, &type);
    call(kCastTypeInfoToTensorInfo, type, &info);
    const std::vector<int64_t> shape = extents(info);
    data_.push_back(bench::noise_vector(static_cast<uint32_t>(100 + i), product(shape)));
    std::vector<float>& data = data_.back();
    call(kCreateTensorWithData, runtime_.memory, data.data(), data.size() * sizeof(float), shape.data(), shape.size(), kFloat, &value);
    input_names_.push_back(name);
    inputs_.push_back(value);
  }
  Handle output() const {
    Handle value = nullptr;
    call(kRun, session_, Handle{nullptr}, input_names_.data(), inputs_.data(), inputs_.size(), &output_name_, size_t{1}, &value);
    return value;
  }

  const Runtime& runtime_;
  std::string path_;
  Handle session_ = nullptr;
  std::vector<std::vector<float>> data_;  // what the inputs point to
  std::vector<Handle> inputs_;
  std::vector<const char*> input_names_;
  char* output_name_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: ort_peer THREADS LIBRARY FOLDER < requests (workload mode seconds)\n";
    return 2;
  }
  const Runtime runtime(argv[2], std::atoi(argv[1]));
  const std::string folder = argv[3];
  return bench::serve([&](const std::string& workload, const std::string&) {
    auto session = std::make_shared<Session>(runtime, folder + "/" + workload + ".onnx");
    return bench::Program{[session] { session->start(); }, [session] { session->run(); }, [session] { return session->facts(); }};
  });
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
