// Versions, dtypes, settings of the process, statistics.
#include "c_api/array.h"
#include "c_api/errors.h"
#include "c_api/model.h"
#include "gluino/random.h"
#include "gluino/version.h"

using namespace gluino;
using namespace gluino::c_api;

extern "C" {

const char* gluino_version(void) { return GLUINO_VERSION; }
int gluino_c_api_version(void) { return GLUINO_C_API_VERSION; }

const char* gluino_dtype_name(gluino_dtype dtype) {
  for (const DType known : kAllDTypes)
    if (static_cast<gluino_dtype>(known) == dtype) return dtype_name(known).data();
  return nullptr;
}
size_t gluino_dtype_bytes(gluino_dtype dtype) {
  for (const DType known : kAllDTypes)
    if (static_cast<gluino_dtype>(known) == dtype) return static_cast<size_t>(dtype_bytes(known));
  return 0;
}

gluino_status gluino_set_num_threads(int threads) {
  return guarded(__func__, [&] { set_num_threads(threads); });
}
int gluino_num_threads(void) { return num_threads(); }
gluino_status gluino_seed(uint64_t start) {
  return guarded(__func__, [&] { seed(start); });
}

gluino_status gluino_memory_statistics(int device, gluino_memory* statistics) {
  return guarded(__func__, [&] {
    const MemoryStats s = memory_stats(cpu(device));
    *not_null(statistics, "statistics") = {s.live, s.peak, s.cached, s.allocations, Models::global().count(), Arrays::global().count()};
  });
}
gluino_status gluino_memory_reset_peak(int device) {
  return guarded(__func__, [&] { reset_peak(cpu(device)); });
}
gluino_status gluino_memory_release_cached(int device) {
  return guarded(__func__, [&] { release_cached_memory(cpu(device)); });
}

}  // extern "C"
