"""Products and sums of sparse arrays by what is stored; a part of mx.nd.sparse."""
import numpy as np

from .. import _core
from .ndarray import NDArray, array as _array
from .sparse import BaseSparseNDArray, CSRNDArray, RowSparseNDArray, _made


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


def dot(lhs, rhs, transpose_a=False, transpose_b=False, forward_stype=None):
    """The product of matrices; dense unless `forward_stype` says otherwise."""
    made = product(lhs, rhs, transpose_a, transpose_b)
    if made is None:
        from . import _internal
        made = _internal.dot(lhs, rhs, transpose_a=transpose_a, transpose_b=transpose_b)
    return made.tostype(forward_stype or "default")


def with_sparse(dense_dot):
    """mx.nd.dot: that of dense arrays, which csr matrices need not become."""
    def dot(lhs, rhs, *args, **kwargs):
        if isinstance(lhs, BaseSparseNDArray):
            made = product(lhs, rhs, *args, **kwargs) if not {"out", "name", "forward_stype"} & kwargs.keys() else None
            if made is not None:
                return made
        return dense_dot(lhs, rhs, *args, **kwargs)
    dot.__doc__ = dense_dot.__doc__
    return dot


def is_watched():
    """Whether the tape or a trace must see the operators of the whole array."""
    return _core.is_recording() or _core.is_tracing()


# Functions of one number that give 0 for 0.
KEEP_ZEROS = frozenset("abs sign round rint fix floor ceil trunc square sqrt cbrt sin tan arcsin arctan sinh tanh arcsinh arctanh expm1 log1p relu negative "
                       "degrees radians".split())


def of_stored(name):
    """The function of what is stored, as an array of the same kind; of a dense array, or where it is recorded, mx.nd's."""
    def function(data, **kwargs):
        from .. import ndarray as nd
        by_parts = isinstance(data, BaseSparseNDArray) and not kwargs and not is_watched()
        return data._with(getattr(nd, name)(data.data)) if by_parts else getattr(nd, name)(data, **kwargs)
    function.__name__, function.__doc__ = name, f"mx.nd.{name}; sparse of a sparse array."
    return function


def _sum_of_rows(lhs, rhs):
    """The sum of two row_sparse arrays by their rows."""
    rows = np.union1d(lhs._parts[1], rhs._parts[1])
    total = np.zeros((len(rows), *lhs.shape[1:]), lhs.dtype)
    for part in (lhs, rhs):
        total[np.searchsorted(rows, part._parts[1])] += part.data.asnumpy()
    return _made(RowSparseNDArray, lhs.shape, lhs.context, _array(total, ctx=lhs.context, dtype=lhs.dtype), rows)


def _elementwise(name):
    def function(lhs, rhs):
        from .. import ndarray as nd
        if isinstance(lhs, RowSparseNDArray) and isinstance(rhs, RowSparseNDArray) and lhs.shape == rhs.shape and lhs.dtype == rhs.dtype and \
                name in ("add", "subtract"):
            return _sum_of_rows(lhs, rhs if name == "add" else rhs * -1)
        result = getattr(nd, name)(lhs, rhs)
        kinds = {x.stype for x in (lhs, rhs) if isinstance(x, NDArray)}
        return result.tostype(kinds.pop()) if len(kinds) == 1 and (kinds != {"default"}) else result
    function.__name__, function.__doc__ = name, f"mx.nd.{name}; sparse when both are of one sparse kind."
    return function


add, subtract, multiply, divide = (_elementwise(name) for name in ("add", "subtract", "multiply", "divide"))
