"""Functions of mx.np that move elements: made of slices, joins and reversals, so that gradients follow."""
import numpy as _np

from .functions import concatenate, flip, moveaxis, split, sum as _sum, swapaxes, tile
from .multiarray import _op, array, asarray

__all__ = ["roll", "rot90", "flipud", "fliplr", "pad", "meshgrid", "broadcast_arrays", "kron", "cross", "diag", "diagonal", "diagflat", "trace", "insert",
           "delete", "resize", "hsplit", "vsplit", "dsplit", "row_stack", "column_stack", "atleast_2d", "atleast_3d", "rollaxis", "permute_dims",
           "take_along_axis", "ediff1d", "unique", "concat"]


def _part(a, axis, begin, end):
    return _op("_slice_part")(a, axis=axis, begin=begin, end=end)


def _listed(x, count):
    return [x] * count if isinstance(x, int) else list(x)


def roll(a, shift, axis=None):
    """Elements moved along, those at the end to the front."""
    shifts = _listed(shift, 1)
    if axis is None:
        return _op("_np_roll")(a, shift=(sum(shifts),))
    axes = _listed(axis, len(shifts))
    return _op("_np_roll")(a, shift=tuple(shifts), axis=tuple(axes))


def rot90(m, k=1, axes=(0, 1)):
    """Turned by 90 degrees, k times."""
    first, second = axes
    if k % 4 == 2:
        return flip(m, (first, second))
    if k % 4 == 0:
        return m.copy()
    return swapaxes(flip(m, second), first, second) if k % 4 == 1 else flip(swapaxes(m, first, second), second)


def flipud(m):
    """Rows in reverse order."""
    return flip(m, 0)


def fliplr(m):
    """Columns in reverse order."""
    return flip(m, 1)


# ---- values around

def _extremes(name):
    def border(x, axis, before, after, **kwargs):
        value = _op(name)(x, axis=axis, keepdims=True)
        return _repeated(value, before, axis), _repeated(value, after, axis)
    return border


def _repeated(x, times, axis):
    return _op("repeat")(x, repeats=times, axis=axis) if times else None


def _constant(x, axis, before, after, constant_values=0):
    values = (constant_values,) * 2 if not isinstance(constant_values, (list, tuple)) else constant_values
    one = _part(x, axis, 0, 1)
    return tuple(_repeated(_op("zeros_like")(one) + value, times, axis) for value, times in zip(values, (before, after)))


def _edge(x, axis, before, after):
    return _repeated(_part(x, axis, 0, 1), before, axis), _repeated(_part(x, axis, -1, None), after, axis)


def _mirror(skip):
    def border(x, axis, before, after):
        most = x.shape[axis] - skip
        if max(before, after) > most:
            raise ValueError(f"pad: {max(before, after)} values cannot be mirrored along axis {axis}, which has {x.shape[axis]}")
        front = flip(_part(x, axis, skip, skip + before), axis) if before else None
        return front, flip(_part(x, axis, x.shape[axis] - skip - after, x.shape[axis] - skip), axis) if after else None
    return border


_BORDERS = {"constant": _constant, "edge": _edge, "reflect": _mirror(1), "symmetric": _mirror(0), "maximum": _extremes("max"),
            "minimum": _extremes("min"), "mean": _extremes("mean")}


def pad(x, pad_width=None, mode="constant", **kwargs):
    """With values around: constant, edge, reflect, symmetric, maximum, minimum or mean."""
    if mode not in _BORDERS:
        raise ValueError(f"pad: mode is one of {', '.join(_BORDERS)}, not {mode!r}")
    widths = _np.broadcast_to(_np.asarray(pad_width), (x.ndim, 2)).tolist()
    constants = kwargs.pop("constant_values", None)
    if kwargs:
        raise TypeError(f"pad: mode {mode!r} does not take {next(iter(kwargs))!r}")
    for axis, (before, after) in enumerate(widths):
        options = {} if constants is None else {"constant_values": _np.broadcast_to(_np.asarray(constants), (x.ndim, 2)).tolist()[axis]}
        parts = _BORDERS[mode](x, axis, before, after, **options)
        if before or after:
            x = concatenate([part for part in (parts[0], x, parts[1]) if part is not None], axis)
    return x


# ---- grids and products

def broadcast_arrays(*args):
    """All in their common shape."""
    shape = _np.broadcast_shapes(*[a.shape for a in args])
    return [a.broadcast_to(shape) for a in args]


def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    """Coordinates of a grid."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    count = len(xi)
    order = [1, 0, *range(2, count)] if indexing == "xy" and count > 1 else list(range(count))
    made = [x.reshape([-1 if order[axis] == i else 1 for axis in range(count)]) for i, x in enumerate(xi)]
    return made if sparse else broadcast_arrays(*made)


def kron(a, b):
    """All products, blocks of b scaled by the elements of a."""
    return _op("_npi_kron")(a, b)


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The vector product of vectors with 2 or 3 elements."""
    axes = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    return _op("_npi_cross")(a, b, axisa=axes[0], axisb=axes[1], axisc=axes[2])


# ---- diagonals

def diag(v, k=0):
    """The diagonal of a matrix, or a matrix with this diagonal."""
    if getattr(v, "ndim", 2) in (1, 2):  # of a graph's symbol it is not known yet
        return _op("_np_diag")(v, k=k)
    raise ValueError("Input must be 1- or 2-d.")


def diagonal(a, offset=0, axis1=0, axis2=1):
    """The diagonal of two axes, as the last one."""
    return _op("_np_diag")(a, k=offset, axis1=axis1, axis2=axis2)


def diagflat(v, k=0):
    """A matrix with all elements on a diagonal."""
    return _op("_np_diag")(v.reshape(-1), k=k)


def trace(a, offset=0, axis1=0, axis2=1, out=None):
    """The sum of a diagonal."""
    return _sum(diagonal(a, offset, axis1, axis2), -1)


# ---- more or fewer elements

def _positions(obj, extent, what):
    """Numbers of elements, from a number, a slice or a list of numbers."""
    if isinstance(obj, slice):
        return list(range(*obj.indices(extent)))
    numbers = _np.atleast_1d(_np.asarray(obj.asnumpy() if hasattr(obj, "asnumpy") else obj)).astype(int).tolist()
    last = extent if what == "insert" else extent - 1
    for number in numbers:
        if not -extent <= number <= last:
            raise IndexError(f"{what}: index {number} is out of bounds for an axis with {extent} elements")
    return [number + extent if number < 0 else number for number in numbers]


def delete(arr, obj, axis=None):
    """Without some elements."""
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    dropped = set(_positions(obj, arr.shape[axis], "delete"))
    kept = [i for i in range(arr.shape[axis]) if i not in dropped]
    return _op("take")(arr, array(kept, dtype="int64"), axis=axis)


def insert(arr, obj, values, axis=None):
    """With values before some elements."""
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    places = _positions(obj, arr.shape[axis], "insert")
    values = values.astype(arr.dtype) if hasattr(values, "asnumpy") else array(values, dtype=arr.dtype)
    single = isinstance(obj, int)
    if values.ndim < arr.ndim:
        values = values.reshape((1,) * (arr.ndim - values.ndim) + tuple(values.shape))
        values = moveaxis(values, 0, axis) if single and values.ndim == arr.ndim and arr.ndim > 1 else values
    shape = list(arr.shape)
    shape[axis] = values.shape[axis] if single else len(places)
    values = values.broadcast_to(shape)
    joined = concatenate([arr, values], axis)
    # Where each element of the result comes from: those inserted at one place keep their order.
    sources = [(place, 0, arr.shape[axis] + i) for i, place in enumerate(places * shape[axis] if single else places)]
    sources += [(i, 1, i) for i in range(arr.shape[axis])]
    order = [source for _, _, source in sorted(sources)]
    return _op("take")(joined, array(order, dtype="int64"), axis=axis)


def resize(a, new_shape):
    """All elements in another shape, repeated where there are too few."""
    shape = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    size = int(_np.prod(shape, dtype=int))
    flat = tile(a.reshape(-1), -(-size // a.size))
    return _part(flat, 0, 0, size).reshape(shape)


def take_along_axis(arr, indices, axis):
    """One element per index along an axis."""
    if axis is None:
        arr, indices, axis = arr.reshape(-1), indices.reshape(-1), 0
    return _op("_take_along_axis")(arr, indices, axis=axis)


def ediff1d(ary, to_end=None, to_begin=None):
    """Differences of neighbours, with values around them."""
    flat = ary.reshape(-1)
    parts = [_part(flat, 0, 1, None) - _part(flat, 0, 0, -1)]
    around = [None if x is None else (x if hasattr(x, "asnumpy") else array(x, dtype=ary.dtype)).reshape(-1) for x in (to_begin, to_end)]
    return concatenate([x for x in (around[0], *parts, around[1]) if x is not None], 0)


def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None):
    """The different elements in order, or slices along an axis; where each stands first, which one each element is, how often each is there."""
    made = _op("_npi_unique")(ar, return_index=return_index, return_inverse=return_inverse, return_counts=return_counts,
                              **({} if axis is None else {"axis": axis}))
    return tuple(made) if return_index or return_inverse or return_counts else made


# ---- parts and joins

def vsplit(ary, indices_or_sections):
    """Parts along the first axis."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary, indices_or_sections):
    """Parts along the second axis, or the only one."""
    return split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


def dsplit(ary, indices_or_sections):
    """Parts along the third axis."""
    return split(ary, indices_or_sections, 2)


def column_stack(tup):
    """Vectors as columns, side by side."""
    return concatenate([a.reshape(-1, 1) if a.ndim < 2 else a for a in tup], 1)


def row_stack(arrays):
    """Vectors as rows, on top of each other."""
    return concatenate([a.reshape(1, -1) if a.ndim < 2 else a for a in arrays], 0)


def _at_least(arys, reshaped):
    made = [reshaped(a) for a in map(asarray, arys)]
    return made[0] if len(made) == 1 else made


def atleast_2d(*arys):
    """Arrays with at least two axes."""
    return _at_least(arys, lambda a: a.reshape(1, -1) if a.ndim < 2 else a)


def atleast_3d(*arys):
    """Arrays with at least three axes."""
    return _at_least(arys, lambda a: a.reshape(1, -1, 1) if a.ndim < 2 else a.reshape(*a.shape, 1) if a.ndim == 2 else a)


def rollaxis(a, axis, start=0):
    """One axis moved before another."""
    axis, start = axis % a.ndim, start + a.ndim if start < 0 else start
    return moveaxis(a, axis, start - 1 if start > axis else start)


def permute_dims(a, axes=None):
    """The axes in another order."""
    return a.transpose(axes)


concat = concatenate
