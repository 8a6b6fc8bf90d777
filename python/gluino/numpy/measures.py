"""Functions of mx.np over numbers that no single operator computes, made of operators so that gradients follow."""
import math

import numpy as _np

from .. import _core
from .functions import concatenate, max as _max, mean, min as _min, moveaxis, sort, square, sum as _sum, where
from .multiarray import _op, array

__all__ = ["median", "quantile", "percentile", "ptp", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "cumprod", "polyval", "logaddexp", "copysign",
           "heaviside", "exp2", "float_power", "fmax", "fmin", "nan_to_num", "isposinf", "isneginf", "positive", "rad2deg", "deg2rad", "sinc", "round_"]


# ---- order

def _as_last_axis(a, axis):
    """The axes to measure over as one, the last; and how many axes are left."""
    if axis is None:
        return a.reshape(-1)
    axes = [x % a.ndim for x in ([axis] if isinstance(axis, int) else axis)]
    moved = moveaxis(a, axes, range(a.ndim - len(axes), a.ndim))
    return moved if len(axes) == 1 else moved.reshape(*moved.shape[:-len(axes)], -1)


_ROUNDINGS = {"linear": None, "lower": _np.floor, "higher": _np.ceil, "nearest": _np.rint,
              "midpoint": lambda position: (_np.floor(position) + _np.ceil(position)) / 2}


def quantile(a, q, axis=None, out=None, overwrite_input=None, interpolation="linear", keepdims=False):
    """Values below which the parts q of the elements lie."""
    if interpolation not in _ROUNDINGS:
        raise ValueError(f"quantile: interpolation is one of {', '.join(_ROUNDINGS)}, not {interpolation!r}")
    parts = _np.asarray(q.asnumpy() if hasattr(q, "asnumpy") else q, dtype="float64")
    if parts.size and not (parts.min() >= 0 and parts.max() <= 1):
        raise ValueError("Quantiles must be in the range [0, 1]")
    ordered = sort(_as_last_axis(a, axis), -1)
    positions = parts.reshape(-1) * (ordered.shape[-1] - 1)
    positions = _ROUNDINGS[interpolation](positions) if _ROUNDINGS[interpolation] else positions
    below, above = (array(f(positions), dtype="int64") for f in (_np.floor, _np.ceil))
    share = array(positions - _np.floor(positions), dtype=a.dtype)
    found = _op("take")(ordered, below, axis=-1) * (1 - share) + _op("take")(ordered, above, axis=-1) * share
    left = tuple(ordered.shape[:-1])
    if keepdims:
        axes = range(a.ndim) if axis is None else [x % a.ndim for x in ([axis] if isinstance(axis, int) else axis)]
        left = tuple(1 if i in axes else extent for i, extent in enumerate(a.shape))
    return moveaxis(found, -1, 0).reshape(parts.shape + left)


def percentile(a, q, axis=None, out=None, overwrite_input=None, interpolation="linear", keepdims=False):
    """Values below which q percent of the elements lie."""
    parts = _np.asarray(q.asnumpy() if hasattr(q, "asnumpy") else q, dtype="float64") / 100
    return quantile(a, parts, axis, out, overwrite_input, interpolation, keepdims)


def median(a, axis=None, out=None, overwrite_input=None, keepdims=False):
    """The value in the middle."""
    return quantile(a, 0.5, axis, keepdims=keepdims)


def ptp(a, axis=None, out=None, keepdims=False):
    """The distance of the greatest from the least."""
    return _max(a, axis, keepdims=keepdims) - _min(a, axis, keepdims=keepdims)


# ---- without what is not a number

def _counted(a, axis, keepdims):
    return _sum((a == a).astype(a.dtype), axis, keepdims=keepdims)


def nanmean(a, axis=None, dtype=None, out=None, keepdims=False):
    """The mean of those that are numbers."""
    return _sum(where(a == a, a, 0.0), axis, keepdims=keepdims) / _counted(a, axis, keepdims)


def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The variance of those that are numbers."""
    squares = square(where(a == a, a - nanmean(a, axis, keepdims=True), 0.0))
    return _sum(squares, axis, keepdims=keepdims) / (_counted(a, axis, keepdims) - ddof)


def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The standard deviation of those that are numbers."""
    return _op("sqrt")(nanvar(a, axis, ddof=ddof, keepdims=keepdims))


def nanmax(a, axis=None, out=None, keepdims=False):
    """The greatest of those that are numbers."""
    return _max(where(a == a, a, -math.inf), axis, keepdims=keepdims)


def nanmin(a, axis=None, out=None, keepdims=False):
    """The least of those that are numbers."""
    return _min(where(a == a, a, math.inf), axis, keepdims=keepdims)


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """Numbers in place of NaN and infinities."""
    most = float(_np.finfo(x.dtype).max)
    finite = where(x == x, x, float(nan))
    finite = where(finite == math.inf, most if posinf is None else float(posinf), finite)
    return where(finite == -math.inf, -most if neginf is None else float(neginf), finite)


# ---- products and polynomials

def cumprod(a, axis=None, dtype=None, out=None):
    """Products of all elements up to each."""
    if axis is None:
        a, axis = a.reshape(-1), 0
    if dtype is not None:
        a = a.astype(dtype)
    products = [_op("slice_axis")(a, axis=axis, begin=0, end=1)]
    for i in range(1, a.shape[axis]):
        products.append(products[-1] * _op("slice_axis")(a, axis=axis, begin=i, end=i + 1))
    return concatenate(products, axis)


def polyval(p, x):
    """The polynomial with coefficients p, the highest power first."""
    result = _op("zeros_like")(x) if isinstance(x, (_core.Array, _core.SymbolBase)) else 0.0
    for i in range(p.shape[0]):
        result = result * x + p[i]
    return result


# ---- elementwise

def logaddexp(x1, x2, out=None):
    """log(exp(x1) + exp(x2)), without overflow."""
    difference = x1 - x2
    return _core.binary_functions["maximum"](x1, x2) + _op("log1p")(_op("exp")(-_op("abs")(difference)))


def copysign(x1, x2, out=None):
    """x1 with the sign of x2."""
    return abs(x1) * where(x2 < 0, -1.0, 1.0)


def heaviside(x1, x2, out=None):
    """0 below zero, 1 above, x2 at it."""
    return where(x1 == 0, x2, (x1 > 0).astype(x1.dtype))


def exp2(x, out=None):
    """2 to the power of x."""
    return _op("exp")(x * math.log(2))


def fmax(x1, x2, out=None):
    """The greater one, or the one that is a number."""
    return where(x1 != x1, x2, where(x2 != x2, x1, _core.binary_functions["maximum"](x1, x2)))


def fmin(x1, x2, out=None):
    """The lesser one, or the one that is a number."""
    return where(x1 != x1, x2, where(x2 != x2, x1, _core.binary_functions["minimum"](x1, x2)))


def isposinf(x, out=None):
    """Whether it is positive infinity."""
    return x == math.inf


def isneginf(x, out=None):
    """Whether it is negative infinity."""
    return x == -math.inf


def positive(x, out=None):
    """A copy."""
    return x.copy()


def sinc(x):
    """sin(pi x) / (pi x), 1 at zero."""
    angle = where(x == 0, 1.0, x * math.pi)
    return where(x == 0, 1.0, _op("sin")(angle) / angle)


def rad2deg(x, out=None):
    """Radians in degrees."""
    return _op("degrees")(x)


def deg2rad(x, out=None):
    """Degrees in radians."""
    return _op("radians")(x)


def round_(x, decimals=0, out=None):
    """Rounded to so many decimals."""
    from .functions import round as rounded
    return rounded(x, decimals)


float_power = _core.binary_functions["power"]
