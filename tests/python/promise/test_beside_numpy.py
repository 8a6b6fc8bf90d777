"""NumPy's numbers, arrays and functions beside arrays of mx.np, and the sign of 0: in programs as in eager code."""
import operator

import numpy as np
import pytest
from promise import exactly_same, seen

import gluino as mx
from gluino import nd

INPUTS = {"float32": [-0.0, 1.5, -2], "int32": [0, 3, -2], "bool": [False, True, True]}
BESIDE = {"float32": np.float32(2), "float64": np.float64(2.5), "float16": np.float16(1.5), "int64": np.int64(3), "uint8": np.uint8(2), "bool": np.bool_(True),
          "array of float32": np.arange(3, dtype="float32"), "array of float64": np.arange(1, 4, dtype="float64"), "array of int64": np.arange(3),
          "array of bool": np.array([True, False, True]), "without axes": np.array(2.0), "column": np.array([[1], [2]]), "list": [1.0, 2.0, 3.0],
          "wrong shape": np.ones(2, "float32"), "complex": np.complex64(1j)}
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.lt, operator.eq, operator.ne,
             operator.ge, operator.matmul, operator.and_, operator.or_, operator.xor, divmod]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow, operator.iand]
OF_TWO = ["add", "subtract", "multiply", "true_divide", "maximum", "power", "hypot", "logical_and", "less", "equal", "dot", "fmod", "bitwise_and"]


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("dtype", INPUTS)
def test_operators(dtype, beside):
    x, other = mx.np.array(INPUTS[dtype], dtype=dtype), BESIDE[beside]
    for compute in OPERATORS:
        exactly_same(lambda x: compute(x, other), x)
        exactly_same(lambda x: compute(other, x), x)
    for compute in IN_PLACE:
        def changed(x):
            y = same = x.copy()
            y = compute(y, other)
            return y, same, y is same
        exactly_same(changed, x)


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("dtype", INPUTS)
def test_functions_of_two(dtype, beside):
    x, other = mx.np.array(INPUTS[dtype], dtype=dtype), BESIDE[beside]
    for name in OF_TWO:
        for package in (np, mx.np):
            compute = getattr(package, name)
            exactly_same(lambda x: compute(x, other), x)
            exactly_same(lambda x: compute(other, x), x)
    exactly_same(lambda x: np.where(x > 0, x, other), x)


FUNCTIONS = {
    "ufunc": lambda x: np.exp(x) + np.sqrt(np.abs(x)), "reduce": lambda x: np.add.reduce(x), "accumulate": lambda x: np.add.accumulate(x),
    "outer": lambda x: np.multiply.outer(x, x), "concatenate": lambda x: np.concatenate([x, x * 2]), "stack": lambda x: np.stack([x, x + 1]),
    "sum": lambda x: np.sum(x), "mean": lambda x: np.mean(x, axis=0), "max": lambda x: np.max(x), "argmax": lambda x: np.argmax(x),
    "reshape": lambda x: np.reshape(x, (3, 1)), "clip": lambda x: np.clip(x, -1, 1), "where": lambda x: np.where(x > 0, x, -x), "dot": lambda x: np.dot(x, x),
    "linalg": lambda x: np.linalg.norm(x), "shape": lambda x: (np.shape(x), np.ndim(x), np.size(x)), "array": lambda x: np.array(x), "asarray": lambda x: np.asarray(x),
    "out": lambda x: np.add(x, x, out=x.copy()), "zeros_like": lambda x: np.zeros_like(x), "median": lambda x: np.median(x), "invert": lambda x: ~(x > 0),
    "masks": lambda x: ((x > 0) & (x < 2)) | (x == -2), "unique": lambda x: np.unique(x), "array_equal": lambda x: np.array_equal(x, x),
    "into numpy": lambda x: np.add(np.ones(3, "float32"), x, out=np.zeros(3, "float32")),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_numpy(name):
    exactly_same(FUNCTIONS[name], mx.np.array([-0.0, 1.5, -2]), mx.np.array([2, 1, 0], dtype="int32"))


def test_they_stay_in_the_program():
    weights = np.arange(3, dtype="float32")
    f = mx.hybrid(lambda x: np.exp(x * np.float32(2)) + weights * x // np.int64(2))
    for k in range(4):
        f(mx.np.array([k, 1.5, -2]))
    assert f.stats()["traces"] == 1 and f.stats()["segments"] == 0


# ---- 0 has a sign

@pytest.mark.parametrize("zero", [0.0, -0.0, 0, np.float32(-0.0), np.float64(0.0)], ids=repr)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_adding_and_subtracting_zero(dtype, zero, tmp_path):
    def in_place(x):
        y, z = x.copy(), x * 1
        y -= zero
        z += zero
        return y, z
    functions = [lambda x: (x - zero) * 1, lambda x: (x + zero) * 1, lambda x: (x * 1) - zero, lambda x: (zero - x) * 1, in_place]
    for f in functions:
        for make in (nd.array, mx.np.array):
            exactly_same(f, make([-0.0, 0.0, 1.0], dtype=dtype))
    net = mx.gluon.nn.HybridLambda(lambda F, x: (x - zero) * 1)
    net.hybridize()
    x = nd.array([-0.0, 0.0], dtype=dtype)
    expected = seen(net(x))
    net.export(str(tmp_path / "net"))
    loaded = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"])
    for flags in (None, {}):
        if flags is not None:
            loaded.hybridize()
        assert seen(loaded(x)) == expected == seen((x - zero) * 1)


LISTS = {"one": lambda x: [x], "two": lambda x: (x, x * 2), "nested": lambda x: [[x, x], [x, x]], "elements": lambda x: [x[0], x[1], 2.0], "a number first": lambda x: [2.0, x[1]],
         "rows": lambda x: list(x.reshape(1, -1))}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("make", [nd.array, mx.np.array], ids=["nd", "np"])
def test_lists_of_arrays_are_put_together(make, name):
    for package in (np.array, np.asarray, make, mx.np.stack, np.stack):
        exactly_same(lambda x: package(LISTS[name](x)), make([1.5, 2, 3]))
    if make is nd.array and name in ("elements", "a number first"):
        return  # elements of mx.nd have an axis, which numbers have not
    x = make([1.5, 2, 3])
    assert np.array(LISTS[name](x)).astype("float32").reshape(-1).tolist() == make(LISTS[name](x)).asnumpy().reshape(-1).tolist()


def test_arrays_are_no_shapes():
    for make in (mx.np.zeros, mx.np.ones, lambda shape: nd.zeros(shape), mx.np.random.random):
        for shape in (mx.np.array([2, 3]), mx.np.array([2, 3], dtype="int32"), mx.np.array([True, False])):
            exactly_same(lambda x: make(x).shape, shape)
