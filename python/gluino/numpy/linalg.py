"""mx.np.linalg."""
import numpy as _np

from .fallback import by_numpy
from .multiarray import _op, eye

__all__ = ["norm", "inv", "det", "slogdet", "cholesky", "solve", "svd", "eigh", "eigvalsh", "matrix_rank",
           "pinv", "lstsq", "qr", "eig", "eigvals", "cond", "tensorinv", "tensorsolve", "matrix_power", "multi_dot"]


def norm(x, ord=None, axis=None, keepdims=False):
    """The Euclidean norm, or that of another order: of vectors along one axis, of matrices along two."""
    if ord is None or ord == "fro" or (ord == 2 and (x.ndim == 1 if axis is None else isinstance(axis, int))):
        return _op("sqrt")((x * x).sum(axis=axis, keepdims=keepdims))
    if axis is None and x.ndim > 2:
        raise ValueError(f"norm: order {ord!r} of an array with {x.ndim} axes needs an axis")
    if axis is None:
        axis = 0 if x.ndim == 1 else (0, 1)
    if isinstance(axis, int):
        return _vector_norm(abs(x), ord, axis, keepdims)
    rows, columns = (a % x.ndim for a in axis)
    if ord in (1, -1, _np.inf, -_np.inf):  # the greatest or least sum of a column or row
        summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = abs(x).sum(axis=summed, keepdims=True)
        found = sums.max(axis=kept, keepdims=True) if ord > 0 else sums.min(axis=kept, keepdims=True)
        return found if keepdims else found.squeeze(axis=(rows, columns))
    return _norm(x, ord, axis, keepdims)


def _vector_norm(sizes, ord, axis, keepdims):
    if ord in (_np.inf, -_np.inf):
        return (sizes.max if ord > 0 else sizes.min)(axis=axis, keepdims=keepdims)
    if ord == 0:
        return (sizes != 0).astype(sizes.dtype).sum(axis=axis, keepdims=keepdims)
    return (sizes ** ord).sum(axis=axis, keepdims=keepdims) ** (1.0 / ord)


_norm = by_numpy(_np.linalg.norm, "linalg.norm")


def inv(a):
    """The inverse matrix."""
    return _op("_linalg_inverse")(a)


def det(a):
    """The determinant."""
    return _op("_linalg_det")(a)


def slogdet(a):
    """Sign and logarithm of the determinant."""
    return tuple(_op("_linalg_slogdet")(a))


def cholesky(a):
    """The lower triangular root."""
    return _op("_linalg_potrf")(a)


def solve(a, b):
    """x with a @ x = b."""
    column = b.reshape(-1, 1) if b.ndim == 1 else b
    result = _op("_linalg_gemm2")(inv(a), column)
    return result.reshape(-1) if b.ndim == 1 else result


def eigh(a, UPLO="L"):
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    vectors, values = _op("_linalg_syevd")(a)
    return values, vectors.swapaxes(-1, -2)


def eigvalsh(a, UPLO="L"):
    """Eigenvalues of a symmetric matrix."""
    return eigh(a)[0]


def matrix_power(a, n):
    """A matrix multiplied by itself n times; negative n for the inverse."""
    base = inv(a) if n < 0 else a
    result = None
    for bit in reversed(bin(abs(n))[2:]):
        if bit == "1":
            result = base if result is None else _op("_linalg_gemm2")(result, base)
        base = _op("_linalg_gemm2")(base, base)
    return eye(a.shape[-1], dtype=a.dtype).broadcast_to(a.shape) if result is None else result


def multi_dot(arrays):
    """The product of several matrices."""
    result = arrays[0]
    for matrix in arrays[1:]:
        result = result.dot(matrix)
    return result


def svd(a):
    """(u, s, v) with a = u * s @ v, without the columns that do not matter."""
    return _svd(a, full_matrices=False)


_svd = by_numpy(_np.linalg.svd, "linalg.svd")
matrix_rank, pinv, lstsq, qr, eig, eigvals, cond, tensorinv, tensorsolve = (
    by_numpy(getattr(_np.linalg, name), f"linalg.{name}")
    for name in ("matrix_rank", "pinv", "lstsq", "qr", "eig", "eigvals", "cond", "tensorinv", "tensorsolve"))
