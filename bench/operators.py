#!/usr/bin/python3
"""Single operators: how near each comes to what the machine can do, and beside PyTorch where it is installed.

    PYTHONPATH=$(make -s pythonpath) /usr/bin/python3 bench/operators.py [--quick] [--only PATTERN] [--json FILE]

Each is timed on one thread, in processor time, the fastest of many calls: eager, hybridized, and with its backward pass. The limit is the
time to move the bytes of inputs and outputs at the rate of a copy of the same size, or to make its multiply-adds at the rate of a large
matrix product. The furthest from its limit stands first."""
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLUINO_NUM_THREADS", "1")

import numpy as np  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import bench_report  # noqa: E402
import gluino as mx  # noqa: E402
from gluino import autograd, nd  # noqa: E402

try:
    import torch
    torch.set_num_threads(1)
except ImportError:
    torch = None

# Shapes of the inputs that the expressions name. They leave the second-level cache.
SHAPES = {"a": (1024, 1024), "b": (1024, 1024), "p": (1024, 1024), "row": (1, 1024), "col": (1024, 1), "v": (1024,),
          "x": (8, 32, 56, 56), "ch": (1, 32, 1, 1), "pl": (1, 1, 56, 56), "m": (512, 512), "n": (512, 512), "t": (16, 64, 1024),
          "s": (1024, 16, 16), "w3": (32, 32, 3, 3), "w1": (64, 32, 1, 1), "wd": (32, 1, 3, 3), "wg": (32, 8, 3, 3), "bias": (32,), "c1": (8, 32, 3136),
          "w5": (32, 32, 5, 5), "w1d": (32, 32, 3), "vol": (2, 16, 12, 28, 28), "w3d": (16, 16, 3, 3, 3), "em": (4096, 256), "spd": (256, 256),
          "sl": (64, 16, 96), "big": (16, 128, 128)}
WHOLE = {"i": (4096,), "j": (1024,), "y": (16, 20)}  # indices below 1024, in y below 96 and not 0
POSITIVE = {"p"}


def fc(a, w):
    return f"nd.FullyConnected({a}, {w}, num_hidden=512, no_bias=True, flatten=False)"


def conv(x, w, kernel, filters, **more):
    attributes = "".join(f", {k}={v}" for k, v in more.items())
    return f"nd.Convolution({x}, {w}, kernel={kernel}, num_filter={filters}, no_bias=True{attributes})"


# name: Gluino's expression, PyTorch's or None, multiply-adds (0: it moves or maps data), whether it has a gradient
CASES = {
    "copy": ("a.copy()", "a.clone()", 0, True),
    "add": ("a + b", "a + b", 0, True),
    "divide": ("a / p", "a / p", 0, True),
    "add row": ("nd.broadcast_add(a, row)", "a + row", 0, True),
    "add column": ("nd.broadcast_add(a, col)", "a + col", 0, True),
    "add channel": ("nd.broadcast_add(x, ch)", "x + ch", 0, True),
    "add plane": ("nd.broadcast_mul(x, pl)", "x * pl", 0, True),
    "outer": ("nd.broadcast_mul(row, col)", "row * col", 0, True),
    "broadcast_to": ("nd.broadcast_to(col, shape=(1024, 1024))", "col.expand(1024, 1024).contiguous()", 0, True),
    "where": ("nd.where(a > 0, a, b)", "torch.where(a > 0, a, b)", 0, True),
    "clip": ("nd.clip(a, -1, 1)", "torch.clamp(a, -1, 1)", 0, True),
    "hypot": ("nd.broadcast_hypot(a, b)", "torch.hypot(a, b)", 0, True),
    "power": ("nd.broadcast_power(p, b)", "torch.pow(p, b)", 0, True),
    "arctan2": ("mx.np.arctan2(a.as_np_ndarray(), b.as_np_ndarray())", "torch.atan2(a, b)", 0, True),
    **{name: (f"nd.{name}({x})", f"torch.{other}({x})" if other else None, 0, True) for name, other, x in [
        ("sin", "sin", "a"), ("cos", "cos", "a"), ("tan", "tan", "a"), ("arcsin", "asin", "u"), ("arccos", "acos", "u"), ("arctan", "atan", "a"),
        ("sinh", "sinh", "a"), ("cosh", "cosh", "a"), ("tanh", "tanh", "a"), ("arcsinh", "asinh", "a"), ("arccosh", "acosh", "(p + 1)"),
        ("arctanh", "atanh", "u"), ("exp", "exp", "a"), ("expm1", "expm1", "a"), ("log", "log", "p"), ("log1p", "log1p", "p"),
        ("log2", "log2", "p"), ("log10", "log10", "p"), ("sqrt", "sqrt", "p"), ("rsqrt", "rsqrt", "p"), ("cbrt", None, "p"),
        ("erf", "erf", "a"), ("erfinv", "erfinv", "u"), ("gammaln", "lgamma", "p"), ("gamma", None, "p"), ("sigmoid", "sigmoid", "a"),
        ("relu", "relu", "a"), ("softsign", "nn.functional.softsign", "a"), ("square", "square", "a"), ("abs", "abs", "a"),
        ("reciprocal", "reciprocal", "p")]},
    **{name: (f"nd.broadcast_{name}(a, b)", f"torch.{other}(a, b)", 0, has_gradient) for name, other, has_gradient in [
        ("maximum", "maximum", True), ("minimum", "minimum", True), ("greater", "gt", False), ("mod", "remainder", True)]},
    **{name: (f"nd.{name}(a)", f"torch.{name}(a)", 0, False) for name in ["floor", "ceil", "trunc", "sign"]},
    "digamma": ("nd.digamma(p)", "torch.digamma(p)", 0, False),
    "add_n": ("nd.add_n(a, b, p)", "a + b + p", 0, True),
    "axpy": ("a + 0.5 * b", "torch.add(a, b, alpha=0.5)", 0, True),
    "silu": ("nd.silu(a)", "torch.nn.functional.silu(a)", 0, True),
    "hard sigmoid": ("nd.hard_sigmoid(a, alpha=1 / 6)", "torch.nn.functional.hardsigmoid(a)", 0, True),
    "log sigmoid": ("nd.Activation(a, act_type='log_sigmoid')", "torch.nn.functional.logsigmoid(a)", 0, True),
    "leaky relu": ("nd.LeakyReLU(a, slope=0.1)", "torch.nn.functional.leaky_relu(a, 0.1)", 0, True),
    "prelu": ("nd.LeakyReLU(x, bias, act_type='prelu')", "torch.nn.functional.prelu(x, bias)", 0, True),
    "selu": ("nd.LeakyReLU(a, act_type='selu')", "torch.nn.functional.selu(a)", 0, True),
    "smooth_l1": ("nd.smooth_l1(a, scalar=1)", "torch.nn.functional.smooth_l1_loss(a, torch.zeros_like(a), reduction='none')", 0, True),
    "softrelu": ("nd.Activation(a, act_type='softrelu')", "torch.nn.functional.softplus(a)", 0, True),
    "gelu": ("nd.LeakyReLU(a, act_type='gelu')", "torch.nn.functional.gelu(a)", 0, True),
    "elu": ("nd.LeakyReLU(a, act_type='elu')", "torch.nn.functional.elu(a)", 0, True),
    "round": ("nd.round(a)", "torch.round(a)", 0, False),
    "sum": ("nd.sum(a)", "a.sum()", 0, True),
    **{f"{op} axis {axis}": (f"nd.{op}(a, axis={axis})", f"a.{other}({axis})", 0, has_gradient)
       for op, other, has_gradient in [("sum", "sum", True), ("mean", "mean", True), ("max", "amax", True), ("prod", "prod", True),
                                       ("argmax", "argmax", False), ("cumsum", "cumsum", True), ("sort", "sort", False)] for axis in (0, 1)},
    "sum axes 0 2 3": ("nd.sum(x, axis=(0, 2, 3))", "x.sum((0, 2, 3))", 0, True),
    "sum axis 1 of 4": ("nd.sum(x, axis=1)", "x.sum(1)", 0, True),
    "mean": ("nd.mean(a)", "a.mean()", 0, True),
    "mean float16": ("nd.mean(h, axis=1)", "h.mean(1)", 0, True),
    "sum int32": ("nd.sum(k, axis=1)", "k.sum(1, dtype=torch.int32)", 0, False),
    "min axis 0": ("nd.min(a, axis=0)", "a.amin(0)", 0, True),
    "logsumexp": ("nd.logsumexp(a, axis=1)", "torch.logsumexp(a, 1)", 0, True),
    "variance": ("mx.np.var(a.as_np_ndarray(), axis=1)", "a.var(1, unbiased=False)", 0, True),
    "argsort": ("nd.argsort(a)", "a.argsort()", 0, False),
    "unique": ("mx.np.unique(k.as_np_ndarray())", "torch.unique(k)", 0, False),
    "norm": ("nd.norm(a)", "a.norm()", 0, True),
    "norm axis 1": ("nd.norm(a, axis=1)", "a.norm(dim=1)", 0, True),
    "topk": ("nd.topk(a, k=10, ret_typ='value')", "a.topk(10)[0]", 0, True),
    "softmax": ("nd.softmax(a)", "torch.softmax(a, -1)", 0, True),
    "softmax axis 0": ("nd.softmax(a, axis=0)", "torch.softmax(a, 0)", 0, True),
    "softmax axis 1 of 4": ("nd.softmax(x, axis=1)", "torch.softmax(x, 1)", 0, True),
    "log_softmax": ("nd.log_softmax(a)", "torch.log_softmax(a, -1)", 0, True),
    "L2 normalize": ("nd.L2Normalization(a)", "torch.nn.functional.normalize(a)", 0, True),
    "L2 normalize channels": ("nd.L2Normalization(x, mode='channel')", "torch.nn.functional.normalize(x)", 0, True),
    "softmin": ("nd.softmin(a)", "torch.nn.functional.softmin(a, -1)", 0, True),
    "softmax cross entropy": ("nd.softmax_cross_entropy(a, j)", "torch.nn.functional.cross_entropy(a, j, reduction='sum')", 0, True),
    "CTC": ("nd.CTCLoss(sl, y)", "torch.nn.functional.ctc_loss(torch.log_softmax(sl, -1), y, (64,) * 16, (20,) * 16, reduction='none')", 0, True),
    "batch norm": ("nd.BatchNorm(x, bias, bias, zero, one, fix_gamma=False)",
                   "torch.nn.functional.batch_norm(x, torch.zeros(32), torch.ones(32), bias, bias, torch.is_grad_enabled())", 0, True),
    "layer norm": ("nd.LayerNorm(a, v, v)", "torch.nn.functional.layer_norm(a, (1024,), v, v)", 0, True),
    "instance norm": ("nd.InstanceNorm(x, bias, bias)", "torch.nn.functional.instance_norm(x, weight=bias, bias=bias)", 0, True),
    "group norm": ("nd.GroupNorm(x, bias, bias, num_groups=4)", "torch.nn.functional.group_norm(x, 4, bias, bias)", 0, True),
    "transpose": ("a.T", "a.T.contiguous()", 0, True),
    "channels last": ("x.transpose((0, 2, 3, 1))", "x.permute(0, 2, 3, 1).contiguous()", 0, True),
    "swap inner": ("t.transpose((0, 2, 1))", "t.transpose(1, 2).contiguous()", 0, True),
    "swap outer": ("t.transpose((1, 0, 2))", "t.transpose(0, 1).contiguous()", 0, True),
    "pad": ("nd.pad(x, mode='constant', pad_width=(0, 0, 0, 0, 2, 2, 2, 2))", "torch.nn.functional.pad(x, (2, 2, 2, 2))", 0, True),
    "pad reflect": ("nd.pad(x, mode='reflect', pad_width=(0, 0, 0, 0, 2, 2, 2, 2))", "torch.nn.functional.pad(x, (2, 2, 2, 2), mode='reflect')", 0, True),
    "concat axis 0": ("nd.concat(a, b, dim=0)", "torch.cat([a, b], 0)", 0, True),
    "concat axis 1": ("nd.concat(a, b, dim=1)", "torch.cat([a, b], 1)", 0, True),
    "stack": ("nd.stack(a, b)", "torch.stack([a, b])", 0, True),
    "stack last": ("nd.stack(a, b, axis=-1)", "torch.stack([a, b], -1)", 0, True),
    "split": ("nd.split(a, num_outputs=4, axis=1)", "[part.contiguous() for part in a.chunk(4, 1)]", 0, False),
    "repeat": ("nd.repeat(v, repeats=1024)", "torch.repeat_interleave(v, 1024)", 0, True),
    "tile": ("nd.tile(v, reps=(1024,))", "v.repeat(1024)", 0, True),
    "flip axis 0": ("nd.flip(a, axis=0)", "a.flip(0)", 0, True),
    "flip axis 1": ("nd.flip(a, axis=1)", "a.flip(1)", 0, True),
    "slice": ("nd.slice_axis(a, axis=1, begin=0, end=512)", "a[:, :512].contiguous()", 0, True),
    "slice with step": ("nd.slice(a, begin=(None, None), end=(None, None), step=(1, 2))", "a[:, ::2].contiguous()", 0, True),
    "take": ("nd.take(a, i)", "a[i]", 0, True),
    "take axis 1": ("nd.take(a, i, axis=1)", "a[:, i]", 0, True),
    "pick": ("nd.pick(a, j)", "a.gather(1, j[:, None])[:, 0]", 0, True),
    "gather_nd": ("nd.gather_nd(a, nd.stack(j, j))", "a[j, j]", 0, True),
    "roll": ("mx.np.roll(a.as_np_ndarray(), 3, axis=1)", "a.roll(3, 1)", 0, True),
    "triangle": ("mx.np.tril(a.as_np_ndarray())", "a.tril()", 0, True),
    "diagonal": ("nd.diag(v)", "torch.diag(v)", 0, True),
    "depth to space": ("nd.depth_to_space(x, 2)", "torch.nn.functional.pixel_shuffle(x, 2)", 0, True),
    "space to depth": ("nd.space_to_depth(x, 2)", "torch.nn.functional.pixel_unshuffle(x, 2)", 0, True),
    "embedding": ("nd.Embedding(i, em, input_dim=4096, output_dim=256)", "torch.nn.functional.embedding(i, em)", 0, True),
    "one_hot": ("nd.one_hot(i, 1024)", "torch.nn.functional.one_hot(i, 1024).float()", 0, False),
    "astype float64": ("a.astype('float64')", "a.double()", 0, True),
    "dot": ("nd.dot(m, n)", "m @ n", 512 ** 3, True),
    "dot transposed": (fc("m", "n"), "torch.nn.functional.linear(m, n)", 512 ** 3, True),
    "matrix times vector": ("nd.dot(a, v)", "a @ v", 0, True),
    "vector times matrix": ("nd.dot(v, a)", "v @ a", 0, True),
    "batch_dot small": ("nd.batch_dot(s, s)", "torch.bmm(s, s)", 0, True),
    "batch_dot": ("nd.batch_dot(big, big)", "torch.bmm(big, big)", 16 * 128 ** 3, True),
    "batch_dot transposed": ("nd.batch_dot(big, big, transpose_b=True)", "torch.bmm(big, big.transpose(1, 2))", 16 * 128 ** 3, True),
    "einsum": ("mx.np.einsum('bij,bkj->bik', big.as_np_ndarray(), big.as_np_ndarray())", "torch.einsum('bij,bkj->bik', big, big)", 16 * 128 ** 3, True),
    "dot of few rows": ("nd.dot(few, a)", "few @ a", 8 * 1024 ** 2, True),
    "convolution 5x5": (conv("x", "w5", (5, 5), 32, pad=(2, 2)), "torch.nn.functional.conv2d(x, w5, padding=2)", 8 * 56 * 56 * 32 * 32 * 25, True),
    "convolution 3x3": (conv("x", "w3", (3, 3), 32, pad=(1, 1)), "torch.nn.functional.conv2d(x, w3, padding=1)", 8 * 56 * 56 * 32 * 32 * 9, True),
    "convolution 3x3 stride 2": (conv("x", "w3", (3, 3), 32, pad=(1, 1), stride=(2, 2)), "torch.nn.functional.conv2d(x, w3, padding=1, stride=2)",
                                 8 * 28 * 28 * 32 * 32 * 9, True),
    "convolution dilated": (conv("x", "w3", (3, 3), 32, pad=(2, 2), dilate=(2, 2)), "torch.nn.functional.conv2d(x, w3, padding=2, dilation=2)",
                            8 * 56 * 56 * 32 * 32 * 9, True),
    "convolution 1x1": (conv("x", "w1", (1, 1), 64), "torch.nn.functional.conv2d(x, w1)", 8 * 56 * 56 * 32 * 64, True),
    "convolution depthwise": (conv("x", "wd", (3, 3), 32, pad=(1, 1), num_group=32), "torch.nn.functional.conv2d(x, wd, padding=1, groups=32)", 0, True),
    "convolution in groups": (conv("x", "wg", (3, 3), 32, pad=(1, 1), num_group=4), "torch.nn.functional.conv2d(x, wg, padding=1, groups=4)",
                              8 * 56 * 56 * 32 * 8 * 9, True),
    "convolution 1-D": (conv("c1", "w1d", (3,), 32, pad=(1,)), "torch.nn.functional.conv1d(c1, w1d, padding=1)", 8 * 3136 * 32 * 32 * 3, True),
    "convolution 3-D": (conv("vol", "w3d", (3, 3, 3), 16, pad=(1, 1, 1)), "torch.nn.functional.conv3d(vol, w3d, padding=1)",
                        2 * 12 * 28 * 28 * 16 * 16 * 27, True),
    "deconvolution": ("nd.Deconvolution(x, w3, kernel=(3, 3), pad=(1, 1), num_filter=32, no_bias=True)",
                      "torch.nn.functional.conv_transpose2d(x, w3, padding=1)", 8 * 56 * 56 * 32 * 32 * 9, True),
    "deconvolution stride 2": ("nd.Deconvolution(x, w3, kernel=(3, 3), stride=(2, 2), pad=(1, 1), adj=(1, 1), num_filter=32, no_bias=True)",
                               "torch.nn.functional.conv_transpose2d(x, w3, stride=2, padding=1, output_padding=1)", 8 * 56 * 56 * 32 * 32 * 9, True),
    "convolution float64": (conv("x64", "w64", (3, 3), 32, pad=(1, 1)), "torch.nn.functional.conv2d(x64, w64, padding=1)",
                            2 * 8 * 56 * 56 * 32 * 32 * 9, True),
    "dot float64": ("nd.dot(m64, m64)", "m64 @ m64", 2 * 512 ** 3, True),
    "sin float64": ("nd.sin(a64)", "torch.sin(a64)", 0, True),
    "exp float64": ("nd.exp(a64)", "torch.exp(a64)", 0, True),
    "add float16": ("h + h", "h + h", 0, True),
    "add bfloat16": ("nd.cast(a, dtype='bfloat16') + 1", "a.bfloat16() + 1", 0, True),
    "exp float16": ("nd.exp(h)", "torch.exp(h.float()).half()", 0, True),
    "softmax float16": ("nd.softmax(h)", "torch.softmax(h.float(), -1).half()", 0, True),
    "layer norm float64": ("nd.LayerNorm(a64, v64, v64)", "torch.nn.functional.layer_norm(a64, (1024,), v64, v64)", 0, True),
    "multiply int64": ("l * l", "l * l", 0, False),
    "add int32": ("k + k", "k + k", 0, False),
    "max pooling": ("nd.Pooling(x, kernel=(2, 2), stride=(2, 2))", "torch.nn.functional.max_pool2d(x, 2)", 0, True),
    "average pooling": ("nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type='avg')", "torch.nn.functional.avg_pool2d(x, 2)", 0, True),
    "max pooling 3x3": ("nd.Pooling(x, kernel=(3, 3), stride=(1, 1), pad=(1, 1))", "torch.nn.functional.max_pool2d(x, 3, 1, 1)", 0, True),
    "average pooling 3x3": ("nd.Pooling(x, kernel=(3, 3), stride=(1, 1), pad=(1, 1), pool_type='avg')", "torch.nn.functional.avg_pool2d(x, 3, 1, 1)", 0, True),
    "max pooling 1-D": ("nd.Pooling(c1, kernel=(3,), stride=(2,))", "torch.nn.functional.max_pool1d(c1, 3, 2)", 0, True),
    "max pooling 3-D": ("nd.Pooling(vol, kernel=(2, 2, 2), stride=(2, 2, 2))", "torch.nn.functional.max_pool3d(vol, 2)", 0, True),
    "global average pooling": ("nd.Pooling(x, global_pool=True, pool_type='avg')", "torch.nn.functional.adaptive_avg_pool2d(x, 1)", 0, True),
    "global max pooling": ("nd.Pooling(x, global_pool=True)", "torch.nn.functional.adaptive_max_pool2d(x, 1)", 0, True),
    "adaptive pooling": ("nd.contrib.AdaptiveAvgPooling2D(x, output_size=7)", "torch.nn.functional.adaptive_avg_pool2d(x, 7)", 0, True),
    "upsampling nearest": ("nd.UpSampling(x, scale=2, sample_type='nearest')", "torch.nn.functional.interpolate(x, scale_factor=2)", 0, True),
    "resize bilinear": ("nd.contrib.BilinearResize2D(x, height=112, width=112)",
                        "torch.nn.functional.interpolate(x, size=(112, 112), mode='bilinear', align_corners=True)", 0, True),
    "dropout": ("nd.Dropout(a, mode='always')", "torch.nn.functional.dropout(a)", 0, True),
    "uniform": ("nd.random.uniform(shape=(1024, 1024))", "torch.rand(1024, 1024)", 0, False),
    "normal": ("nd.random.normal(shape=(1024, 1024))", "torch.randn(1024, 1024)", 0, False),
    "exponential": ("nd.random.exponential(shape=(1024, 1024))", "torch.empty(1024, 1024).exponential_()", 0, False),
    "bernoulli": ("nd.random.uniform(shape=(1024, 1024)) < 0.3", "torch.empty(1024, 1024).bernoulli_(0.3)", 0, False),
    "randint": ("nd.random.randint(0, 100, shape=(1024, 1024))", "torch.randint(0, 100, (1024, 1024), dtype=torch.int32)", 0, False),
    "poisson": ("nd.random.poisson(4.0, shape=(512, 512))", "torch.poisson(torch.full((512, 512), 4.0))", 0, False),
    "gamma numbers": ("nd.random.gamma(2.0, 1.0, shape=(512, 512))", "torch._standard_gamma(torch.full((512, 512), 2.0))", 0, False),
    "shuffle": ("nd.random.shuffle(col)", "col[torch.randperm(1024)]", 0, False),
    "eye": ("nd.eye(1024)", "torch.eye(1024)", 0, False),
    "linspace": ("nd.linspace(0, 1, 1048576)", "torch.linspace(0, 1, 1048576)", 0, False),
    "zeros": ("nd.zeros((1024, 1024))", "torch.zeros(1024, 1024)", 0, False),
    "arange": ("nd.arange(0, 1048576)", "torch.arange(0, 1048576, dtype=torch.float32)", 0, False),
    "cholesky": ("nd.linalg.potrf(spd)", "torch.linalg.cholesky(spd)", 256 ** 3 // 3, True),
    "triangular solve": ("nd.linalg.trsm(spd, m256)", "torch.linalg.solve_triangular(spd, m256, upper=False)", 256 ** 3 // 2, True),
    "determinant": ("nd.linalg.det(s)", "torch.linalg.det(s)", 0, True),
    "eigh": ("mx.np.linalg.eigh(spd.as_np_ndarray())[1]", "torch.linalg.eigh(spd)[1]", 0, False),
    "svd": ("mx.np.linalg.svd(spd.as_np_ndarray())[1]", "torch.linalg.svd(spd, full_matrices=False)[1]", 0, False),
    "inverse": ("nd.linalg.inverse(spd)", "torch.linalg.inv(spd)", 2 * 256 ** 3, True),
    "solve": ("mx.np.linalg.solve(spd.as_np_ndarray(), m256.as_np_ndarray())", "torch.linalg.solve(spd, m256)", 4 * 256 ** 3 // 3, True),
}


def make_values():
    """Inputs by name, as NumPy has them."""
    rng = np.random.default_rng(7)
    values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    for name in POSITIVE:
        values[name] = np.abs(values[name]) + np.float32(0.1)
    values["u"] = rng.uniform(-0.95, 0.95, (1024, 1024)).astype(np.float32)
    values["spd"] = (values["spd"] @ values["spd"].T + 256 * np.eye(256)).astype(np.float32)
    values["m256"] = values["m"][:256, :256].copy()
    values["few"] = values["a"][:8].copy()
    values["zero"], values["one"] = np.zeros(32, np.float32), np.ones(32, np.float32)
    for name, of in {"x64": "x", "w64": "w3", "m64": "m", "a64": "a", "v64": "v"}.items():
        values[name] = values[of].astype(np.float64)
    values["h"], values["k"] = values["a"].astype(np.float16), rng.integers(0, 1000, (1024, 1024)).astype(np.int32)
    values["l"] = values["k"].astype(np.int64)
    for name in ("i", "j"):
        values[name] = rng.integers(0, 1024, WHOLE[name])
    values["y"] = rng.integers(1, 96, WHOLE["y"])
    return values


VALUES = make_values()


def names_in(expression):
    return [name for name in dict.fromkeys(re.findall(r"\b[a-z]+[0-9a-z]*\b", expression)) if name in VALUES]


def fastest(function, seconds):
    """The shortest processor time of a call, in microseconds."""
    function()
    best, end = math.inf, time.perf_counter() + seconds
    while True:
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
        if time.perf_counter() > end:
            return best * 1e6


def flat(outputs):
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


class Gluino:
    """Each way to run an expression as a function without arguments."""

    def __init__(self, expression, has_gradient):
        self.names, self.code, self.has_gradient = names_in(expression), compile(expression, expression, "eval"), has_gradient
        self.inputs = {n: nd.array(VALUES[n], dtype="int32" if n in WHOLE else VALUES[n].dtype) for n in self.names}
        for n, array in self.inputs.items():
            if has_gradient and "float" in str(array.dtype):
                array.attach_grad()
        self.scope = {"nd": nd, "mx": mx, **self.inputs}

    def eager(self):
        return flat(eval(self.code, self.scope))

    def waited(self, run):
        def call():
            for array in run():
                array.wait_to_read()
        return call

    def hybridized(self):
        names, code = self.names, self.code

        def function(*arrays):
            return eval(code, {"nd": nd, "mx": mx, **dict(zip(names, arrays))})
        compiled, arrays = mx.hybrid(function), [self.inputs[n] for n in names]
        return lambda: flat(compiled(*arrays))

    def step(self):
        """Forward and backward with a gradient of the output that is there already, as PyTorch's gets one."""
        heads = [nd.ones_like(output) for output in self.eager()]

        def call():
            with autograd.record():
                outputs = self.eager()
            autograd.backward(outputs, heads)
        return call

    def bytes(self):
        return sum(a.size * (2 if str(a.dtype) == "bfloat16" else np.dtype(a.dtype).itemsize) for a in [*self.inputs.values(), *self.eager()])

    def ways(self, quick):
        ways = {"eager": self.waited(self.eager)}
        if not quick:
            ways["hybridized"] = self.waited(self.hybridized())
        if self.has_gradient:
            ways["step"] = self.step()
        return ways


def ways_of_torch(expression, has_gradient):
    inputs = {n: torch.from_numpy(VALUES[n].copy()) for n in names_in(expression)}
    scope, code = {"torch": torch, **inputs}, compile(expression, expression, "eval")

    def eager():
        with torch.no_grad():
            eval(code, scope)
    ways = {"torch_eager": eager}
    if has_gradient:
        leaves = [t.requires_grad_() for t in inputs.values() if t.is_floating_point()]
        head = torch.ones_like(flat(eval(code, scope))[0])

        def step():
            for t in leaves:
                t.grad = None
            flat(eval(code, scope))[0].backward(head)
        ways["torch_step"] = step
    return ways


def in_rounds(ways, seconds, rounds=5):
    """The shortest time of each way, and the medians of PyTorch's times over ours within a round: what slows the machine slows both."""
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(fastest(way, seconds / rounds))
    row = {name: min(each) for name, each in times.items()}
    for name, ratio in {"eager": "ratio", "step": "step_ratio"}.items():
        if f"torch_{name}" in times and name in times:
            row[ratio] = statistics.median(theirs / mine for theirs, mine in zip(times[f"torch_{name}"], times[name]))
    return row


def rates(seconds):
    """Bytes a microsecond of a copy, and multiply-adds a microsecond of a matrix product."""
    a, b, m = VALUES["a"], np.empty_like(VALUES["a"]), nd.array(np.tile(VALUES["m"], (2, 2)))
    copy = fastest(lambda: np.copyto(b, a), seconds)
    return 2 * a.nbytes / copy, 1024 ** 3 / fastest(lambda: nd.dot(m, m).wait_to_read(), seconds)


def run(quick=True, only="", seconds=None):
    """All rows, the furthest from its limit first: {name: {...}}."""
    seconds = seconds or (0.05 if quick else 0.25)
    byte_rate, product_rate = rates(0.3)
    rows = {}
    for name, (expression, other, multiply_adds, has_gradient) in CASES.items():
        if only and not re.search(only, name):
            continue
        try:
            mine = Gluino(expression, has_gradient)
            limit = max(mine.bytes() / byte_rate, multiply_adds / product_rate)
            ways = {**mine.ways(quick), **(ways_of_torch(other, has_gradient) if torch and other else {})}
            row = {"limit": limit, **in_rounds(ways, seconds)}
        except Exception as error:
            rows[name] = {"error": str(error)}
            continue
        row["share"] = limit / row["eager"]
        rows[name] = row
    return dict(sorted(rows.items(), key=lambda item: item[1].get("share", 0)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short measurements, and not hybridized")
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--json", help="writes the rows there instead of printing them")
    o = parser.parse_args()
    rows = run(o.quick, o.only)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(rows, indent=1))
    else:
        print("\n".join(bench_report.operators_section({"operators": rows})))


if __name__ == "__main__":
    main()
