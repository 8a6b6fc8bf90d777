"""mx.np.linalg."""
import numpy as _np

from .multiarray import _op, array

__all__ = ["norm", "inv", "det", "slogdet", "cholesky", "solve", "svd", "eigh", "eigvalsh", "matrix_rank", "pinv", "lstsq"]


def norm(x, ord=None, axis=None, keepdims=False):
    """The Euclidean norm, or that of another order."""
    if ord in (None, 2, "fro") and not (ord == 2 and axis is None and x.ndim > 1):
        return _op("sqrt")((x * x).sum(axis=axis, keepdims=keepdims))
    if ord == 1 and axis is not None:
        return _op("sum")(_op("abs")(x), axis=axis, keepdims=keepdims)
    return array(_np.linalg.norm(x.asnumpy(), ord, axis, keepdims), dtype=x.dtype)


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


def _by_numpy(name):
    def function(*args, **kwargs):
        plain = [a.asnumpy() if hasattr(a, "asnumpy") else a for a in args]
        result = getattr(_np.linalg, name)(*plain, **kwargs)
        return tuple(map(array, result)) if isinstance(result, tuple) else array(result)
    function.__name__, function.__doc__ = name, f"numpy.linalg.{name}; not differentiable."
    return function


svd, matrix_rank, pinv, lstsq = (_by_numpy(name) for name in ("svd", "matrix_rank", "pinv", "lstsq"))
