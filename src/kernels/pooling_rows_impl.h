// Included by pooling_rows_<isa>.cc, each compiled with its own instruction set.
#include <float.h>

#include "kernels/lanes.h"
#include "kernels/pooling_rows.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

template <bool kMax>
void pool(const PoolRow& r, const float* data, float* out) {
  for (int64_t i = 0; i < r.count; ++i, data += r.window_step, out += r.out_step) {
    Lanes result = spread(kMax ? -FLT_MAX : 0.0f);
    for (int64_t y = 0; y < r.height; ++y)
      for (int64_t x = 0; x < r.width; ++x) {
        const Lanes v = load(data + y * r.row_step + x * r.tap_step);
        if constexpr (kMax)
          result = (v > result) | (v != v) ? v : result;
        else
          result += v;
      }
    store(out, kMax ? result : result / r.divisor);
  }
}

}  // namespace

extern const PoolTable kPoolTable;
const PoolTable kPoolTable = {pool<true>, pool<false>};

}  // namespace gluino::kernels::GLUINO_ISA
