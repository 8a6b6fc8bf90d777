// Connectionist temporal classification (Graves et al. 2006): loss and gradient of one sequence.
#pragma once
#include <cstdint>
#include <span>

namespace gluino::kernels {

// log_probs: (time, classes) of logarithms of probabilities. Returns -log p(labels) and writes its gradient with respect to the
// activations before the softmax. Labels that cannot fit into `time` give 0 and no gradient, as warp-ctc does.
double ctc_loss(const double* log_probs, int64_t time, int64_t classes, std::span<const int64_t> labels, int64_t blank, double* gradient);

}  // namespace gluino::kernels
