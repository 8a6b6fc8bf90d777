"""mx.nd.sparse for dense arrays: the engine stores every array densely, so conversions keep the values."""
from ..base import NotSupportedForSparseNDArray
from .ndarray import NDArray, array as _array, zeros as _zeros

__all__ = ["csr_matrix", "row_sparse_array", "zeros", "BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray", "retain"]


class BaseSparseNDArray(NDArray):
    """Never made here; there for isinstance."""


class CSRNDArray(BaseSparseNDArray):
    """Never made here; there for isinstance."""


class RowSparseNDArray(BaseSparseNDArray):
    """Never made here; there for isinstance."""


def csr_matrix(arg1, shape=None, ctx=None, dtype=None):
    """A dense array with the values of a csr matrix given as (data, indices, indptr) or as an array."""
    if isinstance(arg1, tuple) and len(arg1) == 3:
        import numpy as np
        data, indices, indptr = (np.asarray(a) for a in arg1)
        dense = np.zeros(shape, dtype or data.dtype)
        for row in range(shape[0]):
            dense[row, indices[indptr[row]:indptr[row + 1]].astype(int)] = data[indptr[row]:indptr[row + 1]]
        return _array(dense, ctx=ctx, dtype=dtype or "float32")
    return _array(arg1.toarray() if hasattr(arg1, "toarray") else arg1, ctx=ctx, dtype=dtype)


def row_sparse_array(arg1, shape=None, ctx=None, dtype=None):
    """A dense array with rows given as (data, indices) or as an array."""
    if isinstance(arg1, tuple) and len(arg1) == 2 and not isinstance(arg1[0], int):
        import numpy as np
        data, indices = (a.asnumpy() if isinstance(a, NDArray) else np.asarray(a) for a in arg1)
        dense = np.zeros(shape or (int(indices.max()) + 1, *data.shape[1:]), dtype or data.dtype)
        dense[indices.astype(int)] = data
        return _array(dense, ctx=ctx, dtype=dtype or "float32")
    return _array(arg1, ctx=ctx, dtype=dtype)


def zeros(stype, shape, ctx=None, dtype=None, **kwargs):
    """Zeros, dense whatever `stype` says."""
    return _zeros(shape, ctx=ctx, dtype=dtype)


def retain(data, indices):
    """Keeps some rows of a row-sparse array."""
    raise NotSupportedForSparseNDArray("retain needs row_sparse storage, and arrays are dense here; multiply by a mask instead")
