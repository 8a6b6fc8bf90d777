#!/usr/bin/python3
"""Writes tests/golden/vectors.json and vectors.npz: operator calls with results computed by NumPy in float64.

Independent of the library: every case states the mathematics once, in NumPy; gradients are central differences of it.
Run it by hand after adding a case and commit what it writes.
"""
import json
import math
import pathlib

import numpy as np

RANDOM = np.random.default_rng(20240607)
CASES = []


def uniform(*shape, low=-2.0, high=2.0):
    return RANDOM.uniform(low, high, shape).astype(np.float32).astype(np.float64)


def case(op, function, *inputs, attrs=None, grad=True, fixed=()):
    """`fixed`: positions of inputs without a gradient (labels, indices)."""
    name = f"{op}_{sum(c['op'] == op for c, _ in CASES)}"
    results = function(*inputs)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    arrays = {f"in{i}": x for i, x in enumerate(inputs)} | {f"out{i}": y for i, y in enumerate(results)}
    if grad:
        heads = [uniform(*np.shape(y)) for y in results]
        arrays |= {f"head{i}": h for i, h in enumerate(heads)}

        def total(*x):
            y = function(*x)
            return sum((h * v).sum() for h, v in zip(heads, y if isinstance(y, (list, tuple)) else [y]))

        for i, x in enumerate(inputs):
            if i not in fixed:
                arrays[f"grad{i}"] = numeric_gradient(total, list(inputs), i)
    arrays = {f"{name}.{key}": np.asarray(value, np.float32) for key, value in arrays.items()}
    text = {k: str(v) for k, v in (attrs or {}).items()}
    CASES.append(({"case": name, "op": op, "attrs": text, "inputs": len(inputs), "outputs": len(results), "grad": grad, "train_mode": False},
                  arrays))


def numeric_gradient(function, inputs, position, step=1e-5):
    gradient = np.zeros_like(inputs[position])
    for index in np.ndindex(gradient.shape):
        values = []
        for sign in (1, -1):
            moved = inputs[position].copy()
            moved[index] += sign * step
            values.append(function(*inputs[:position], moved, *inputs[position + 1:]))
        gradient[index] = (values[0] - values[1]) / (2 * step)
    return gradient


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def convolve(x, w, b, stride=(1, 1), pad=(0, 0), dilate=(1, 1), groups=1):
    x = np.pad(x, ((0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2))
    n, channels, height, width = x.shape
    filters, depth, kh, kw = w.shape
    oh = (height - dilate[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (width - dilate[1] * (kw - 1) - 1) // stride[1] + 1
    out = np.zeros((n, filters, oh, ow)) + b[None, :, None, None]
    for f in range(filters):
        first = f // (filters // groups) * depth
        for i in range(kh):
            for j in range(kw):
                part = x[:, first:first + depth, i * dilate[0]:i * dilate[0] + oh * stride[0]:stride[0],
                         j * dilate[1]:j * dilate[1] + ow * stride[1]:stride[1]]
                out[:, f] += np.einsum("nchw,c->nhw", part[:, :, :oh, :ow], w[f, :, i, j])
    return out


def pool(x, kernel, stride, reduce):
    n, c, height, width = x.shape
    oh, ow = (height - kernel[0]) // stride[0] + 1, (width - kernel[1]) // stride[1] + 1
    out = np.zeros((n, c, oh, ow))
    for i in range(oh):
        for j in range(ow):
            window = x[:, :, i * stride[0]:i * stride[0] + kernel[0], j * stride[1]:j * stride[1] + kernel[1]]
            out[:, :, i, j] = reduce(window, axis=(2, 3))
    return out


def layer_norm(x, gamma, beta, eps=1e-5):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * gamma + beta


def elementwise():
    erf = np.vectorize(math.erf)
    everywhere = {
        "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "softsign": lambda x: x / (1 + abs(x)),
        "tanh": np.tanh, "exp": np.exp, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "arctan": np.arctan, "sinh": np.sinh,
        "cosh": np.cosh, "arcsinh": np.arcsinh, "square": np.square, "negative": np.negative, "abs": np.abs, "erf": erf,
        "cbrt": np.cbrt, "degrees": np.degrees, "radians": np.radians,
    }
    for op, function in everywhere.items():
        case(op, function, uniform(3, 7))
    positive = {"log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
                "reciprocal": lambda x: 1 / x, "rcbrt": lambda x: 1 / np.cbrt(x), "gammaln": np.vectorize(math.lgamma)}
    for op, function in positive.items():
        case(op, function, uniform(3, 7, low=0.3, high=4))
    inside = {"arcsin": np.arcsin, "arccos": np.arccos, "arctanh": np.arctanh}
    for op, function in inside.items():
        case(op, function, uniform(3, 7, low=-0.9, high=0.9))
    case("arccosh", np.arccosh, uniform(3, 7, low=1.2, high=4))
    for op, function in {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "sign": np.sign}.items():
        case(op, function, uniform(3, 7), grad=False)
    pairs = {"broadcast_add": np.add, "broadcast_sub": np.subtract, "broadcast_mul": np.multiply, "broadcast_div": np.divide,
             "broadcast_maximum": np.maximum, "broadcast_minimum": np.minimum, "broadcast_hypot": np.hypot}
    for op, function in pairs.items():
        case(op, function, uniform(2, 3, 4), uniform(3, 1, low=0.5, high=2))
        case(op, function, uniform(1, 4, low=0.5, high=2), uniform(5, 1, low=-2, high=-0.5))
    case("broadcast_power", np.power, uniform(2, 3, low=0.5, high=2), uniform(3))
    for op, function in {"broadcast_equal": np.equal, "broadcast_greater": np.greater, "broadcast_lesser_equal": np.less_equal}.items():
        case(op, lambda a, b, f=function: f(a, b).astype(float), np.round(uniform(4, 3)), np.round(uniform(3)), grad=False)
    case("_plus_scalar", lambda x: x + 1.5, uniform(4), attrs={"scalar": 1.5})
    case("_rdiv_scalar", lambda x: 1.5 / x, uniform(4, low=0.5, high=2), attrs={"scalar": 1.5})
    case("clip", lambda x: np.clip(x, -1, 1), uniform(3, 5), attrs={"a_min": -1, "a_max": 1})
    case("where", np.where, np.array([[1.0, 0, 1], [0, 0, 1]]), uniform(2, 3), uniform(2, 3), fixed=(0,))
    case("smooth_l1", lambda x: np.where(abs(x) < 1, x * x / 2, abs(x) - 0.5), uniform(3, 5), attrs={"scalar": 1})


def shapes():
    case("transpose", lambda x: x.transpose(2, 0, 1), uniform(2, 3, 4), attrs={"axes": (2, 0, 1)})
    case("Reshape", lambda x: x.reshape(4, 6), uniform(2, 3, 4), attrs={"shape": (4, -1)})
    case("expand_dims", lambda x: x[:, None], uniform(2, 3), attrs={"axis": 1})
    case("Concat", lambda a, b: np.concatenate([a, b], 1), uniform(2, 3), uniform(2, 4), attrs={"num_args": 2, "dim": 1})
    case("stack", lambda a, b: np.stack([a, b], 1), uniform(2, 3), uniform(2, 3), attrs={"num_args": 2, "axis": 1})
    case("SliceChannel", lambda x: np.split(x, 3, 1), uniform(2, 6), attrs={"num_outputs": 3, "axis": 1})
    case("slice_axis", lambda x: x[:, 1:3], uniform(2, 5), attrs={"axis": 1, "begin": 1, "end": 3})
    case("slice", lambda x: x[4:0:-2, 1:3], uniform(5, 4), attrs={"begin": (4, 1), "end": (0, 3), "step": (-2, 1)})
    case("tile", lambda x: np.tile(x, (2, 3)), uniform(2, 2), attrs={"reps": (2, 3)})
    case("repeat", lambda x: np.repeat(x, 2, 1), uniform(2, 3), attrs={"repeats": 2, "axis": 1})
    case("reverse", lambda x: x[:, ::-1], uniform(2, 3), attrs={"axis": 1})
    case("broadcast_to", lambda x: np.broadcast_to(x, (4, 3)).copy(), uniform(1, 3), attrs={"shape": (4, 3)})
    case("Pad", lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), "reflect"), uniform(1, 2, 4, 3),
         attrs={"mode": "reflect", "pad_width": (0, 0, 0, 0, 1, 2, 0, 1)})
    case("take", lambda x, i: x[i.astype(int)], uniform(5, 3), np.array([[0.0, 4], [2, 2]]), fixed=(1,))
    case("pick", lambda x, i: x[np.arange(3), i.astype(int)], uniform(3, 4), np.array([1.0, 3, 0]), fixed=(1,))
    case("one_hot", lambda i: np.eye(4)[i.astype(int)], np.array([2.0, 0, 3]), attrs={"depth": 4}, grad=False)
    case("gather_nd", lambda x, i: x[tuple(i.astype(int))], uniform(3, 4), np.array([[0.0, 2, 2], [1, 3, 0]]), fixed=(1,))
    case("SequenceMask", lambda x, n: x * (np.arange(4)[:, None, None] < n[None, :, None]), uniform(4, 2, 3), np.array([2.0, 4]),
         attrs={"use_sequence_length": True}, fixed=(1,))


def reductions():
    reduce = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min}
    for op, function in reduce.items():
        case(op, lambda x, f=function: f(x, axis=1), uniform(2, 4, 3), attrs={"axis": 1})
        case(op, lambda x, f=function: f(x, axis=(0, 2), keepdims=True), uniform(2, 4, 3), attrs={"axis": (0, 2), "keepdims": True})
    case("norm", lambda x: np.sqrt((x * x).sum(1)), uniform(3, 4), attrs={"ord": 2, "axis": 1})
    case("argmax", lambda x: x.argmax(1).astype(float), uniform(3, 5), attrs={"axis": 1}, grad=False)
    case("cumsum", lambda x: np.cumsum(x, 1), uniform(3, 4), attrs={"axis": 1})
    case("sort", lambda x: np.sort(x, 1)[:, ::-1].copy(), uniform(3, 5), attrs={"axis": 1, "is_ascend": False}, grad=False)
    case("topk", lambda x: (-np.sort(-x, 1))[:, :2], uniform(3, 5), attrs={"axis": 1, "k": 2, "ret_typ": "value"}, grad=False)
    case("softmax", softmax, uniform(3, 5))
    case("softmax", lambda x: softmax(x / 2, 1), uniform(2, 4, 3), attrs={"axis": 1, "temperature": 2})
    case("log_softmax", lambda x: np.log(softmax(x)), uniform(3, 5))
    case("softmax_cross_entropy", lambda x, y: np.array([-np.log(softmax(x))[np.arange(3), y.astype(int)].sum()]), uniform(3, 5),
         np.array([0.0, 4, 2]), fixed=(1,))


def layers():
    case("FullyConnected", lambda x, w, b: x.reshape(2, 6) @ w.T + b, uniform(2, 3, 2), uniform(4, 6), uniform(4), attrs={"num_hidden": 4})
    case("FullyConnected", lambda x, w: x @ w.T, uniform(2, 3, 5), uniform(4, 5),
         attrs={"num_hidden": 4, "no_bias": True, "flatten": False})
    case("dot", np.matmul, uniform(3, 4), uniform(4, 5))
    case("batch_dot", lambda a, b: a @ b.transpose(0, 2, 1), uniform(2, 3, 4), uniform(2, 5, 4), attrs={"transpose_b": True})
    case("Convolution", lambda x, w, b: convolve(x, w, b, (2, 1), (1, 1)), uniform(2, 3, 5, 4), uniform(4, 3, 3, 2), uniform(4),
         attrs={"kernel": (3, 2), "stride": (2, 1), "pad": (1, 1), "num_filter": 4})
    case("Convolution", lambda x, w, b: convolve(x, w, b, dilate=(2, 1), groups=2), uniform(1, 4, 6, 5), uniform(4, 2, 2, 3), uniform(4),
         attrs={"kernel": (2, 3), "dilate": (2, 1), "num_filter": 4, "num_group": 2})
    case("Pooling", lambda x: pool(x, (2, 3), (2, 1), np.max), uniform(2, 2, 5, 4),
         attrs={"kernel": (2, 3), "stride": (2, 1), "pool_type": "max"})
    case("Pooling", lambda x: pool(x, (3, 2), (1, 2), np.mean), uniform(2, 2, 5, 4),
         attrs={"kernel": (3, 2), "stride": (1, 2), "pool_type": "avg"})
    case("Pooling", lambda x: x.mean((2, 3), keepdims=True), uniform(2, 3, 4, 5), attrs={"global_pool": True, "pool_type": "avg"})
    case("LayerNorm", layer_norm, uniform(3, 6), uniform(6), uniform(6))
    case("L2Normalization", lambda x: x / np.sqrt((x * x).sum(1, keepdims=True) + 1e-10), uniform(3, 4))
    case("Embedding", lambda i, w: w[i.astype(int)], np.array([[0.0, 3], [2, 2]]), uniform(5, 3), attrs={"input_dim": 5, "output_dim": 3},
         fixed=(0,))
    gelu = np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2)
    case("LeakyReLU", lambda x: np.where(x > 0, x, 0.1 * x), uniform(3, 4), attrs={"act_type": "leaky", "slope": 0.1})
    case("LeakyReLU", lambda x: np.where(x > 0, x, np.expm1(x)), uniform(3, 4), attrs={"act_type": "elu", "slope": 1})
    case("LeakyReLU", gelu, uniform(3, 4), attrs={"act_type": "gelu"})


def main():
    for group in (elementwise, shapes, reductions, layers):
        group()
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    lines = ",\n".join(json.dumps(c) for c, _ in CASES)
    (folder / "vectors.json").write_text(f"[\n{lines}\n]\n")
    np.savez_compressed(folder / "vectors.npz", **{key: value for _, arrays in CASES for key, value in arrays.items()})
    print(f"{len(CASES)} cases")


if __name__ == "__main__":
    main()
