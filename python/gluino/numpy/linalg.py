"""mx.np.linalg."""
import numpy as _np

from .fallback import by_numpy
from .. import _core
from .functions import moveaxis, where as _where
from .multiarray import _op, eye

_binary = _core.binary_functions
__all__ = ["norm", "inv", "det", "slogdet", "cholesky", "solve", "svd", "eigh", "eigvalsh", "matrix_rank",
           "pinv", "lstsq", "qr", "eig", "eigvals", "cond", "tensorinv", "tensorsolve", "matrix_power", "multi_dot"]


def norm(x, ord=None, axis=None, keepdims=False):
    """The Euclidean norm, or that of another order: of vectors along one axis, of matrices along two."""
    if not _np.issubdtype(x.dtype, _np.floating):
        x = x.astype("float32")
    ord = {"inf": _np.inf, "-inf": -_np.inf}.get(ord, ord)
    if ord == "fro" and (x.ndim != 2 if axis is None else isinstance(axis, int)):
        raise ValueError("Invalid norm order 'fro' for vectors")
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
    if ord not in (2, -2, "nuc"):
        raise ValueError(f"Invalid norm order {ord!r} for matrices.")
    values = svd(moveaxis(x, (rows, columns), (-2, -1)))[1]
    found = values.sum(axis=-1) if ord == "nuc" else values.max(axis=-1) if ord > 0 else values.min(axis=-1)
    return found.reshape([1 if i in (rows, columns) else extent for i, extent in enumerate(x.shape)]) if keepdims else found


def _vector_norm(sizes, ord, axis, keepdims):
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order {ord!r} for vectors")
    if ord in (_np.inf, -_np.inf):
        return (sizes.max if ord > 0 else sizes.min)(axis=axis, keepdims=keepdims)
    if ord == 0:
        return (sizes != 0).astype(sizes.dtype).sum(axis=axis, keepdims=keepdims)
    return (sizes ** ord).sum(axis=axis, keepdims=keepdims) ** (1.0 / ord)


def inv(a):
    """The inverse matrix."""
    return _op("_linalg_inverse")(a)


def det(a):
    """The determinant."""
    return _op("_npi_det")(a)


def slogdet(a):
    """Sign and logarithm of the determinant."""
    return tuple(_op("_npi_slogdet")(a))


def cholesky(a):
    """The lower triangular root."""
    return _op("_linalg_potrf")(a)


def solve(a, b):
    """x with a @ x = b."""
    if b.ndim == a.ndim - 1:
        column = _op("_npi_solve")(a, b._call("expand_dims", axis=-1))
        return column._call("Reshape", shape=tuple(b.shape))
    return _op("_npi_solve")(a, b)


def tensorsolve(a, b, axes=None):
    """x with tensordot(a, x, x.ndim) = b."""
    if axes is not None:
        a = a.transpose([*(i for i in range(a.ndim) if i not in [x % a.ndim for x in axes]), *[x % a.ndim for x in axes]])
    left = tuple(a.shape[b.ndim:])
    size = int(_np.prod(left, dtype=int))
    if size != b.size:
        raise ValueError(f"tensorsolve: {size} unknowns for {b.size} equations")
    return solve(a.reshape((-1, size)), b.reshape(-1)).reshape(left)


def tensorinv(a, ind=2):
    """The inverse of the function x -> tensordot(a, x), whose result has `ind` axes."""
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    first, second = tuple(a.shape[:ind]), tuple(a.shape[ind:])
    size = int(_np.prod(second, dtype=int))
    return inv(a.reshape((-1, size))).reshape(second + first)


def eigh(a, UPLO="L"):
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    return tuple(_op("_npi_eigh")(a, UPLO=UPLO.upper()))


def eigvalsh(a, UPLO="L"):
    """Eigenvalues of a symmetric matrix."""
    return _op("_npi_eigvalsh")(a, UPLO=UPLO.upper())


def eig(a):
    """Eigenvalues and eigenvectors of a matrix whose eigenvalues are real."""
    return tuple(_op("_npi_eig")(a))


def eigvals(a):
    """Eigenvalues of a matrix whose eigenvalues are real."""
    return _op("_npi_eigvals")(a)


def pinv(a, rcond=1e-15, hermitian=False):
    """The pseudo-inverse; singular values below rcond times the greatest count as 0."""
    u, values, v = svd(a)
    # Less than the precision of the dtype cannot be told from 0.
    least = values.max(axis=-1, keepdims=True) * max(rcond, float(_np.finfo(a.dtype).eps) * max(a.shape[-2:]))
    kept = values > least
    by = _binary["multiply"](1.0 / _where(kept, values, 1.0), kept.astype(a.dtype))
    return _op("_linalg_gemm2")(v._call("SwapAxis", dim1=-1, dim2=-2) * by._call("expand_dims", axis=-2), u, transpose_b=True)


def matrix_rank(M, tol=None, hermitian=False):
    """How many singular values are greater than tol."""
    if M.ndim < 2:
        return (M != 0).any().astype("int64")
    values = svd(M)[1]
    if tol is None:
        tol = values.max(axis=-1, keepdims=True) * (float(_np.finfo(M.dtype).eps) * max(M.shape[-2:]))
    return (values > tol).astype("int64").sum(axis=-1)


def cond(x, p=None):
    """How much a matrix stretches at most, divided by how much at least."""
    if p in (None, 2, -2):
        values = svd(x)[1]
        ratio = values.max(axis=-1) / values.min(axis=-1)
        return 1.0 / ratio if p == -2 else ratio
    return norm(x, p, axis=(-2, -1)) * norm(inv(x), p, axis=(-2, -1))


def qr(a, mode="reduced"):
    """(q, r) with a = q @ r: orthonormal columns, and an upper triangle."""
    if mode != "reduced":
        raise NotImplementedError(f"qr: only mode='reduced' is supported, not {mode!r}")
    return tuple(_op("_npi_qr")(a))


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
    return tuple(_op("_npi_svd")(a))


lstsq = by_numpy(_np.linalg.lstsq, "linalg.lstsq")
