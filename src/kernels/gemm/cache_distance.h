// What the second-level cache may still hold. Asking for memory ahead of time pays where it lies further away (6 % of a product) and costs
// where it does not (3 %).
#pragma once
#include <cstdint>

namespace gluino::kernels {

// Whether so many bytes, read one after the other, leave the second-level cache before they are read again.
bool outgrows_cache(int64_t bytes);

// Says that this thread reads all `bytes` at `data` now. False: it did so lately, and read little since.
bool comes_from_afar(const void* data, int64_t bytes);

}  // namespace gluino::kernels
