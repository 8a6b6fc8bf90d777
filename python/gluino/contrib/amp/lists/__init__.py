"""Which operators run in which precision."""

LOW = ["Convolution", "Deconvolution", "FullyConnected", "RNN", "dot", "batch_dot", "_linalg_gemm", "_linalg_gemm2",
       "_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_selfatt_valatt", "_contrib_interleaved_matmul_encdec_qk",
       "_contrib_interleaved_matmul_encdec_valatt"]
FLOAT32 = ["Softmax", "softmax", "log_softmax", "softmin", "SoftmaxActivation", "softmax_cross_entropy", "exp", "expm1", "log", "log10", "log2", "log1p",
           "cosh", "sinh", "tan", "arcsin", "arccos", "arctanh", "arccosh", "erfinv", "gamma", "gammaln", "rsqrt", "rcbrt", "reciprocal", "square", "cumsum",
           "sum", "nansum", "prod", "nanprod", "mean", "norm", "L2Normalization", "LRN", "InstanceNorm", "LayerNorm", "GroupNorm", "CTCLoss", "smooth_l1",
           "broadcast_power", "_power_scalar", "_rpower_scalar", "_linalg_potrf", "_linalg_potri", "_linalg_syrk", "_linalg_sumlogdiag",
           "_linalg_det", "_linalg_slogdet", "_linalg_inverse", "topk", "argsort", "pick", "khatri_rao", "moments"]
WIDEST = ["elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div",
          "broadcast_mod", "broadcast_maximum", "broadcast_minimum", "broadcast_hypot", "broadcast_equal", "broadcast_not_equal", "broadcast_greater",
          "broadcast_greater_equal", "broadcast_lesser", "broadcast_lesser_equal", "broadcast_logical_and", "broadcast_logical_or",
          "broadcast_logical_xor", "Concat", "stack", "add_n", "where"]
CONDITIONAL_FLOAT32 = [("Activation", "act_type", ["softrelu"]), ("LeakyReLU", "act_type", ["elu", "selu"])]
LOSSES = ["SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput", "SVMOutput", "MakeLoss"]


def rest():
    """Operators that run in the precision of their inputs: all that are in no other list."""
    from .... import _core
    listed = {*LOW, *FLOAT32, *WIDEST, *LOSSES, *(name for name, _, _ in CONDITIONAL_FLOAT32)}
    return sorted({op for _, op in _core.operator_names()} - listed)


from . import symbol_bf16, symbol_fp16  # noqa: E402,F401: they read the lists above
