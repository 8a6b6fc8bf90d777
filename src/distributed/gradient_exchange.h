// GradientExchange: the gradients of weights, summed over all ranks. They travel in buckets, in an order that all ranks share: the last
// weights first, whose gradients backward() computes first, each bucket as soon as it is whole and those before it are on their way.
#pragma once
#include <memory>
#include <string>

#include "gluino/tensor.h"

namespace gluino::distributed {

struct ExchangeOptions {
  // How float32 gradients are sent: "" as they are; "fp16", "bf16" rounded; "2bit" as -threshold, 0 or threshold, where what was left
  // out is added to the next gradient.
  std::string compression;
  double threshold = 0.5;
  double bucket_megabytes = 4;
  bool overlap = true;  // buckets leave while backward() still computes
};

class GradientExchange {
 public:
  explicit GradientExchange(ExchangeOptions options);  // raises UserError for a compression that does not exist
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  // Afterwards .grad() of all weights is the sum over the ranks. A rank whose backward() has not reached a weight adds nothing to it; a
  // weight that some rank has reached has a fresh gradient on all. The weights and their order must be the same on all ranks, and what
  // is given here is watched: the next backward() begins to send.
  void sum_over_ranks(const Tensors& weights);

  const ExchangeOptions& options() const;
  int64_t bytes_sent() const;     // by this rank, since it was made
  int64_t early_buckets() const;  // how many buckets have left before backward() was over

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// All ranks take the values of rank 0.
void broadcast_from_first(const Tensors& tensors);

}  // namespace gluino::distributed
