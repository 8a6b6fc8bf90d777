"""Functions of mx.np whose NumPy signature differs from the operator's."""
import builtins

import numpy as _np

from .. import _core
from ..ndarray.ndarray import NDArray
from ..util import check_ufunc_options
from .elementwise import refuse, rint, written
from .fallback import by_numpy
from .multiarray import _op, array, asarray, full, zeros

__all__ = ["sum", "mean", "prod", "max", "min", "amax", "amin", "std", "var", "argmax", "argmin", "argsort", "sort", "cumsum", "clip", "reshape",
           "transpose", "swapaxes", "moveaxis", "squeeze", "expand_dims", "broadcast_to", "concatenate", "stack", "vstack", "hstack", "dstack",
           "split", "array_split", "where", "take", "repeat", "tile", "flip", "all", "any", "nonzero", "round", "around", "ravel", "append",
           "tril", "triu", "average", "shape", "ndim", "size", "diff", "may_share_memory", "shares_memory", "atleast_1d"]


def _axes(a, axis, name):
    """The axes of a reduction, counted from the front; raises where there is no such axis."""
    if a.ndim == 0 and isinstance(axis, (int, _np.integer)) and axis in (0, -1) and name not in ("mean", "var"):  # which NumPy lets pass
        return []
    given = range(a.ndim) if axis is None else [axis] if isinstance(axis, (int, _np.integer)) else list(axis)
    for one in given:
        if not -a.ndim <= one < a.ndim:
            raise ValueError(f"{name}: axis {one} is out of bounds for an array with {a.ndim} axes")
    axes = [one % a.ndim for one in given]
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name}: an axis is named twice in {tuple(axis)}")
    return axes


def _without(a, axes, keepdims):
    return tuple(1 if i in axes else extent for i, extent in enumerate(a.shape) if keepdims or i not in axes)


def _reduced(op, a, axis, keepdims, dtype=None, name=None, empty=None):
    """A reduction by an operator; without `empty`, a value over no elements, there must be some."""
    if dtype is not None:
        a = a.astype(dtype)
    elif a.dtype == _np.bool_:
        a = a.astype("int64")
    elif op in ("sum", "prod") and a.dtype in (_np.int8, _np.uint8, _np.int16, _np.int32):
        a = a.astype("int64")
    axes = _axes(a, axis, name or op)
    if not axes:
        return a.copy()
    if empty is None and builtins.any(a.shape[i] == 0 for i in axes):
        raise ValueError(f"zero-size array to reduction operation {name or op} which has no identity")
    found = _op(op)(a, axis=tuple(axes), keepdims=bool(keepdims))
    return found._call("Reshape", shape=()) if len(axes) == a.ndim and not keepdims else found


def _with_initial(found, initial, combine):
    return found if initial is None else combine(found, initial)


def sum(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
    """The sum along axes."""
    refuse("sum", where=where)
    return written(_with_initial(_reduced("sum", a, axis, keepdims, dtype, empty=0), initial, _core.binary_functions["add"]), out)


def mean(a, axis=None, dtype=None, out=None, keepdims=False):
    """The mean along axes."""
    if dtype is None and a.dtype not in (_np.float32, _np.float64, _np.float16):
        dtype = "float32"
    if dtype is not None and not _np.issubdtype(_np.dtype(dtype), _np.floating):  # as NumPy has it: a sum of whole numbers, cut off
        total = sum(a, axis, dtype, keepdims=keepdims)
        return written((total / (a.size / builtins.max(total.size, 1))).astype(dtype), out)
    return written(_reduced("mean", a, axis, keepdims, dtype, empty=_np.nan), out)


def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
    """The product along axes."""
    refuse("prod", where=where)
    return written(_with_initial(_reduced("prod", a, axis, keepdims, dtype, empty=1), initial, _core.binary_functions["multiply"]), out)


def _extreme(op, combine, a, axis, out, keepdims, initial):
    truth = a.dtype == _np.bool_
    found = _with_initial(_reduced(op, a, axis, keepdims, name=op, empty=initial), initial, _core.binary_functions[combine])
    return written(found.astype("bool") if truth else found, out)


def max(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    """The greatest along axes."""
    refuse("max", where=where)
    return _extreme("max", "maximum", a, axis, out, keepdims, initial)


def min(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    """The least along axes."""
    refuse("min", where=where)
    return _extreme("min", "minimum", a, axis, out, keepdims, initial)


amax, amin = max, min


def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The variance along axes."""
    if dtype is not None and not _np.issubdtype(_np.dtype(dtype), _np.floating):  # as mean: whole numbers at every step
        centred = a - mean(a, axis, dtype, keepdims=True)
        total = sum(centred * centred, axis, dtype, keepdims=keepdims)
        return written((total / builtins.max(a.size / builtins.max(total.size, 1) - ddof, 0)).astype(dtype), out)
    if dtype is not None or not _np.issubdtype(a.dtype, _np.floating):
        a = a.astype(dtype or "float32")
    axes = _axes(a, axis, "var")
    centred = a - mean(a, axis, keepdims=True)
    squares = mean(centred * centred, axis, keepdims=keepdims)
    count = int(_np.prod([a.shape[i] for i in axes], dtype=int))
    return written(squares * (count / (count - ddof)) if ddof else squares, out)


def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The standard deviation along axes."""
    squared = var(a, axis, dtype, None, ddof, keepdims)
    return written(_op("sqrt")(squared).astype(squared.dtype), out)


def average(a, axis=None, weights=None, returned=False, out=None):
    """The weighted mean."""
    if weights is None:
        result = mean(a, axis)
        if result.size == 0:
            raise ZeroDivisionError("average: there are no elements")
        total = full(result.shape, a.size / result.size, dtype=result.dtype)
    else:
        if weights.shape != a.shape:
            if not isinstance(axis, int):
                raise TypeError("average: weights of another shape than the array's need one axis")
            if weights.ndim != 1 or weights.shape[0] != a.shape[axis]:
                raise ValueError(f"average: {weights.shape[0]} weights for an axis of extent {a.shape[axis]}")
            weights = weights.reshape([-1 if i == axis % a.ndim else 1 for i in range(a.ndim)])
        total = sum(weights * _op("ones_like")(a), axis)
        result = sum(a * weights, axis) / total
    result = written(result, out)
    return (result, total) if returned else result


def _place(op, a, axis, out, keepdims):
    """The position of an extreme along one axis, or in all elements."""
    if axis is not None:
        _axes(a, axis, op)
    if a.ndim == 0:
        a, axis, keepdims = a.reshape(1), None, False
    if (a.size if axis is None else a.shape[axis]) == 0:
        raise ValueError(f"attempt to get {op} of an empty sequence")
    whole = a.astype("int32") if a.dtype == _np.bool_ else a
    ndim = a.ndim
    if 0 in a.shape:
        return written(zeros(_without(a, [axis % ndim], keepdims), dtype="int64"), out)
    found = _op("_npi_" + op)(whole.reshape(-1) if axis is None else whole, axis=0 if axis is None else axis, keepdims=keepdims and axis is not None)
    if axis is None:
        found = found._call("Reshape", shape=(1,) * ndim if keepdims else ())
    elif ndim == 1 and not keepdims:
        found = found._call("Reshape", shape=())
    return written(found, out)


def argmax(a, axis=None, out=None, keepdims=False):
    """The position of the greatest."""
    return _place("argmax", a, axis, out, keepdims)


def argmin(a, axis=None, out=None, keepdims=False):
    """The position of the least."""
    return _place("argmin", a, axis, out, keepdims)


def argsort(a, axis=-1, kind=None, order=None):
    """Positions in ascending order."""
    refuse("argsort", order=order)
    if axis is None:
        a, axis = a.reshape(-1), 0
    return _op("argsort")(a, axis=axis, dtype="int64")


def sort(a, axis=-1, kind=None, order=None):
    """Values in ascending order."""
    refuse("sort", order=order)
    if axis is None:
        a, axis = a.reshape(-1), 0
    return _op("sort")(a, axis=axis)


def cumsum(a, axis=None, dtype=None, out=None):
    """Sums of all elements up to each."""
    if axis is not None:
        _axes(a, axis, "cumsum")
    if dtype is not None or a.dtype in (_np.bool_, _np.int8, _np.uint8, _np.int16, _np.int32):
        a = a.astype(dtype or "int64")
    if a.ndim == 0 or axis is None:
        a, axis = a.reshape(-1), 0
    return written(a.copy() if a.size == 0 else _op("cumsum")(a, axis=axis), out)


def clip(a, a_min=None, a_max=None, out=None, **kwargs):
    """Values kept within bounds, which may be arrays; min= and max= are other names of the bounds."""
    low, high = kwargs.pop("min", a_min), kwargs.pop("max", a_max)
    if kwargs:
        raise TypeError(f"clip() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if low is None and high is None:
        raise ValueError("clip: one of the bounds is needed")
    if builtins.any(isinstance(bound, (_core.Array, _core.SymbolBase)) and bound.ndim for bound in (low, high)):
        result = a if low is None else _core.binary_functions["maximum"](a, low)
        return written(result if high is None else _core.binary_functions["minimum"](result, high), out)
    low, high = (bound.item() if isinstance(bound, _core.Array) else bound for bound in (low, high))
    return written(_op("clip")(a, a_min=-_np.inf if low is None else low, a_max=_np.inf if high is None else high), out)


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
    axes = [i for i, extent in enumerate(a.shape) if extent == 1] if axis is None else _axes(a, axis, "squeeze")
    for i in axes:
        if a.shape[i] != 1:
            raise ValueError(f"cannot select an axis to squeeze out which has size not equal to one: axis {i} has {a.shape[i]}")
    return a._call("Reshape", shape=_without(a, axes, False)) if 0 not in a.shape else a.reshape(_without(a, axes, False))


def expand_dims(a, axis):
    """With a new axis."""
    return _op("expand_dims")(a, axis=axis)


def broadcast_to(array, shape):
    """Repeated along axes of extent 1 and new ones in front."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if 0 in shape:  # which stands for an extent to keep in the operator
        return full(_np.broadcast_to(_np.empty(array.shape), shape).shape, 0, dtype=array.dtype, ctx=None)
    return array.broadcast_to(shape)


def concatenate(seq, axis=0, out=None):
    """Arrays joined along an axis."""
    if axis is None:
        seq, axis = [a.reshape(-1) for a in seq], 0
    return written(_op("Concat")(*seq, dim=axis), out)


def stack(arrays, axis=0, out=None):
    """Arrays joined along a new axis."""
    return written(_op("stack")(*arrays, axis=axis), out)


def atleast_1d(*arys):
    """Arrays with at least one axis."""
    made = [a.reshape(1) if a.ndim == 0 else a for a in map(asarray, arys)]
    return made[0] if len(made) == 1 else made


def vstack(arrays, out=None):
    """Rows on top of each other."""
    return concatenate([a.reshape(1, -1) if a.ndim < 2 else a for a in arrays], 0, out)


def hstack(arrays):
    """Columns side by side."""
    arrays = [a.reshape(1) if a.ndim == 0 else a for a in arrays]
    return concatenate(arrays, 0 if arrays[0].ndim == 1 else 1)


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
        places = indices_or_sections.tolist() if isinstance(indices_or_sections, NDArray) else indices_or_sections
        result = _op("_split_v2")(ary, indices=(0, *map(int, places)), axis=axis)
    return result if isinstance(result, list) else [result]


def array_split(ary, indices_or_sections, axis=0):
    """Parts that may differ by one element."""
    if not isinstance(indices_or_sections, int):
        return split(ary, indices_or_sections, axis)
    size, more = divmod(ary.shape[axis], indices_or_sections)
    ends = _np.cumsum([size + 1] * more + [size] * (indices_or_sections - more))[:-1]
    return split(ary, [int(e) for e in ends], axis)


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
    """Elements or rows by number; out of range: an error ("raise"), the nearest ("clip") or the remainder ("wrap")."""
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"take: mode is 'raise', 'clip' or 'wrap', not {mode!r}")
    if not isinstance(indices, (_core.Array, _core.SymbolBase)):
        indices = array(indices, dtype="int64")
    if axis is None:
        a, axis = a.reshape(-1), 0
    return written(_op("take")(a, indices, axis=axis, mode=mode), out)


def repeat(a, repeats, axis=None):
    """Every element several times; with a list or an array of numbers, each so often as its number says."""
    if isinstance(repeats, (int, _np.integer)):
        return _op("repeat")(a, repeats=int(repeats), axis=axis)
    counts = _np.asarray(repeats.asnumpy() if hasattr(repeats, "asnumpy") else repeats)
    if axis is None:
        a, axis = a.reshape(-1), 0
    return take(a, array(_np.repeat(_np.arange(a.shape[axis]), counts), dtype="int64"), axis)


def tile(A, reps):
    """The whole several times."""
    return _op("tile")(A, reps=(reps,) if isinstance(reps, int) else reps)


def flip(m, axis=None, out=None):
    """In reverse order along axes."""
    return _op("reverse")(m, axis=tuple(range(m.ndim)) if axis is None else axis)


nonzero = by_numpy(_np.nonzero, "nonzero")


def all(a, axis=None, out=None, keepdims=False):
    """Whether no element is 0."""
    return written(_reduced("min", (a != 0).astype("int32"), axis, keepdims, name="all", empty=1).astype("bool"), out)


def any(a, axis=None, out=None, keepdims=False):
    """Whether an element is not 0."""
    return written(_reduced("max", (a != 0).astype("int32"), axis, keepdims, name="any", empty=0).astype("bool"), out)


# ---- elementwise


def round(x, decimals=0, out=None, **kwargs):
    """Rounded to so many decimals, halves to even."""
    check_ufunc_options("round", kwargs)
    if not isinstance(x, (_core.Array, _core.SymbolBase)):
        return _np.round(x, decimals)
    if not _np.issubdtype(x.dtype, _np.floating):
        return written(x.copy() if decimals >= 0 else (rint(x.astype("float32") / 10.0 ** -decimals) * 10.0 ** -decimals).astype(x.dtype), out)
    scale = 10.0 ** decimals
    return written(rint(x) if decimals == 0 else rint(x * scale) / scale, out)


around = round


def ravel(x, order="C"):
    """All elements along one axis."""
    return x.reshape(-1)


def _matrix(m):
    """A vector as a matrix of equal rows, as NumPy's triangles take it."""
    return m.broadcast_to((m.shape[0], m.shape[0])) if m.ndim == 1 else m


def tril(m, k=0):
    """The lower triangle."""
    return m.copy() if m.size == 0 else _op("_triangle")(_matrix(m), lower=True, k=k)


def triu(m, k=0):
    """The upper triangle."""
    return m.copy() if m.size == 0 else _op("_triangle")(_matrix(m), lower=False, k=k)


def diff(a, n=1, axis=-1, prepend=None, append=None):
    """Differences of neighbours, with values before and after on demand."""
    if n < 0:
        raise ValueError(f"diff: order must be non-negative, not {n}")
    around = [None if x is None else _beside(x, a, axis) for x in (prepend, append)]
    parts = [x for x in (around[0], a, around[1]) if x is not None]
    a = concatenate(parts, axis) if len(parts) > 1 else a
    for _ in range(n):
        a = _op("_slice_part")(a, axis=axis, begin=1, end=None) - _op("_slice_part")(a, axis=axis, begin=0, end=-1)
    return a


def _beside(x, a, axis):
    """A value that is joined to an array along an axis: a number stands for one element."""
    x = x if isinstance(x, (_core.Array, _core.SymbolBase)) else array(x, dtype=a.dtype)
    return x if x.ndim else x.broadcast_to([1 if i == axis % a.ndim else extent for i, extent in enumerate(a.shape)])


def shape(a):
    """The shape."""
    return a.shape


def ndim(a):
    """The number of axes."""
    return a.ndim


def size(a, axis=None):
    """The number of elements, of all or along one axis."""
    return a.size if axis is None else a.shape[axis]


def may_share_memory(a, b, max_work=None):
    """Whether both are the same array."""
    return a._handle == b._handle


shares_memory = may_share_memory
