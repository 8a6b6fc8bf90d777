"""Products of arrays."""
import numpy as _np

from .. import _core
from ..util import check_ufunc_options
from .elementwise import written
from .multiarray import _op

__all__ = ["dot", "matmul", "tensordot", "inner", "outer", "vdot", "einsum"]


def dot(a, b, out=None):
    """The product over the last axis of `a` and the last but one of `b`."""
    if not isinstance(a, (_core.Array, _core.SymbolBase)) or not isinstance(b, (_core.Array, _core.SymbolBase)) or a.ndim == 0 or b.ndim == 0:
        return written(a * b, out)
    if b.ndim > 2:
        return tensordot(a, b, ([a.ndim - 1], [b.ndim - 2]))
    product = _op("dot")(a, b)
    return written(product._call("Reshape", shape=()) if a.ndim == b.ndim == 1 else product, out)


def matmul(a, b, out=None, **kwargs):
    """The matrix product, with NumPy's broadcasting of the axes in front."""
    check_ufunc_options("matmul", kwargs)
    if not isinstance(a, (_core.Array, _core.SymbolBase)) or not isinstance(b, (_core.Array, _core.SymbolBase)) or a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul: both must be arrays with at least one axis; use multiply for numbers")
    return written(_matmul(a, b), out)


def _matmul(a, b):
    if a.ndim <= 2 and b.ndim <= 2:
        return dot(a, b)
    left, right = (a.reshape(1, -1) if a.ndim == 1 else a), (b.reshape(-1, 1) if b.ndim == 1 else b)
    front = _np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left3 = left.broadcast_to(front + left.shape[-2:]).reshape(-1, *left.shape[-2:])
    right3 = right.broadcast_to(front + right.shape[-2:]).reshape(-1, *right.shape[-2:])
    product = _op("batch_dot")(left3, right3)
    shape = front + (() if a.ndim == 1 else (left.shape[-2],)) + (() if b.ndim == 1 else (right.shape[-1],))
    return product.reshape(shape)


def tensordot(a, b, axes=2):
    """The sum of products over pairs of axes."""
    if isinstance(axes, int):
        axes = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    left, right = ([x] if isinstance(x, int) else list(x) for x in axes)
    left, right = [x % a.ndim for x in left], [x % b.ndim for x in right]
    keep_a, keep_b = [i for i in range(a.ndim) if i not in left], [i for i in range(b.ndim) if i not in right]
    extents = [[x.shape[i] for i in axes] for x, axes in ((a, keep_a), (a, left), (b, right), (b, keep_b))]
    rows, inner_size, again, columns = (int(_np.prod(each, dtype=int)) for each in extents)
    if 0 in a.shape or 0 in b.shape:  # -1 cannot stand for an extent then
        return _op("dot")(a.transpose(keep_a + left).reshape(rows, inner_size), b.transpose(right + keep_b).reshape(again, columns)).reshape(
            extents[0] + extents[3])
    product = _op("dot")(a.transpose(keep_a + left).reshape(-1, inner_size), b.transpose(right + keep_b).reshape(inner_size, -1))
    return product.reshape(extents[0] + extents[3])


def inner(a, b):
    """The product over the last axes."""
    if not isinstance(a, (_core.Array, _core.SymbolBase)) or not isinstance(b, (_core.Array, _core.SymbolBase)) or a.ndim == 0 or b.ndim == 0:
        return a * b
    return tensordot(a, b, ([a.ndim - 1], [b.ndim - 1]))


def outer(a, b):
    """All products of two elements."""
    return a.reshape(-1, 1) * b.reshape(1, -1)


def vdot(a, b):
    """The sum of all products."""
    return sum(a.reshape(-1) * b.reshape(-1))


def einsum(subscripts, *operands, out=None, optimize=False):
    """Einstein's summation."""
    return _op("_npi_einsum")(*operands, subscripts=subscripts)
