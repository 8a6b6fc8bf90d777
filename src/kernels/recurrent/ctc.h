// Connectionist temporal classification (Graves et al. 2006): loss and gradient of one sequence.
#pragma once
#include <cstdint>
#include <span>

namespace gluino::kernels {

// activations: (time, classes), before the softmax. Returns -log p(labels) and writes its gradient with respect to them. Labels that cannot
// fit into `time` give 0 and no gradient, as warp-ctc does.
double ctc_loss(const double* activations, int64_t time, int64_t classes, std::span<const int64_t> labels, int64_t blank, double* gradient);

}  // namespace gluino::kernels
