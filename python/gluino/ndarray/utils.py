"""Functions of mx.nd that serve dense and sparse arrays alike."""
from . import sparse as _sparse
from .files import load, load_frombuffer, save  # noqa: F401
from .ndarray import array as _dense_array, zeros as _dense_zeros

__all__ = ["zeros", "empty", "array", "load", "load_frombuffer", "save"]


def zeros(shape, ctx=None, dtype=None, stype=None, **kwargs):
    """Zeros, dense or sparse."""
    return _dense_zeros(shape, ctx, dtype, **kwargs) if stype in (None, "default") else _sparse.zeros(stype, shape, ctx, dtype, **kwargs)


def empty(shape, ctx=None, dtype=None, stype=None):
    """An array whose values do not matter."""
    return zeros(shape, ctx, dtype, stype)


def array(source_array, ctx=None, dtype=None):
    """An array, sparse where the source is."""
    return _dense_array(source_array, ctx, dtype)
