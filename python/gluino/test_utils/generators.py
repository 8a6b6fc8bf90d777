"""Random arrays and shapes."""
import random

import numpy as np

from .. import ndarray as nd
from ..ndarray import sparse

__all__ = ["rand_shape_nd", "rand_shape_2d", "rand_shape_3d", "rand_coord_2d", "rand_ndarray", "rand_sparse_ndarray", "random_arrays", "random_sample",
           "random_uniform_arrays", "create_sparse_array", "create_sparse_array_zd", "create_2d_tensor", "create_vector", "shuffle_csr_column_indices",
           "get_identity_mat", "get_identity_mat_batch", "new_matrix_with_real_eigvals_2d", "new_matrix_with_real_eigvals_nd",
           "new_orthonormal_matrix_2d", "new_sym_matrix_with_real_eigvals_2d", "new_sym_matrix_with_real_eigvals_nd"]


def rand_shape_nd(num_dim, dim=10, allow_zero_size=False):
    """A random shape."""
    return tuple(np.random.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim).tolist())


def rand_shape_2d(dim0=10, dim1=10, allow_zero_size=False):
    """A random shape of two axes."""
    return tuple(int(np.random.randint(0 if allow_zero_size else 1, d + 1)) for d in (dim0, dim1))


def rand_shape_3d(dim0=10, dim1=10, dim2=10, allow_zero_size=False):
    """A random shape of three axes."""
    return tuple(int(np.random.randint(0 if allow_zero_size else 1, d + 1)) for d in (dim0, dim1, dim2))


def rand_coord_2d(x_low, x_high, y_low, y_high):
    """A random place."""
    return np.random.randint(x_low, x_high, dtype=np.int64), np.random.randint(y_low, y_high, dtype=np.int64)


def random_sample(population, k):
    """k different items, in a random order."""
    return random.sample(list(population), k)


def random_arrays(*shapes):
    """Random NumPy arrays of the default dtype."""
    made = [np.array(np.random.randn(), dtype=np.float32) if not s else np.random.randn(*s).astype(np.float32) for s in shapes]
    return made[0] if len(made) == 1 else made


def random_uniform_arrays(*shapes, **kwargs):
    """Random arrays between low and high."""
    low, high, dtype = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0), kwargs.pop("dtype", np.float32)
    if kwargs:
        raise TypeError(f"Got unexpected argument/s : {list(kwargs)}")
    return [np.random.uniform(low, high, size=s).astype(dtype) for s in shapes]


def shuffle_csr_column_indices(csr):
    """Puts the columns of each row of a scipy matrix into a random order."""
    for begin, end in zip(csr.indptr, csr.indptr[1:]):
        np.random.shuffle(csr.indices[begin:end])


def _chosen(total, density):
    """Numbers below `total`, each with this probability, in order. The time is that of the chosen ones, where they are few."""
    count = np.random.binomial(total, density)
    if 4 * count > total:
        return np.sort(np.random.permutation(total)[:count])
    found = np.empty(0, np.int64)
    while found.size < count:
        found = np.unique(np.concatenate([found, np.random.randint(0, total, count - found.size)]))
    return found


def _stored(shape, density, distribution):
    """(rows, columns) of the elements that a matrix stores, in order."""
    if distribution == "powerlaw":  # every row has twice as many as the one before
        counts = [min(2 ** min(row, 62), shape[1]) for row in range(shape[0])]
        return np.repeat(np.arange(shape[0]), counts), np.concatenate([np.arange(count) for count in counts] or [np.empty(0, np.int64)])
    return np.divmod(_chosen(shape[0] * shape[1], density), max(shape[1], 1))


def rand_sparse_ndarray(shape, stype, density=None, dtype=None, distribution=None, data_init=None, rsp_indices=None, modifier_func=None,
                        shuffle_csr_indices=False, ctx=None):
    """A random sparse array, and the arrays that it stores."""
    if distribution not in (None, "uniform", "powerlaw"):
        raise AssertionError(f"Distribution not supported: {distribution}")
    dtype = np.float32 if dtype is None else dtype
    density = np.random.rand() if density is None else density

    def values(shape):
        made = np.random.uniform(0, 1, shape) if data_init is None else np.full(shape, data_init, "float64")
        return (made if modifier_func is None or not made.size else np.vectorize(modifier_func)(made)).astype(dtype)
    if stype == "row_sparse":
        if distribution == "powerlaw":
            raise AssertionError("Distribution powerlaw not supported for row_sparse")
        rows = _chosen(shape[0], density) if rsp_indices is None else np.asarray(rsp_indices, np.int64)
        stored = values((len(rows), *shape[1:]))
        return sparse.row_sparse_array((stored, rows), shape=shape, ctx=ctx, dtype=dtype), (stored, rows)
    if stype != "csr":
        raise AssertionError(f"unknown storage type {stype}")
    rows, columns = _stored(shape, density, distribution)
    begins = np.searchsorted(rows, np.arange(shape[0] + 1))
    if shuffle_csr_indices:
        for begin, end in zip(begins, begins[1:]):
            np.random.shuffle(columns[begin:end])
    array = sparse.csr_matrix((values(len(rows)), columns, begins), shape=shape, ctx=ctx, dtype=dtype)
    return array, (array.indptr, array.indices, array.data)


def rand_ndarray(shape, stype="default", density=None, dtype=None, modifier_func=None, shuffle_csr_indices=False, distribution=None, ctx=None):
    """A random array: normal numbers, or a sparse one with numbers from 0 to 1."""
    if stype != "default":
        return rand_sparse_ndarray(shape, stype, density, dtype, distribution, modifier_func=modifier_func, shuffle_csr_indices=shuffle_csr_indices, ctx=ctx)[0]
    return nd.array(random_arrays(tuple(shape)), ctx=ctx, dtype=dtype)


def create_sparse_array(shape, stype, data_init=None, rsp_indices=None, dtype=None, modifier_func=None, density=0.5, shuffle_csr_indices=False):
    """A sparse array with some elements; its rows are in order."""
    rsp_indices = None if rsp_indices is None else np.sort(rsp_indices)
    return rand_sparse_ndarray(shape, stype, density, dtype, None, data_init, rsp_indices, modifier_func, shuffle_csr_indices)[0]


def create_sparse_array_zd(shape, stype, density, data_init=None, rsp_indices=None, dtype=None, modifier_func=None, shuffle_csr_indices=False):
    """A sparse array; one of rows has those of rsp_indices alone, or none."""
    return create_sparse_array(shape, stype, data_init, rsp_indices, dtype, modifier_func, 0.0 if stype == "row_sparse" else density, shuffle_csr_indices)


def create_2d_tensor(rows, columns, dtype=np.int64):
    """Rows of their own numbers."""
    return nd.broadcast_to(nd.arange(0, rows, dtype=dtype).reshape(rows, 1), shape=(rows, columns))


def create_vector(size, dtype=np.int64):
    """0, 1, 2, ..."""
    return nd.arange(0, size, dtype=dtype)


# ---- matrices

def get_identity_mat(size):
    """The unit matrix."""
    return nd.eye(size)


def get_identity_mat_batch(size):
    """Two unit matrices."""
    return nd.array(np.stack([np.eye(size)] * 2))


def new_orthonormal_matrix_2d(n):
    """A random matrix whose columns are orthogonal and of length 1."""
    return np.linalg.qr(np.random.uniform(-1, 1, (n, n)))[0]


def new_matrix_with_real_eigvals_2d(n):
    """A random matrix with real eigenvalues between -10 and 10, whose eigenvectors are far from dependent."""
    vectors = new_orthonormal_matrix_2d(n) * np.random.uniform(0.4, 1, n)  # their condition is at most 2.5
    return np.linalg.solve(vectors, np.random.uniform(-10, 10, n)[:, None] * vectors)


def new_sym_matrix_with_real_eigvals_2d(n):
    """A random symmetric matrix."""
    q = new_orthonormal_matrix_2d(n)
    return q.T * np.random.uniform(-10, 10, n) @ q


def _many(shape, make):
    return np.stack([make(shape[-1]) for _ in range(int(np.prod(shape[:-2], dtype=int)))]).reshape(shape)


def new_matrix_with_real_eigvals_nd(shape):
    """Such matrices in the last two axes."""
    return _many(shape, new_matrix_with_real_eigvals_2d)


def new_sym_matrix_with_real_eigvals_nd(shape):
    """Symmetric matrices in the last two axes."""
    return _many(shape, new_sym_matrix_with_real_eigvals_2d)
