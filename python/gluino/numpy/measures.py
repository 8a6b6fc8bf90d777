"""Functions of mx.np over numbers that no single operator computes, made of operators so that gradients follow."""
import math

import numpy as _np

from .. import _core
from ..util import check_ufunc_options
from .elementwise import refuse, square, written
from .functions import _axes, max as _max, mean, min as _min, moveaxis, prod as _prod, sort, sum as _sum, where
from .multiarray import _op, array

__all__ = ["histogram", "bincount", "nansum", "nanprod", "median", "quantile", "percentile", "ptp", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "cumprod",
           "polyval", "nan_to_num", "sinc", "round_"]


# ---- order

def _as_last_axis(a, axis):
    """The axes to measure over as one, the last; and how many axes are left."""
    if axis is None:
        return a.reshape(-1)
    axes = [x % a.ndim for x in ([axis] if isinstance(axis, int) else axis)]
    moved = moveaxis(a, axes, range(a.ndim - len(axes), a.ndim))
    return moved if len(axes) == 1 else moved.reshape(*moved.shape[:a.ndim - len(axes)], -1)


_ROUNDINGS = {"linear": None, "lower": _np.floor, "higher": _np.ceil, "nearest": _np.rint,
              "midpoint": lambda position: (_np.floor(position) + _np.ceil(position)) / 2}


def quantile(a, q, axis=None, out=None, overwrite_input=None, interpolation="linear", keepdims=False):
    """Values below which the parts q of the elements lie."""
    if interpolation not in _ROUNDINGS:
        raise ValueError(f"quantile: interpolation is one of {', '.join(_ROUNDINGS)}, not {interpolation!r}")
    parts = _np.asarray(q.asnumpy() if hasattr(q, "asnumpy") else q, dtype="float64")
    if parts.size and not (parts.min() >= 0 and parts.max() <= 1):
        raise ValueError("Quantiles must be in the range [0, 1]")
    if not _np.issubdtype(a.dtype, _np.floating):
        a = a.astype("float32")
    _axes(a, axis, "quantile")
    if a.size == 0:
        raise IndexError("quantile: there are no elements")
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
    return written(moveaxis(found, -1, 0).reshape(parts.shape + left), out)


def percentile(a, q, axis=None, out=None, overwrite_input=None, interpolation="linear", keepdims=False):
    """Values below which q percent of the elements lie."""
    parts = _np.asarray(q.asnumpy() if hasattr(q, "asnumpy") else q, dtype="float64") / 100
    return quantile(a, parts, axis, out, overwrite_input, interpolation, keepdims)


def median(a, axis=None, out=None, overwrite_input=None, keepdims=False):
    """The value in the middle; NaN where there is none."""
    if a.size == 0:
        return mean(a, axis, out=out, keepdims=keepdims)
    return quantile(a, 0.5, axis, out, keepdims=keepdims)


def ptp(a, axis=None, out=None, keepdims=False):
    """The distance of the greatest from the least."""
    return written(_max(a, axis, keepdims=keepdims) - _min(a, axis, keepdims=keepdims), out)


def histogram(a, bins=10, range=None, normed=None, weights=None, density=None):
    """(counts per bin, edges of the bins); edges may be given in place of their number."""
    refuse("histogram", normed=normed, weights=weights, density=density)
    if isinstance(bins, (list, tuple, _np.ndarray)):
        bins = array(bins, dtype="float32")
    if hasattr(bins, "asnumpy"):
        return tuple(_op("_histogram")(a, bins))
    if range is None:
        range = (float(a.min().item()), float(a.max().item())) if a.size else (0.0, 1.0)
        range = (range[0] - 0.5, range[1] + 0.5) if range[0] == range[1] else range
    return tuple(_op("_histogram")(a, bin_cnt=bins, range=tuple(float(x) for x in range)))


def bincount(x, weights=None, minlength=0):
    """How often each whole number occurs, or the sum of its weights."""
    if _np.issubdtype(x.dtype, _np.floating) and bool((x != _op("floor")(x)).any()):
        raise TypeError("bincount: whole numbers are counted, and there are fractions")
    weighted = [] if weights is None else [weights if hasattr(weights, "asnumpy") else array(weights)]
    return _op("_npi_bincount")(x, *weighted, minlength=minlength, has_weights=weights is not None)


# ---- without what is not a number

def _numbers_of(a, instead):
    return where(a == a, a, instead) if _np.issubdtype(a.dtype, _np.floating) else a  # whole numbers are all numbers


def _counted(a, axis, keepdims):
    return _sum((a == a).astype(a.dtype), axis, keepdims=keepdims)


def _real(a, dtype):
    return a if dtype is None and _np.issubdtype(a.dtype, _np.floating) else a.astype(dtype or "float32")


def nanmean(a, axis=None, dtype=None, out=None, keepdims=False):
    """The mean of those that are numbers."""
    a = _real(a, dtype)
    return written(_sum(where(a == a, a, 0.0), axis, keepdims=keepdims) / _counted(a, axis, keepdims), out)


def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The variance of those that are numbers."""
    a = _real(a, dtype)
    squares = square(where(a == a, a - nanmean(a, axis, keepdims=True), 0.0))
    return written(_sum(squares, axis, keepdims=keepdims) / (_counted(a, axis, keepdims) - ddof), out)


def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The standard deviation of those that are numbers."""
    return written(_op("sqrt")(nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims)), out)


def nanmax(a, axis=None, out=None, keepdims=False):
    """The greatest of those that are numbers."""
    return _max(_numbers_of(a, -math.inf), axis, out, keepdims)


def nanmin(a, axis=None, out=None, keepdims=False):
    """The least of those that are numbers."""
    return _min(_numbers_of(a, math.inf), axis, out, keepdims)


def nansum(a, axis=None, dtype=None, out=None, keepdims=False):
    """The sum of those that are numbers."""
    return _sum(_numbers_of(a, 0.0), axis, dtype, out, keepdims)


def nanprod(a, axis=None, dtype=None, out=None, keepdims=False):
    """The product of those that are numbers."""
    return _prod(_numbers_of(a, 1.0), axis, dtype, out, keepdims)


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None, **kwargs):
    """Numbers in place of NaN and infinities; copy=False writes them into x."""
    check_ufunc_options("nan_to_num", kwargs)
    if not hasattr(x, "dtype") or isinstance(x, _np.generic):
        return _np.nan_to_num(x, copy, nan, posinf, neginf)
    if not _np.issubdtype(x.dtype, _np.floating):
        return x.copy() if copy else x
    most = float(_np.finfo(x.dtype).max)
    finite = where(x == x, x, float(nan))
    finite = where(finite == math.inf, most if posinf is None else float(posinf), finite)
    finite = where(finite == -math.inf, -most if neginf is None else float(neginf), finite)
    return finite if copy else written(finite, x)


# ---- products and polynomials

def cumprod(a, axis=None, dtype=None, out=None):
    """Products of all elements up to each."""
    if axis is not None and not -max(a.ndim, 1) <= axis < max(a.ndim, 1):
        raise ValueError(f"cumprod: axis {axis} is out of bounds for an array with {a.ndim} axes")
    return written(_op("_npi_cumprod")(a, axis=axis, dtype=dtype), out)


def polyval(p, x):
    """The polynomial with coefficients p, the highest power first."""
    result = _op("zeros_like")(x) if isinstance(x, (_core.Array, _core.SymbolBase)) else 0.0
    for i in range(p.shape[0]):
        result = result * x + p[i]
    return result


# ---- elementwise

def sinc(x):
    """sin(pi x) / (pi x), 1 at zero."""
    angle = where(x == 0, 1.0, x * math.pi)
    return where(x == 0, 1.0, _op("sin")(angle) / angle)


def round_(x, decimals=0, out=None, **kwargs):
    """Rounded to so many decimals."""
    from .functions import round as rounded
    return rounded(x, decimals, out, **kwargs)


