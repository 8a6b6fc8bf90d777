"""Functions of mx.np whose NumPy signature differs from the operator's."""
import numpy as _np

from .. import _core
from ..base import dtype_name
from ..ndarray.ndarray import NDArray
from .fallback import by_numpy
from .multiarray import _op, array

__all__ = ["sum", "mean", "prod", "max", "min", "amax", "amin", "std", "var", "argmax", "argmin", "argsort", "sort", "cumsum", "clip", "reshape",
           "transpose", "swapaxes", "moveaxis", "squeeze", "expand_dims", "broadcast_to", "concatenate", "stack", "vstack", "hstack", "dstack",
           "split", "array_split", "dot", "matmul", "tensordot", "inner", "outer", "vdot", "where", "take", "repeat", "tile", "flip", "all",
           "any", "nonzero", "round", "around", "floor_divide", "true_divide", "mod", "remainder", "fmod", "less", "less_equal", "square",
           "isnan", "isinf", "isfinite", "logical_not", "ravel", "append", "tril", "triu", "average", "shape",
           "ndim", "size", "absolute", "fabs", "arccosh", "diff", "einsum", "may_share_memory", "shares_memory", "atleast_1d"]


def _scalar(value, a, axis, keepdims=False):
    """The engine leaves one axis when all are reduced; NumPy leaves none."""
    axes = a.ndim if axis is None else 1 if isinstance(axis, int) else len(axis)
    return value._call("Reshape", shape=()) if axes == a.ndim and not keepdims else value


_SMALL_INTEGERS = (_np.int8, _np.uint8, _np.int32)  # summed as int64, as in NumPy


def _reduced(op, a, axis, keepdims, dtype=None):
    if dtype is not None:
        a = a.astype(dtype)
    elif a.dtype == _np.bool_ or (op in ("sum", "prod") and a.dtype in _SMALL_INTEGERS):
        a = a.astype("int64")
    return _scalar(_op(op)(a, axis=axis, keepdims=bool(keepdims)), a, axis, keepdims)


def sum(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
    """The sum along axes."""
    return _reduced("sum", a, axis, keepdims, dtype)


def mean(a, axis=None, dtype=None, out=None, keepdims=False):
    """The mean along axes."""
    if dtype is None and a.dtype not in (_np.float32, _np.float64, _np.float16):
        dtype = "float32"
    return _reduced("mean", a, axis, keepdims, dtype)


def prod(a, axis=None, dtype=None, out=None, keepdims=False):
    """The product along axes."""
    return _reduced("prod", a, axis, keepdims, dtype)


def max(a, axis=None, out=None, keepdims=False):
    """The greatest along axes."""
    return _reduced("max", a, axis, keepdims)


def min(a, axis=None, out=None, keepdims=False):
    """The least along axes."""
    return _reduced("min", a, axis, keepdims)


amax, amin = max, min


def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The variance along axes."""
    centred = a - mean(a, axis, keepdims=True)
    squares = mean(centred * centred, axis, keepdims=keepdims)
    if not ddof:
        return squares
    axes = range(a.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    count = 1
    for i in axes:
        count *= a.shape[i]
    return squares * (count / (count - ddof))


def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The standard deviation along axes."""
    return _op("sqrt")(var(a, axis, dtype, out, ddof, keepdims))


def average(a, axis=None, weights=None, returned=False):
    """The weighted mean."""
    if weights is None:
        return mean(a, axis)
    if weights.ndim != a.ndim:
        weights = weights.reshape([-1 if i == axis % a.ndim else 1 for i in range(a.ndim)])
    total = sum(weights * _op("ones_like")(a), axis)
    result = sum(a * weights, axis) / total
    return (result, total) if returned else result


def argmax(a, axis=None, out=None, keepdims=False):
    """The position of the greatest."""
    found = _op("_npi_argmax")(a.reshape(-1) if axis is None else a, axis=0 if axis is None else axis, keepdims=keepdims)
    return _scalar(found, a, axis, keepdims)


def argmin(a, axis=None, out=None, keepdims=False):
    """The position of the least."""
    found = _op("_npi_argmin")(a.reshape(-1) if axis is None else a, axis=0 if axis is None else axis, keepdims=keepdims)
    return _scalar(found, a, axis, keepdims)


def argsort(a, axis=-1, kind=None, order=None):
    """Positions in ascending order."""
    return _op("argsort")(a, axis=axis, dtype="int64")


def sort(a, axis=-1, kind=None, order=None):
    """Values in ascending order."""
    return _op("sort")(a, axis=axis)


def cumsum(a, axis=None, dtype=None, out=None):
    """Sums of all elements up to each."""
    if dtype is None and a.dtype in _SMALL_INTEGERS:
        dtype = "int64"
    return _op("cumsum")(a, axis=axis, dtype=None if dtype is None else dtype_name(dtype))


def clip(a, a_min, a_max, out=None):
    """Values kept within bounds."""
    return _op("clip")(a, a_min=-_np.inf if a_min is None else a_min, a_max=_np.inf if a_max is None else a_max, out=out)


def reshape(a, newshape, order="C"):
    """Another shape."""
    return a.reshape(newshape, order=order)


def transpose(a, axes=None):
    """The axes in another order."""
    return a.transpose(axes)


def swapaxes(a, axis1, axis2):
    """Two axes exchanged."""
    return _op("SwapAxis")(a, dim1=axis1, dim2=axis2)


def moveaxis(a, source, destination):
    """Axes moved to other places."""
    from ..ndarray import moveaxis as move
    return move(a, source, destination)


def squeeze(a, axis=None):
    """Without axes of extent 1."""
    result = _op("squeeze")(a, axis=axis)
    axes = a.ndim if axis is None else 1 if isinstance(axis, int) else len(axis)
    return result._call("Reshape", shape=()) if a.size == 1 and axes == a.ndim else result


def expand_dims(a, axis):
    """With a new axis."""
    return _op("expand_dims")(a, axis=axis)


def broadcast_to(array, shape):
    """Repeated along axes of extent 1 and new ones in front."""
    return array.broadcast_to(shape)


def concatenate(seq, axis=0, out=None):
    """Arrays joined along an axis."""
    if axis is None:
        seq, axis = [a.reshape(-1) for a in seq], 0
    return _op("Concat")(*seq, dim=axis)


def stack(arrays, axis=0, out=None):
    """Arrays joined along a new axis."""
    return _op("stack")(*arrays, axis=axis)


def atleast_1d(*arys):
    """Arrays with at least one axis."""
    made = [a.reshape(1) if a.ndim == 0 else a for a in arys]
    return made[0] if len(made) == 1 else made


def vstack(arrays):
    """Rows on top of each other."""
    return concatenate([a.reshape(1, -1) if a.ndim < 2 else a for a in arrays], 0)


def hstack(arrays):
    """Columns side by side."""
    return concatenate(list(arrays), 0 if arrays[0].ndim == 1 else 1)


def dstack(arrays):
    """Joined along the third axis."""
    return concatenate([a.reshape(1, -1, 1) if a.ndim == 1 else a.reshape(*a.shape, 1) if a.ndim == 2 else a for a in arrays], 2)


def append(arr, values, axis=None):
    """`values` after `arr`."""
    return concatenate([arr, values], axis)


def split(ary, indices_or_sections, axis=0):
    """Equal parts, or parts cut at these places."""
    if isinstance(indices_or_sections, int):
        if ary.shape[axis] % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
        result = _op("_split_v2")(ary, indices=(), axis=axis, sections=indices_or_sections)
    else:
        result = _op("_split_v2")(ary, indices=(0, *indices_or_sections), axis=axis)
    return result if isinstance(result, list) else [result]


def array_split(ary, indices_or_sections, axis=0):
    """Parts that may differ by one element."""
    if not isinstance(indices_or_sections, int):
        return split(ary, indices_or_sections, axis)
    size, more = divmod(ary.shape[axis], indices_or_sections)
    ends = _np.cumsum([size + 1] * more + [size] * (indices_or_sections - more))[:-1]
    return split(ary, [int(e) for e in ends], axis)


# ---- products

def dot(a, b, out=None):
    """The product over the last axis of `a` and the last but one of `b`."""
    if not isinstance(a, (_core.Array, _core.SymbolBase)) or not isinstance(b, (_core.Array, _core.SymbolBase)) or a.ndim == 0 or b.ndim == 0:
        return a * b
    if b.ndim > 2:
        return tensordot(a, b, ([a.ndim - 1], [b.ndim - 2]))
    product = _op("dot")(a, b)
    return product._call("Reshape", shape=()) if a.ndim == b.ndim == 1 else product


def matmul(a, b, out=None):
    """The matrix product, with NumPy's broadcasting of the axes in front."""
    if a.ndim <= 2 and b.ndim <= 2:
        return dot(a, b)
    left, right = (a.reshape(1, -1) if a.ndim == 1 else a), (b.reshape(-1, 1) if b.ndim == 1 else b)
    front = _np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left3 = left.broadcast_to(front + left.shape[-2:]).reshape(-1, *left.shape[-2:])
    right3 = right.broadcast_to(front + right.shape[-2:]).reshape(-1, *right.shape[-2:])
    product = _op("batch_dot")(left3, right3)
    shape = front + (() if a.ndim == 1 else (left.shape[-2],)) + (() if b.ndim == 1 else (right.shape[-1],))
    return product.reshape(shape)


def tensordot(a, b, axes=2):
    """The sum of products over pairs of axes."""
    if isinstance(axes, int):
        axes = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    left, right = ([x] if isinstance(x, int) else list(x) for x in axes)
    left, right = [x % a.ndim for x in left], [x % b.ndim for x in right]
    keep_a, keep_b = [i for i in range(a.ndim) if i not in left], [i for i in range(b.ndim) if i not in right]
    inner_size = int(_np.prod([a.shape[i] for i in left], dtype=int))
    product = _op("dot")(a.transpose(keep_a + left).reshape(-1, inner_size), b.transpose(right + keep_b).reshape(inner_size, -1))
    return product.reshape([a.shape[i] for i in keep_a] + [b.shape[i] for i in keep_b])


def inner(a, b):
    """The product over the last axes."""
    return tensordot(a, b, ([a.ndim - 1], [b.ndim - 1]))


def outer(a, b):
    """All products of two elements."""
    return a.reshape(-1, 1) * b.reshape(1, -1)


def vdot(a, b):
    """The sum of all products."""
    return sum(a.reshape(-1) * b.reshape(-1))


def einsum(subscripts, *operands, out=None, optimize=False):
    """Einstein's summation."""
    return _op("_npi_einsum")(*operands, subscripts=subscripts)


# ---- choosing

def _as_value(x, like):
    return x if isinstance(x, (_core.Array, _core.SymbolBase)) else array(x, dtype=like.dtype)


def where(condition, x=None, y=None):
    """x where the condition holds, else y; without them the positions where it does."""
    if x is None:
        return nonzero(condition)
    like = x if isinstance(x, NDArray) else y if isinstance(y, NDArray) else condition.astype("float32")
    return _op("_npi_where")(condition, _as_value(x, like), _as_value(y, like))


def take(a, indices, axis=None, mode="raise", out=None):
    """Elements or rows by number."""
    if not isinstance(indices, (_core.Array, _core.SymbolBase)):
        indices = array(indices, dtype="int64")
    return _op("take")(a.reshape(-1) if axis is None else a, indices, axis=0 if axis is None else axis, mode=mode)


def repeat(a, repeats, axis=None):
    """Every element several times."""
    return _op("repeat")(a, repeats=repeats, axis=axis)


def tile(A, reps):
    """The whole several times."""
    return _op("tile")(A, reps=(reps,) if isinstance(reps, int) else reps)


def flip(m, axis=None, out=None):
    """In reverse order along axes."""
    return _op("reverse")(m, axis=tuple(range(m.ndim)) if axis is None else axis)


nonzero = by_numpy(_np.nonzero, "nonzero")


def all(a, axis=None, out=None, keepdims=False):
    """Whether no element is 0."""
    return _reduced("min", (a != 0).astype("int32"), axis, keepdims).astype("bool")


def any(a, axis=None, out=None, keepdims=False):
    """Whether an element is not 0."""
    return _reduced("max", (a != 0).astype("int32"), axis, keepdims).astype("bool")


def isnan(x, out=None):
    """Whether it is NaN."""
    return x != x


def isinf(x, out=None):
    """Whether it is infinite."""
    return _op("abs")(x) == float("inf")


def isfinite(x, out=None):
    """Whether it is neither."""
    return _core.binary_functions["logical_and"](x == x, _op("abs")(x) != float("inf"))


def logical_not(x, out=None):
    """Whether it is 0."""
    return x == 0


# ---- elementwise

less, less_equal = _core.binary_functions["lesser"], _core.binary_functions["lesser_equal"]
mod = remainder = _core.binary_functions["modulo"]
true_divide = _core.binary_functions["divide"]


def fmod(x1, x2, out=None):
    """The remainder with the sign of x1."""
    like = x1 if isinstance(x1, (_core.Array, _core.SymbolBase)) else x2
    x1, x2 = _as_value(x1, like), _as_value(x2, like)
    size = mod(_op("abs")(x1), _op("abs")(x2))
    return _op("_npi_where")(x1 < 0, -size, size)


def floor_divide(x1, x2, out=None):
    """The quotient rounded down."""
    return _op("floor")(x1 / x2)


def square(x, out=None):
    """x * x."""
    return x * x


def absolute(x, out=None):
    """Without the sign."""
    return abs(x)


fabs = absolute


def arccosh(x, out=None):
    """The inverse of cosh."""
    return _op("arccosh")(x, out=out)


def round(x, decimals=0, out=None):
    """Rounded to so many decimals, halves to even."""
    scale = 10.0 ** decimals
    return _op("rint")(x) if decimals == 0 else _op("rint")(x * scale) / scale


around = round


def ravel(x, order="C"):
    """All elements along one axis."""
    return x.reshape(-1)


def tril(m, k=0):
    """The lower triangle."""
    return _op("_triangle")(m, lower=True, k=k)


def triu(m, k=0):
    """The upper triangle."""
    return _op("_triangle")(m, lower=False, k=k)


def diff(a, n=1, axis=-1):
    """Differences of neighbours."""
    for _ in range(n):
        a = _op("slice_axis")(a, axis=axis, begin=1, end=None) - _op("slice_axis")(a, axis=axis, begin=0, end=-1)
    return a


def shape(a):
    """The shape."""
    return a.shape


def ndim(a):
    """The number of axes."""
    return a.ndim


def size(a):
    """The number of elements."""
    return a.size


def may_share_memory(a, b, max_work=None):
    """Whether both are the same array."""
    return a._handle == b._handle


shares_memory = may_share_memory
