// Names under which MXNet's NumPy interface writes operators that mx.nd has too: files and programs say _npi_sqrt and mean sqrt.
#include "gluino/op.h"

namespace gluino::ops {
namespace {

struct Spellings {
  const char* op;
  std::vector<std::string> names;
};

const std::vector<Spellings>& all_spellings() {
  static const std::vector<Spellings> spellings{{"Activation", {"_npx_activation"}},
                                                {"BatchNorm", {"_npx_batch_norm"}},
                                                {"Cast", {"_npx_cast"}},
                                                {"Convolution", {"_npx_convolution"}},
                                                {"Custom", {"_npi_Custom"}},
                                                {"Deconvolution", {"_npx_deconvolution"}},
                                                {"Dropout", {"_npx_dropout"}},
                                                {"Embedding", {"_npx_embedding"}},
                                                {"Flatten", {"_npx_batch_flatten"}},
                                                {"FullyConnected", {"_npx_fully_connected"}},
                                                {"LeakyReLU", {"_npx_leaky_relu"}},
                                                {"Pooling", {"_npx_pooling"}},
                                                {"RNN", {"_npx_rnn"}},
                                                {"ROIPooling", {"_npx_roi_pooling"}},
                                                {"SwapAxis", {"_npi_swapaxes"}},
                                                {"_contrib_MultiBoxDetection", {"_npx_multibox_detection"}},
                                                {"_contrib_MultiBoxPrior", {"_npx_multibox_prior"}},
                                                {"_contrib_MultiBoxTarget", {"_npx_multibox_target"}},
                                                {"_copy", {"_CrossDeviceCopy"}},
                                                {"_histogram", {"_npi_histogram"}},
                                                {"_hypot", {"_Hypot"}},
                                                {"_hypot_scalar", {"_npi_hypot_scalar", "_HypotScalar"}},
                                                {"_linalg_inverse", {"_npi_inv"}},
                                                {"_linalg_potrf", {"_npi_cholesky"}},
                                                {"_maximum_scalar", {"_npi_maximum_scalar"}},
                                                {"_minimum_scalar", {"_npi_minimum_scalar"}},
                                                {"_minus_scalar", {"_npi_subtract_scalar", "_scatter_minus_scalar"}},
                                                {"_mod_scalar", {"_npi_mod_scalar"}},
                                                {"_mul_scalar", {"_npi_multiply_scalar"}},
                                                {"_plus_scalar", {"_npi_add_scalar", "_scatter_plus_scalar"}},
                                                {"_power_scalar", {"_npi_power_scalar"}},
                                                {"_random_randint", {"_npi_random_randint"}},
                                                {"_rminus_scalar", {"_npi_rsubtract_scalar"}},
                                                {"_rmod_scalar", {"_npi_rmod_scalar"}},
                                                {"Concat", {"_npi_rnn_param_concat"}},
                                                {"_rpower_scalar", {"_npi_rpower_scalar"}},
                                                {"_scatter_set_nd", {"_npi_scatter_set_nd"}},
                                                {"_shuffle", {"_npi_shuffle"}},
                                                {"_split_v2", {"_npi_split"}},
                                                {"elemwise_div", {"_scatter_elemwise_div"}},
                                                {"abs", {"_npi_abs", "_npi_absolute"}},
                                                {"arccos", {"_npi_arccos"}},
                                                {"arccosh", {"_npi_arccosh"}},
                                                {"arcsin", {"_npi_arcsin"}},
                                                {"arcsinh", {"_npi_arcsinh"}},
                                                {"arctan", {"_npi_arctan"}},
                                                {"arctanh", {"_npi_arctanh"}},
                                                {"broadcast_to", {"_npi_broadcast_to"}},
                                                {"cbrt", {"_npi_cbrt"}},
                                                {"ceil", {"_npi_ceil"}},
                                                {"clip", {"_npi_clip"}},
                                                {"cos", {"_npi_cos"}},
                                                {"cosh", {"_npi_cosh"}},
                                                {"degrees", {"_npi_degrees", "_npi_rad2deg"}},
                                                {"erf", {"_npx_erf"}},
                                                {"erfinv", {"_npx_erfinv"}},
                                                {"exp", {"_npi_exp"}},
                                                {"expm1", {"_npi_expm1"}},
                                                {"fix", {"_npi_fix"}},
                                                {"floor", {"_npi_floor"}},
                                                {"gamma", {"_npx_gamma"}},
                                                {"gammaln", {"_npx_gammaln"}},
                                                {"gather_nd", {"_npi_gather_nd", "_npx_gather_nd"}},
                                                {"log", {"_npi_log"}},
                                                {"log10", {"_npi_log10"}},
                                                {"log1p", {"_npi_log1p"}},
                                                {"log2", {"_npi_log2"}},
                                                {"log_softmax", {"_npx_log_softmax"}},
                                                {"one_hot", {"_npx_one_hot"}},
                                                {"radians", {"_npi_radians", "_npi_deg2rad"}},
                                                {"reciprocal", {"_npi_reciprocal"}},
                                                {"relu", {"_npx_relu"}},
                                                {"reshape_like", {"_npx_reshape_like"}},
                                                {"rint", {"_npi_rint"}},
                                                {"shape_array", {"_npx_shape_array"}},
                                                {"sigmoid", {"_npx_sigmoid"}},
                                                {"sign", {"_npi_sign"}},
                                                {"sin", {"_npi_sin"}},
                                                {"sinh", {"_npi_sinh"}},
                                                {"slice", {"_npi_slice", "_npx_slice"}},
                                                {"smooth_l1", {"_npx_smooth_l1"}},
                                                {"softmax", {"_npx_softmax"}},
                                                {"sort", {"_npi_sort"}},
                                                {"sqrt", {"_npi_sqrt"}},
                                                {"square", {"_npi_square"}},
                                                {"tan", {"_npi_tan"}},
                                                {"tanh", {"_npi_tanh"}},
                                                {"tile", {"_npi_tile"}},
                                                {"trunc", {"_npi_trunc"}}};
  return spellings;
}

[[maybe_unused]] const bool registered = [] {
  for (const Spellings& each : all_spellings()) OpRegistry::global().add_spellings(each.op, each.names);
  return true;
}();

}  // namespace
}  // namespace gluino::ops
