// Derived values kept on disk between processes: rearranging the weights of a large network takes longer than to run it once. One file
// per value in the cache folder. When the files take more than $GLUINO_CACHE_MB megabytes (2048) those that were not used for the longest
// time go.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/cache_folder.h"
#include "gluino/tensor.h"

namespace gluino {

class KeptValues {
 public:
  KeptValues(std::string folder, int64_t most_bytes) : files_(std::move(folder), ".value"), most_bytes_(most_bytes) {}
  static KeptValues* get();  // those of the cache folder; null: there is none

  static constexpr int64_t kSmallest = 1 << 18;  // smaller values, in bytes, are computed faster than found
  // `identity`: everything the value depends on. A null tensor: there is none.
  Tensor find(std::string_view identity, const Shape& shape, DType dtype) const;
  void put(std::string_view identity, const Tensor& value) const;
  void put_later(std::string identity, Tensor value) const;  // in the background; the value must not change any more

 private:
  CacheFolder files_;
  int64_t most_bytes_;
};

// A hash of a tensor's elements, as text.
std::string hash_of(const Tensor& t);

}  // namespace gluino
