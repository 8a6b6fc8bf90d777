// Gradients of activation functions in one sweep.
#pragma once
#include <string_view>

#include "gluino/tensor.h"

namespace gluino::ops {

// head times the slope of the function `of`. relu, sigmoid, tanh, softrelu, softsign and log_sigmoid are given by their result; leaky,
// elu, selu and gelu by their argument.
Tensor slope_product(std::string_view of, const Tensor& head, const Tensor& value, double size = 1);

}  // namespace gluino::ops
