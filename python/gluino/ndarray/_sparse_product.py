"""Products of sparse matrices by what is stored; a part of mx.nd.sparse."""
import numpy as np

from .. import _core
from .ndarray import NDArray, array as _array
from .sparse import BaseSparseNDArray, CSRNDArray


def product(lhs, rhs, transpose_a=False, transpose_b=False):
    """The product of a csr matrix and a dense array by what is stored; None where that is not what is asked for."""
    if not isinstance(lhs, CSRNDArray) or isinstance(rhs, BaseSparseNDArray) or transpose_b or not isinstance(rhs, NDArray) or \
            lhs._grad_req != "null" or rhs.shape[:1] != (lhs.shape[0 if transpose_a else 1],):
        return None
    from . import _internal
    data, columns, _ = lhs._parts
    rows, columns = (_array(part, ctx=lhs.context, dtype="int64") for part in (lhs._rows, columns))
    if transpose_a:
        rows, columns = columns, rows
    like = _array(np.zeros((lhs.shape[1 if transpose_a else 0], 0), "float32"), ctx=lhs.context)
    return _internal._coordinate_dot(data, rows, columns, rhs, like)


def _kind_of_product(lhs, rhs, transpose_a, transpose_b):
    """The storage type that MXNet documents for it."""
    if isinstance(lhs, CSRNDArray) and transpose_a and not transpose_b and not isinstance(rhs, CSRNDArray):
        return "row_sparse"  # columns without elements are rows of zeros
    return "csr" if isinstance(rhs, CSRNDArray) and not isinstance(lhs, BaseSparseNDArray) and not transpose_a and not transpose_b else "default"


def with_sparse(dense_dot):
    """mx.nd.dot: that of dense arrays, which csr matrices need not become."""
    def dot(lhs, rhs, transpose_a=False, transpose_b=False, forward_stype=None, **kwargs):
        if not isinstance(lhs, BaseSparseNDArray) and not isinstance(rhs, BaseSparseNDArray):
            return dense_dot(lhs, rhs, transpose_a, transpose_b, **kwargs)
        made = None if "out" in kwargs else product(lhs, rhs, transpose_a, transpose_b)
        if made is None:
            made = dense_dot(lhs, rhs, transpose_a, transpose_b, **kwargs)
        kind = forward_stype or ("default" if "out" in kwargs or _core.is_tracing() else _kind_of_product(lhs, rhs, transpose_a, transpose_b))
        return made.tostype(kind)
    dot.__doc__ = dense_dot.__doc__
    return dot
