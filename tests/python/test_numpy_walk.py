"""mx.np against NumPy itself: every function that MXNet's np had, over random shapes, dtypes and arguments."""
import zlib

import numpy as np
import pytest

import gluino as mx
from gluino import autograd

SHAPES = [(), (1,), (5,), (0,), (2, 3), (3, 1), (2, 0, 3), (2, 3, 4)]


def values(rng, shape, dtype="float32", low=-3.0, high=3.0):
    if dtype == "bool":
        return np.asarray(rng.rand(*shape) > 0.5)
    made = rng.uniform(low, high, shape)
    return np.asarray(np.round(made) if np.dtype(dtype).kind in "iu" else made, dtype=dtype)


def wanted_dtype(dtype):
    """NumPy's dtype, with float32 where MXNet computes so: whole numbers do not become float64."""
    return np.dtype("float32") if dtype == np.float64 else np.dtype("int64") if dtype in (np.uint64, np.int64) else dtype


def plain(x):
    if isinstance(x, (list, tuple)):
        return type(x)(plain(item) for item in x)
    return x.asnumpy() if isinstance(x, mx.np.ndarray) else x


def lifted(x):
    if isinstance(x, (list, tuple)):
        return type(x)(lifted(item) for item in x)
    return mx.np.array(x, dtype=x.dtype) if isinstance(x, np.ndarray) else x


def compare(found, expected, rtol=2e-5, atol=2e-5, kinds=True):
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            compare(a, b, rtol, atol, kinds)
        return
    expected = np.asarray(expected)
    assert isinstance(found, mx.np.ndarray) or not isinstance(expected, np.ndarray) or expected.shape == (), f"{type(found)}"
    got = plain(found)
    assert np.shape(got) == expected.shape, (np.shape(got), expected.shape)
    if kinds:
        assert np.asarray(got).dtype == wanted_dtype(expected.dtype), (np.asarray(got).dtype, expected.dtype)
    np.testing.assert_allclose(np.asarray(got, "float64"), expected.astype("float64"), rtol=rtol, atol=atol)


def walk(name, cases, seed=0, **tolerance):
    """Runs (arguments, keywords) through both; a case that NumPy refuses must be refused."""
    function, reference = mx.np, np
    for part in name.split("."):
        function, reference = getattr(function, part), getattr(reference, part)
    for args, kwargs in cases:
        with np.errstate(all="ignore"):
            try:
                expected = reference(*args, **kwargs)
            except Exception as error:  # noqa: BLE001
                with pytest.raises(Exception):
                    plain(function(*lifted(args), **lifted_values(kwargs)))
                assert not isinstance(error, AssertionError)
                continue
        try:
            compare(function(*lifted(args), **lifted_values(kwargs)), expected, **tolerance)
        except Exception as error:
            shapes = [(x.shape, str(x.dtype)) if isinstance(x, np.ndarray) else x for x in args]
            raise AssertionError(f"np.{name}({shapes}, {kwargs}): {type(error).__name__}: {error}") from error


def lifted_values(kwargs):
    return {key: lifted(value) for key, value in kwargs.items()}


def rng_of(name):
    return np.random.RandomState(zlib.crc32(name.encode()) % 2**31)


UNARY = {"abs": (-3, 3), "absolute": (-3, 3), "fabs": (-3, 3), "sqrt": (0, 4), "cbrt": (0, 4), "exp": (-3, 3), "expm1": (-2, 2), "log": (0.1, 4), "log2": (0.1, 4),
         "log10": (0.1, 4), "log1p": (-0.5, 4), "sin": (-3, 3), "cos": (-3, 3), "tan": (-1, 1), "arcsin": (-0.9, 0.9), "arccos": (-0.9, 0.9),
         "arctan": (-3, 3), "sinh": (-2, 2), "cosh": (-2, 2), "tanh": (-2, 2), "arcsinh": (-2, 2), "arccosh": (1.1, 4), "arctanh": (-0.9, 0.9),
         "floor": (-3, 3), "ceil": (-3, 3), "trunc": (-3, 3), "fix": (-3, 3), "rint": (-3, 3), "sign": (-2, 2), "square": (-2, 2), "reciprocal": (0.5, 2),
         "negative": (-2, 2), "degrees": (-3, 3), "radians": (-180, 180), "rad2deg": (-3, 3), "deg2rad": (-180, 180), "isnan": (-1, 1), "isinf": (-1, 1),
         "isfinite": (-1, 1), "isposinf": (-1, 1), "isneginf": (-1, 1), "logical_not": (-1, 1)}
WHOLE_TOO = {"abs", "absolute", "sign", "square", "negative", "logical_not", "sqrt", "exp", "sin", "arctan", "degrees"}


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary(name):
    rng, (low, high) = rng_of(name), UNARY[name]
    walk(name, [((values(rng, shape, "float32", low, high),), {}) for shape in SHAPES])
    walk(name, [((values(rng, (4,), "float64", low, high),), {})], kinds=False)
    if name in WHOLE_TOO:
        walk(name, [((values(rng, shape, "int32", max(low, 0), high),), {}) for shape in SHAPES], rtol=1e-4)
    number = 0.7 if low < 0.7 < high else 2.5
    assert np.isclose(getattr(mx.np, name)(number), getattr(np, name)(number)) and not isinstance(getattr(mx.np, name)(number), mx.np.ndarray)
    x = lifted(values(rng, (2, 3), "float32", low, high))
    expected = getattr(mx.np, name)(x)
    out = mx.np.zeros((2, 3), dtype=expected.dtype)
    assert getattr(mx.np, name)(x, out=out) is out and (out.asnumpy() == expected.asnumpy()).all()
    with pytest.raises(NotImplementedError, match="where"):
        getattr(mx.np, name)(x, where=x > 0)
    with pytest.raises(TypeError):
        getattr(mx.np, name)(x, nonsense=1)


BINARY = ["add", "subtract", "multiply", "divide", "true_divide", "mod", "remainder", "fmod", "power", "maximum", "minimum", "hypot", "arctan2", "copysign",
          "ldexp", "equal", "not_equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_or", "logical_xor", "floor_divide",
          "fmax", "fmin", "heaviside", "logaddexp"]
PAIRS = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 4)), ((0,), (1,)), ((2, 3, 4), (3, 1)), ((2, 0, 3), (1, 3))]


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    rng = rng_of(name)
    low = 0.3 if name in ("power", "divide", "true_divide") else -3
    second = "int32" if name == "ldexp" else "float32"
    cases = [((values(rng, a, "float32", low), values(rng, b, second, low)), {}) for a, b in PAIRS]
    cases += [((a, 1.5 if name != "ldexp" else 2), {}) for (a, _), _ in cases[1:4]] + [((1.5, b), {}) for (_, b), _ in cases[2:5]]
    walk(name, cases, rtol=1e-4)
    if name in ("add", "subtract", "multiply", "maximum", "minimum", "equal", "less", "logical_and", "mod", "power", "floor_divide"):
        walk(name, [((values(rng, a, "int32", 1, 4), values(rng, b, "int32", 1, 4)), {}) for a, b in PAIRS])
    assert np.isclose(getattr(mx.np, name)(2, 3), getattr(np, name)(2, 3)) and not isinstance(getattr(mx.np, name)(2, 3), mx.np.ndarray)
    x, y = lifted(values(rng, (2, 3), "float32", low)), lifted(values(rng, (3,), second, low))
    expected = getattr(mx.np, name)(x, y)
    out = mx.np.zeros((2, 3), dtype=expected.dtype)
    assert getattr(mx.np, name)(x, y, out=out) is out and (out.asnumpy() == expected.asnumpy()).all()
    with pytest.raises(NotImplementedError, match="where"):
        getattr(mx.np, name)(x, y, where=x > 0)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "lcm"])
def test_bits(name):
    rng = rng_of(name)
    walk(name, [((values(rng, a, "int32", 0, 20), values(rng, b, "int32", 0, 20)), {}) for a, b in PAIRS] + [((values(rng, (4,), "int32", 0, 9), 6), {})])
    walk("bitwise_not", [((values(rng, a, "int32", 0, 20),), {}) for a in SHAPES])
    walk("invert", [((values(rng, a, "bool"),), {}) for a in SHAPES])


REDUCTIONS = ["sum", "mean", "prod", "max", "min", "amax", "amin", "std", "var", "all", "any", "argmax", "argmin", "median", "ptp", "nansum", "nanmean",
              "cumsum", "cumprod", "nanmax", "average"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    rng, cases = rng_of(name), []
    tuples, keeps = name not in ("argmax", "argmin", "cumsum", "cumprod"), name not in ("argmax", "argmin", "cumsum", "cumprod", "average")
    for shape in SHAPES:
        if name == "median" and 0 in shape and len(shape) > 1:
            continue  # NumPy's own reshape refuses some axes and takes others
        for dtype in ("float32", "int32", "bool")[:1 if name in ("ptp", "average", "nanmax") else 3]:
            x = values(rng, shape, dtype, -2, 2)
            axes = [None, *range(-len(shape), len(shape))] + ([(0, len(shape) - 1)] if tuples and len(shape) > 1 else []) + [len(shape) + 1]
            for axis in axes:
                cases.append(((x,), {"axis": axis}))
                if keeps:
                    cases.append(((x,), {"axis": axis, "keepdims": True}))
    if name in ("sum", "mean", "prod", "max", "min", "all", "any", "std", "var", "median"):
        cases += [((values(rng, (2, 3)),), {"axis": ()})]
    if name in ("sum", "prod", "mean", "std", "var", "cumsum"):
        cases += [((values(rng, (2, 3), "int32"),), {"dtype": "float32"})]
    if name in ("mean", "std", "var"):
        cases += [((values(rng, (3, 4), dtype, -20, 20),), {"dtype": "int32", **more}) for dtype in ("float32", "int32")
                  for more in ([{}, {"axis": 0}, {"axis": 1, "keepdims": True}] if name != "std" else [{}])]
    walk(name, cases, rtol=1e-4)
    if name not in ("average", "median", "ptp", "nanmean", "nanmax", "nansum"):
        x = lifted(values(rng, (2, 3)))
        expected = getattr(mx.np, name)(x, axis=1)
        out = mx.np.zeros(expected.shape, dtype=expected.dtype)
        assert getattr(mx.np, name)(x, axis=1, out=out) is out and (out.asnumpy() == expected.asnumpy()).all()
    if name in ("sum", "prod", "max", "min"):
        walk(name, [((values(rng, (2, 3)),), {"initial": 0.5}), ((values(rng, (2, 3)),), {"initial": 0.5, "axis": 0})])
        with pytest.raises(NotImplementedError, match="where"):
            getattr(mx.np, name)(mx.np.ones((2,)), where=mx.np.ones((2,)) > 0)


def arranged(rng):
    x, y, z = values(rng, (2, 3, 4)), values(rng, (2, 3)), values(rng, (6,))
    empty, scalar = values(rng, (0, 3)), values(rng, ())
    return {
        "reshape": [((x, (4, 6)), {}), ((x, -1), {}), ((scalar, (1, 1)), {}), ((empty, (3, 0)), {}), ((z, ()), {}), ((values(rng, (1,)), ()), {}), ((x, (5, 5)), {})],
        "transpose": [((x,), {}), ((x, (1, 0, 2)), {}), ((scalar,), {}), ((x, (-1, 0, 1)), {}), ((x, (0, 0, 1)), {})],
        "swapaxes": [((x, 0, 2), {}), ((x, -1, 1), {}), ((x, 0, 3), {})],
        "moveaxis": [((x, 0, -1), {}), ((x, [0, 1], [2, 0]), {}), ((x, [0, 0], [1, 2]), {})],
        "rollaxis": [((x, 2), {}), ((x, 1, 3), {})],
        "squeeze": [((values(rng, s),), {}) for s in [(1, 3, 1), (1, 1), (), (2, 3)]] + [((values(rng, (1, 3, 1)),), {"axis": a}) for a in (0, 2, (0, 2), 1)],
        "expand_dims": [((x, a), {}) for a in (0, 3, -1, -4)] + [((scalar, 0), {})],
        "broadcast_to": [((y, (4, 2, 3)), {}), ((scalar, (2, 2)), {}), ((scalar, ()), {}), ((empty, (2, 0, 3)), {}), ((y, (3, 3)), {}), ((values(rng, (1,)), 3), {})],
        "concatenate": [(([y, y],), {}), (([x, x, x],), {"axis": -1}), (([y, y],), {"axis": None}), (([empty, y],), {}), (([y, x],), {})],
        "stack": [(([y, y],), {}), (([y, y],), {"axis": -1}), (([scalar, scalar],), {}), (([empty, empty],), {"axis": 1}), (([y, z],), {})],
        "vstack": [(([z, z],), {}), (([y, y],), {}), (([scalar, scalar],), {})], "hstack": [(([z, z],), {}), (([y, y],), {}), (([scalar, scalar],), {})],
        "dstack": [(([z, z],), {}), (([y, y],), {}), (([x, x],), {})], "column_stack": [(([z, z],), {}), (([y, y],), {})],
        "row_stack": [(([z, z],), {}), (([y, y],), {})],
        "split": [((z, 3), {}), ((x, 2), {"axis": 2}), ((z, [1, 4]), {}), ((z, 4), {}), ((z, ()), {})],
        "array_split": [((z, 4), {}), ((x, 3), {"axis": -1})],
        "hsplit": [((y, 3), {}), ((z, 2), {})], "vsplit": [((y, 2), {})], "dsplit": [((x, 2), {})],
        "tile": [((y, 2), {}), ((y, (2, 1, 2)), {}), ((scalar, 3), {}), ((y, ()), {}), ((z, 0), {})],
        "repeat": [((y, 2), {}), ((y, 2), {"axis": 1}), ((scalar, 3), {})],
        "flip": [((x,), {}), ((x, 1), {}), ((x, (0, 2)), {}), ((scalar,), {})], "flipud": [((y,), {})], "fliplr": [((y,), {})],
        "roll": [((x, 3), {}), ((x, 1), {"axis": 1}), ((x, (1, 2)), {"axis": (0, 2)}), ((empty, 2), {})],
        "rot90": [((y,), {"k": k}) for k in range(-1, 5)] + [((x,), {"axes": (0, 2)})],
        "ravel": [((x,), {}), ((scalar,), {})], "atleast_1d": [((scalar,), {}), ((y,), {})], "atleast_2d": [((scalar,), {}), ((z,), {})],
        "atleast_3d": [((scalar,), {}), ((z,), {}), ((y,), {})],
        "tril": [((x,), {"k": k}) for k in (-1, 0, 2)] + [((z,), {}), ((empty,), {})], "triu": [((x,), {"k": 1}), ((z,), {})],
        "diag": [((z,), {"k": k}) for k in (-1, 0, 2)] + [((y,), {"k": k}) for k in (-1, 0, 1, 5)], "diagflat": [((y,), {}), ((z,), {"k": -1})],
        "diagonal": [((x,), {}), ((x,), {"offset": 1, "axis1": 1, "axis2": 2})], "trace": [((y,), {}), ((x,), {"offset": 1, "axis1": 2, "axis2": 0})],
        "take": [((z, np.array([0, 5, -1])), {}), ((x, np.array([[1, 0]])), {"axis": 1}), ((z, np.array([7])), {"mode": "clip"}),
                 ((z, np.array([7])), {"mode": "wrap"}), ((z, np.array([9])), {})],
        "where": [((x > 0, x, 0.5), {}), ((y > 0, y, z[:3]), {}), ((y > 0,), {}), ((values(rng, (3,)) > 0, y, y), {})],
        "delete": [((z, 2), {}), ((y, [0, 2]), {"axis": 1}), ((z, slice(1, 4)), {}), ((z, 9), {})],
        "insert": [((z, 2, 9.0), {}), ((y, 1, 7.0), {"axis": 1}), ((z, [1, 3], [5.0, 6.0]), {}), ((z, slice(1, 3), 8.0), {})],
        "append": [((y, y), {}), ((y, y), {"axis": 1})], "resize": [((y, (3, 4)), {}), ((z, 4), {})],
        "pad": [((y, 1), {}), ((y, ((1, 2), (0, 1))), {"mode": "edge"}), ((z, 2), {"mode": "reflect"}), ((z, 2), {"mode": "symmetric"}),
                ((y, 1), {"constant_values": 3.0}), ((y, 1), {"mode": "maximum"})],
        "nonzero": [((values(rng, (3, 4), "int32", -1, 1),), {}), ((empty,), {})], "unravel_index": [((np.array([3, 5]), (2, 3)), {})],
        "meshgrid": [((z, z[:3]), {}), ((z, z[:2]), {"indexing": "ij"})], "broadcast_arrays": [((y, z[:3]), {})],
        "sort": [((x,), {"axis": a}) for a in (-1, 0, None)] + [((values(rng, (5,), "int32"),), {})],
        "argsort": [((x,), {"axis": a}) for a in (-1, 0, None)], "clip": [((x, -1, 1), {}), ((x, None, 0.5), {}), ((values(rng, (4,), "int32"), 0, 1), {})],
        "diff": [((z,), {}), ((x,), {"axis": 0}), ((z,), {"n": 2}), ((z,), {"prepend": 1.0, "append": np.array([2.0, 3.0], "float32")})],
        "ediff1d": [((y,), {}), ((z,), {"to_end": 3.0, "to_begin": np.array([1.0, 2.0], "float32")})],
        "around": [((x,), {}), ((x,), {"decimals": 1}), ((np.array([0.5, 1.5, 2.5, -0.5], "float32"),), {})], "round": [((x,), {"decimals": 2})],
        "nan_to_num": [((np.array([np.nan, np.inf, -np.inf, 1], "float32"),), {}), ((np.array([np.nan, np.inf], "float32"),), {"nan": 2.0, "posinf": 5.0}),
                       ((values(rng, (3,), "int32"),), {})],
        "interp": [((z, np.array([-1.0, 0, 1], "float32"), np.array([2.0, 3, 5], "float32")), {})],
        "polyval": [((z[:3], y), {})], "cross": [((values(rng, (2, 3)), values(rng, (3,))), {})], "kron": [((y, y), {})],
        "shape": [((x,), {})], "ndim": [((x,), {})], "size": [((x,), {})], "copy": [((x,), {})],
    }


@pytest.mark.parametrize("name", sorted(arranged(np.random.RandomState(0))))
def test_arranging(name):
    walk(name, arranged(rng_of(name))[name], rtol=1e-4)


def test_products():
    rng = rng_of("products")
    a, b, c, v, s = values(rng, (2, 3)), values(rng, (3, 4)), values(rng, (5, 3, 4)), values(rng, (3,)), values(rng, ())
    walk("dot", [((a, b), {}), ((v, v), {}), ((a, v), {}), ((a, c), {}), ((s, a), {}), ((a, 2.0), {}), ((values(rng, (0, 3)), b), {}), ((a, a), {})], rtol=1e-4)
    walk("matmul", [((a, b), {}), ((v, b), {}), ((a, v), {}), ((v, v), {}), ((a, c), {}), ((values(rng, (5, 1, 2, 3)), c), {}), ((a, s), {})], rtol=1e-4)
    walk("inner", [((v, v), {}), ((a, a), {}), ((s, a), {})], rtol=1e-4)
    walk("outer", [((a, v), {}), ((v, v), {})], rtol=1e-4)
    walk("vdot", [((v, v), {}), ((a, a), {})], rtol=1e-4)
    walk("tensordot", [((a, b), {"axes": 1}), ((c, c), {"axes": ([0, 1], [0, 1])}), ((a, v), {"axes": 0}), ((a, a), {"axes": 2})], rtol=1e-4)
    walk("einsum", [(("ij,jk->ik", a, b), {}), (("ii", values(rng, (3, 3))), {}), (("...ij,jk", c.transpose(0, 2, 1), b), {})], rtol=1e-4)


def test_making():
    walk("zeros", [(((2, 3),), {}), ((3,), {"dtype": "int32"})])
    walk("ones", [(((2, 0),), {}), (((),), {})])
    walk("full", [(((2, 3), 1.5), {}), ((3, 2.5), {"dtype": "float32"})])
    walk("full_like", [((np.ones((2, 3), "float32"), 7.5), {}), ((np.ones(3, "int32"), 2), {}), ((np.ones(3, "float32"), 2), {"dtype": "int32"})])
    walk("zeros_like", [((np.ones((2, 3), "int32"),), {}), ((np.ones(3, "float32"),), {"dtype": "int8"})])
    walk("ones_like", [((np.zeros((2, 3), "int32"),), {})])
    walk("eye", [((3,), {}), ((2, 4), {"k": 1}), ((3,), {"k": -2, "dtype": "int32"}), ((0,), {})])
    walk("identity", [((3,), {})])
    walk("arange", [((5,), {"dtype": "float32"}), ((1, 7, 2), {"dtype": "int32"}), ((0.0, 1.0, 0.25), {})])
    walk("linspace", [((0, 1, 5), {}), ((0, 1, 4), {"endpoint": False}), ((2, 3, 1), {}), ((0, 1, 0), {})])
    walk("logspace", [((0, 2, 3), {}), ((0, 2, 4), {"base": 2.0, "endpoint": False})], rtol=1e-4)
    walk("indices", [(((2, 3),), {"dtype": "int32"})])
    walk("tri", [((3,), {}), ((2, 4, 1), {})])
    for window in ("hanning", "hamming", "blackman"):
        walk(window, [((5,), {}), ((1,), {}), ((0,), {})])
    assert mx.np.array([1.0]).dtype == np.float32 and mx.np.array(np.ones(2)).dtype == np.float32 and mx.np.array([True]).dtype == np.bool_


def test_counting():
    rng = rng_of("counting")
    x = values(rng, (20,), "int32", 0, 6)
    all_of_it = {"return_index": True, "return_inverse": True, "return_counts": True}
    far_apart, missing = np.array([7, -2**31, 7, 2**31 - 1, 0, -2**31], "int32"), np.array([2, np.nan, -0.0, 2, np.nan, 0, np.inf], "float32")
    for given in (x, far_apart, missing, values(rng, (6, 2), "int32", 0, 3), x > 2, x.astype("int8") - 3, x[:0]):
        walk("unique", [((given,), {}), ((given,), all_of_it)])
    walk("unique", [((values(rng, (9, 2), "int32", 0, 2),), {"axis": 0, **all_of_it}), ((values(rng, (2, 9), "int32", 0, 2),), {"axis": 1})])
    walk("bincount", [((x,), {}), ((x,), {"minlength": 9}), ((x,), {"weights": values(rng, (20,))})], rtol=1e-4)
    walk("histogram", [((values(rng, (30,)),), {"bins": 5}), ((values(rng, (30,)),), {"bins": 4, "range": (-1, 1)})], rtol=1e-4)
    y = values(rng, (4, 5))
    for name, scale in (("quantile", 1), ("percentile", 100)):
        cases = [((y, 0.3 * scale), {}), ((y, [0.1 * scale, 0.5 * scale]), {"axis": 1}), ((y, 0.5 * scale), {"axis": 0, "keepdims": True}),
                 ((values(rng, (5,), "int32"), 0.4 * scale), {})]
        walk(name, cases, rtol=1e-4)


def test_linear_algebra():
    rng = rng_of("linalg")
    a, s = values(rng, (4, 4)) + 4 * np.eye(4, dtype="float32"), values(rng, (3, 5))
    m, batch = a @ a.T, values(rng, (2, 3, 3)) + 3 * np.eye(3, dtype="float32")
    tolerance = {"rtol": 2e-3, "atol": 2e-3}
    for name, cases in {"inv": [a, batch], "det": [a, batch], "cholesky": [m], "eigvalsh": [m], "pinv": [s, a], "matrix_rank": [s, m], "cond": [a]}.items():
        walk(f"linalg.{name}", [((x,), {}) for x in cases], **tolerance, kinds=name != "matrix_rank")
    walk("linalg.slogdet", [((a,), {}), ((batch,), {})], **tolerance)
    walk("linalg.solve", [((a, values(rng, (4,))), {}), ((a, values(rng, (4, 2))), {})], **tolerance)
    walk("linalg.matrix_power", [((a, n), {}) for n in (0, 1, 3, -2)], rtol=1e-2, atol=1e-2)
    walk("linalg.multi_dot", [(([a, a, a],), {})], **tolerance)
    walk("linalg.tensorinv", [((values(rng, (4, 2, 2)),), {"ind": 1})], **tolerance)
    walk("linalg.tensorsolve", [((values(rng, (2, 3, 6)), values(rng, (2, 3))), {})], rtol=2e-2, atol=2e-2)
    for ord in (None, 1, 2, 3, np.inf, -np.inf, 0, -1):
        walk("linalg.norm", [((s[0],), {"ord": ord}), ((s,), {"ord": ord, "axis": 1}), ((s,), {"ord": ord, "axis": 0, "keepdims": True})], rtol=1e-3)
    for ord in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        walk("linalg.norm", [((s,), {"ord": ord}), ((batch,), {"ord": ord, "axis": (1, 2), "keepdims": True})], **tolerance)
    u, l, v = mx.np.linalg.svd(lifted(s))
    np.testing.assert_allclose((u.asnumpy() * l.asnumpy()) @ v.asnumpy(), s, rtol=1e-3, atol=1e-3)
    q, r = mx.np.linalg.qr(lifted(a))
    np.testing.assert_allclose(q.asnumpy() @ r.asnumpy(), a, rtol=1e-3, atol=1e-3)
    w, vectors = mx.np.linalg.eigh(lifted(m))
    np.testing.assert_allclose(m @ vectors.asnumpy(), vectors.asnumpy() * w.asnumpy(), rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(np.sort(mx.np.linalg.eigvals(lifted(m)).asnumpy()), np.linalg.eigvalsh(m), rtol=1e-3, atol=1e-2)


DIFFERENTIABLE = {
    "sum": lambda f, x: f.sum(x, axis=1), "mean": lambda f, x: f.mean(x), "var": lambda f, x: f.var(x, axis=0, ddof=1), "std": lambda f, x: f.std(x),
    "prod": lambda f, x: f.prod(x, axis=1), "cumsum": lambda f, x: f.cumsum(x, axis=1), "max": lambda f, x: f.max(x, axis=0),
    "fmod": lambda f, x: f.fmod(x, 0.7), "mod": lambda f, x: f.mod(x, 0.7), "clip": lambda f, x: f.clip(x, -1, 1), "where": lambda f, x: f.where(x > 0, x, 2 * x),
    "matmul": lambda f, x: f.matmul(x, x.T), "einsum": lambda f, x: f.einsum("ij,kj->ik", x, x), "diff": lambda f, x: f.diff(x), "roll": lambda f, x: f.roll(x, 1),
    "pad": lambda f, x: f.pad(x, 1), "copysign": lambda f, x: f.copysign(x, -x), "nan_to_num": lambda f, x: f.nan_to_num(x), "tril": lambda f, x: f.tril(x),
    "norm": lambda f, x: f.linalg.norm(x), "nuclear": lambda f, x: f.linalg.norm(x, "nuc"), "pinv": lambda f, x: f.linalg.pinv(x),
    "logaddexp": lambda f, x: f.logaddexp(x, 1.0), "quantile": lambda f, x: f.quantile(x, 0.3), "rint": lambda f, x: f.rint(x) + x, "sort": lambda f, x: f.sort(x),
    "hypot": lambda f, x: f.hypot(x, 2.0), "average": lambda f, x: f.average(x, axis=0, weights=f.abs(x)[:, 0]), "polyval": lambda f, x: f.polyval(x[0], x),
    "kron": lambda f, x: f.kron(x, x), "svd": lambda f, x: f.linalg.svd(x)[1] if f is mx.np else f.linalg.svd(x, full_matrices=False)[1],
}


@pytest.mark.parametrize("name", sorted(DIFFERENTIABLE))
def test_gradients_and_traces(name):
    """Gradients against central differences of NumPy's function in float64; the traced function gives the same."""
    rng, function = rng_of(name), DIFFERENTIABLE[name]
    start = values(rng, (3, 4), "float64", 0.2, 2.0) * np.where(rng.rand(3, 4) > 0.5, 1, -1)
    heads = rng.normal(size=np.shape(function(np, start)))
    expected = np.zeros_like(start)
    for place in np.ndindex(*start.shape):
        step = np.zeros_like(start)
        step[place] = 1e-5
        expected[place] = ((function(np, start + step) - function(np, start - step)) * heads).sum() / 2e-5
    x = mx.np.array(start, dtype="float64")
    x.attach_grad()
    with autograd.record():
        y = function(mx.np, x)
    y.backward(mx.np.array(heads, dtype="float64"))
    np.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-4, atol=1e-5)
    traced = mx.hybrid(lambda given: function(mx.np, given))
    for _ in range(2):
        np.testing.assert_allclose(traced(x).asnumpy(), y.asnumpy(), rtol=1e-6, atol=1e-7)


def test_what_is_left():
    rng = rng_of("left")
    square = values(rng, (4, 4))
    found, vectors = mx.np.linalg.eig(mx.np.array(square @ square.T + np.eye(4)))
    reference = np.linalg.eigvalsh(square @ square.T + np.eye(4))
    np.testing.assert_allclose(np.sort(plain(found)), reference, rtol=1e-4)
    np.testing.assert_allclose((square @ square.T + np.eye(4)) @ plain(vectors), plain(vectors) * plain(found), rtol=1e-3, atol=1e-3)
    walk("round_", [((values(rng, shape), decimals), {}) for shape in SHAPES for decimals in (0, 1)])
    walk("diag_indices_from", [((values(rng, (n, n)),), {}) for n in (1, 3)])
    for shape in SHAPES:
        like = mx.np.empty_like(mx.np.array(values(rng, shape)))
        assert like.shape == shape and like.dtype == np.float32
    walk("broadcast_to", [((values(rng, a), b), {}) for a, b in (((), (2, 0)), ((1,), (0,)), ((3, 1), (3, 0)), ((3,), (2, 0)), ((0,), (2, 0)), ((), ()), ((2, 1), (4, 2, 3)))])
