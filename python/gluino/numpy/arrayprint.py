"""How arrays are printed: as NumPy's."""
import numpy as _np

__all__ = ["set_printoptions"]


def set_printoptions(precision=None, threshold=None, **kwarg):
    """numpy.set_printoptions, which decides about arrays of mx.np too."""
    _np.set_printoptions(precision=precision, threshold=threshold, **kwarg)
