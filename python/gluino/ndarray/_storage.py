"""What operators of mx.nd make of sparse arrays: the kinds that MXNet documents for their results, computed from what is stored.

An operator without a rule here, or with arrays that a rule does not know, takes the dense arrays that sparse ones stand for.
"""
import numpy as np

from .. import autograd
from . import _lazy_updates, sparse
from .ndarray import NDArray, array as _array
from .sparse import BaseSparseNDArray, CSRNDArray, RowSparseNDArray

# Functions of one number that give 0 for 0.
_KEEP_ZEROS = ("abs sign round rint fix floor ceil trunc square sqrt cbrt sin tan arcsin arctan sinh tanh arcsinh arctanh expm1 log1p relu negative "
               "degrees radians _copy BlockGrad make_loss").split()


def call(name, args, kwargs, recorded=None):
    """The library asks when an operator is given a sparse array: its result, or NotImplemented.

    A recorded result, which is dense, becomes an array of the kind that the rules give, in the same memory and on the tape.
    """
    if recorded is not None:
        with autograd.pause(autograd.is_training()):
            made = NotImplemented if name in _lazy_updates.STEPS else call(name, args, kwargs)
        return type(made)(recorded) if isinstance(made, BaseSparseNDArray) and made.shape == recorded.shape else NotImplemented
    kwargs.pop("name", None)
    if name in _lazy_updates.STEPS:
        return _lazy_updates.step(name, args, kwargs)
    rule = _RULES.get(name)
    if rule is None or kwargs.pop("out", None) is not None:
        return NotImplemented
    return rule(*args, **kwargs)


def _of_stored(name):
    def rule(data, **kwargs):
        from . import _internal
        return NotImplemented if kwargs else data._with(getattr(_internal, name)(data.data))
    return rule


def _scaled(name):
    def rule(data, scalar=1.0, **kwargs):
        from . import _internal
        return data._with(getattr(_internal, name)(data.data, scalar=scalar, **kwargs))
    return rule


def _moved(data, scalar=0.0, **kwargs):
    return data.copy() if scalar == 0 else NotImplemented


def _zeros_like(data):
    return sparse.zeros(data.stype, data.shape, data.context, data.dtype)


def _clip(data, a_min, a_max):
    return data._with(data.data.clip(a_min, a_max)) if a_min <= 0 <= a_max else NotImplemented


def _are(kind, *arrays):
    first = arrays[0]
    return all(isinstance(x, kind) and x.shape == first.shape and x.dtype == first.dtype for x in arrays)


def _sum(*arrays, **kwargs):
    """The sum by the rows or the elements that any of them stores."""
    first = arrays[0]
    if _are(RowSparseNDArray, *arrays):
        rows = np.unique(np.concatenate([x._parts[1] for x in arrays]))
        total = np.zeros((len(rows), *first.shape[1:]), first.dtype)
        for part in arrays:
            total[np.searchsorted(rows, part._parts[1])] += part.data.asnumpy()
        return sparse._made(RowSparseNDArray, first.shape, first.context, _array(total, ctx=first.context, dtype=first.dtype), rows)
    if _are(CSRNDArray, *arrays):
        rows, columns, values = (np.concatenate(parts) for parts in zip(*((x._rows, x._parts[1], x.data.asnumpy()) for x in arrays)))
        return sparse.csr_matrix((values, (rows, columns)), first.shape, first.context, first.dtype)
    return NotImplemented


def _difference(lhs, rhs):
    return _sum(lhs, rhs * -1) if isinstance(rhs, BaseSparseNDArray) else NotImplemented


def _product(lhs, rhs):
    if isinstance(rhs, RowSparseNDArray) and not isinstance(lhs, BaseSparseNDArray):
        lhs, rhs = rhs, lhs
    if lhs.shape != rhs.shape or lhs.dtype != rhs.dtype:
        return NotImplemented
    if isinstance(lhs, RowSparseNDArray) and not isinstance(rhs, CSRNDArray):
        return lhs._with(lhs.data * sparse.rows_of(rhs, lhs._parts[1]).data)
    if _are(CSRNDArray, lhs, rhs):
        return (lhs.todense() * rhs.todense()).tostype("csr")
    return NotImplemented


def _by_columns(name):
    """A csr matrix times or by a dense array that is repeated over it."""
    def rule(lhs, rhs):
        if not isinstance(lhs, CSRNDArray) or isinstance(rhs, BaseSparseNDArray) or lhs.dtype != rhs.dtype:
            return NotImplemented
        try:
            other = np.broadcast_to(rhs.asnumpy(), lhs.shape)
        except ValueError:  # the operator explains it
            return NotImplemented
        return lhs._with(getattr(lhs.data, name)(_array(other[lhs._rows, lhs._parts[1]], ctx=lhs.context, dtype=lhs.dtype)))
    return rule


def _concat(*arrays, dim=1, num_args=None):
    arrays = arrays[0] if len(arrays) == 1 and isinstance(arrays[0], (list, tuple)) else arrays
    if dim != 0 or not all(isinstance(x, CSRNDArray) and x.dtype == arrays[0].dtype and x.shape[1] == arrays[0].shape[1] for x in arrays):
        return NotImplemented
    begins = np.cumsum([0, *(x.data.size for x in arrays)])
    pointers = np.concatenate([[0], *(x._parts[2][1:] + begin for x, begin in zip(arrays, begins))]).astype("int64")
    data = _array(np.concatenate([x.data.asnumpy() for x in arrays]), ctx=arrays[0].context, dtype=arrays[0].dtype)
    return sparse._made(CSRNDArray, (sum(x.shape[0] for x in arrays), arrays[0].shape[1]), arrays[0].context, data,
                        np.concatenate([x._parts[1] for x in arrays]), pointers)


def _slice(data, begin, end, step=()):
    begin, end, step = ((x,) if x is None or isinstance(x, int) else tuple(x) for x in (begin, end, step))
    if not isinstance(data, CSRNDArray) or any(s not in (None, 1) for s in step):
        return NotImplemented
    spans = [range(n)[b:e] for n, b, e in zip(data.shape, (*begin, None), (*end, None))]
    if not all(spans):
        return NotImplemented
    rows = data[spans[0].start:spans[0].stop]
    kept = np.isin(rows._parts[1], spans[1]).nonzero()[0] if len(spans) > 1 else slice(None)
    return sparse.csr_matrix((rows.data.asnumpy()[kept], (rows._rows[kept], rows._parts[1][kept] - spans[1].start)), (len(spans[0]), len(spans[1])),
                             data.context, data.dtype)


def _square_sum(data, axis=None, keepdims=False, **kwargs):
    if not isinstance(data, RowSparseNDArray) or axis not in (1, (1,)) or not keepdims or len(data.shape) != 2 or kwargs:
        return NotImplemented
    return sparse._made(RowSparseNDArray, (data.shape[0], 1), data.context, data.data.square().sum(axis=1, keepdims=True), data._parts[1])


_RULES = {name: _of_stored(name) for name in _KEEP_ZEROS} | {name: _scaled(name) for name in ("_mul_scalar", "_div_scalar")} | {
    "_plus_scalar": _moved, "_minus_scalar": _moved, "zeros_like": _zeros_like, "clip": _clip, "elemwise_add": _sum, "add_n": _sum,
    "elemwise_sub": _difference, "elemwise_mul": _product, "broadcast_mul": _by_columns("__mul__"), "broadcast_div": _by_columns("__truediv__"),
    "Concat": _concat, "slice": _slice, "_square_sum": _square_sum}


def _elementwise(name, whole, broadcast, scalar):
    def function(lhs, rhs):
        from .. import ndarray as nd
        from . import _internal
        if isinstance(lhs, NDArray) and isinstance(rhs, NDArray):
            return getattr(_internal, whole if lhs.shape == rhs.shape else broadcast)(lhs, rhs)
        return getattr(_internal, scalar)(lhs, scalar=rhs) if isinstance(lhs, BaseSparseNDArray) else getattr(nd, name)(lhs, rhs)
    function.__name__, function.__doc__ = name, f"mx.nd.{name}, of the kind that {whole}, {broadcast} or {scalar} gives."
    return function


add, subtract, multiply, divide = (_elementwise(*names) for names in (
    ("add", "elemwise_add", "broadcast_add", "_plus_scalar"), ("subtract", "elemwise_sub", "broadcast_sub", "_minus_scalar"),
    ("multiply", "elemwise_mul", "broadcast_mul", "_mul_scalar"), ("divide", "elemwise_div", "broadcast_div", "_div_scalar")))
