"""Reading text files."""
import numpy as _np

from .multiarray import array

__all__ = ["genfromtxt"]


def genfromtxt(*args, **kwargs):
    """numpy.genfromtxt, as an array of mx.np; float64 unless dtype says otherwise, as in NumPy."""
    ctx = kwargs.pop("ctx", None)
    values = _np.genfromtxt(*args, **kwargs)
    return array(values, dtype=values.dtype, ctx=ctx)
