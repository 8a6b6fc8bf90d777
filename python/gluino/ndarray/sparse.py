"""mx.nd.sparse: arrays with MXNet's sparse interface. Values are stored densely; which of them count as stored is kept beside."""
import numpy as np

from .. import _core
from ..base import NotSupportedForSparseNDArray
from ..context import Context
from .ndarray import NDArray, array as _array, zeros as _zeros

__all__ = ["csr_matrix", "row_sparse_array", "zeros", "empty", "array", "retain", "dot", "cast_storage", "add", "subtract", "multiply", "divide",
           "BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray"]


class BaseSparseNDArray(NDArray):
    """What both kinds share. Operators take them as the dense arrays they stand for."""

    def __repr__(self):
        return f"\n<{type(self).__name__} {'x'.join(map(str, self.shape))} @{self.context}>"

    @property
    def stype(self):
        """The storage type: "csr" or "row_sparse"."""
        return self._STYPE

    @property
    def indices(self):
        """Columns of a csr matrix's elements, or the rows of a row_sparse array."""
        return _array(self._indices, ctx=self.context, dtype="int64")

    def tostype(self, stype):
        """The same values in another storage."""
        return cast_storage(self, stype)

    def todense(self):
        """The same values as a dense array."""
        return cast_storage(self, "default")

    @property
    def _sparse_parts(self):
        return self.data, [self.indptr, self.indices] if self.stype == "csr" else [self.indices]

    def attach_grad(self, grad_req="write", stype=None):
        """Makes room for a gradient, which is of the same kind unless `stype` says otherwise."""
        super().attach_grad(grad_req)
        self._grad_stype = stype or self.stype

    @property
    def grad(self):
        """The gradient that attach_grad() made room for, or None."""
        gradient = super().grad
        return None if gradient is None else gradient.tostype(getattr(self, "_grad_stype", "default"))

    def detach(self):
        """The same values, off the tape."""
        return self._with(super().detach())

    def astype(self, dtype, copy=True):
        """Another dtype."""
        return self._with(self.todense().astype(dtype))

    def copy(self):
        """A copy."""
        return self._with(self.todense())

    def __deepcopy__(self, memo):
        return self.copy()

    def as_in_context(self, context):
        """This array, or its copy on another device."""
        return self if context == self.context else self._with(self.todense().as_in_context(context))

    as_in_ctx = to_device = as_in_context

    def copyto(self, other):
        """Copies the values into another array, or to a device."""
        if isinstance(other, Context):
            return self._with(self.todense().as_in_context(other))
        super().copyto(other)
        if isinstance(other, BaseSparseNDArray):
            other._take_structure(self)
        return other

    def __setitem__(self, key, value):
        if key != slice(None):
            raise ValueError(f"assignment of a part is not supported for {self.stype} arrays; x[:] = y is")
        super().__setitem__(key, value)
        self._take_structure(value)

    def _take_structure(self, value):
        same = isinstance(value, BaseSparseNDArray) and value.stype == self.stype
        self.__dict__.update((value if same else cast_storage(self.todense(), self.stype)).__dict__)

    def _with(self, dense):
        """A sparse array of these values with this one's structure."""
        made = type(self)(dense)
        made.__dict__.update(self.__dict__)
        return made

    def reshape(self, *args, **kwargs):
        """Not supported: raises."""
        raise NotSupportedForSparseNDArray(f"reshape is not supported for {self.stype} arrays; call tostype('default') first")

    def check_format(self, full_check=True):
        """Raises when the structure is wrong; it is checked when the array is made."""

    def __reduce__(self):
        return _rebuilt, (self.asnumpy(), self.stype, self.__dict__)


def _rebuilt(values, stype, structure):
    made = _KINDS[stype](_array(values, dtype=values.dtype))
    made.__dict__.update(structure)
    return made


class CSRNDArray(BaseSparseNDArray):
    """A matrix of few elements, row by row."""

    _STYPE = "csr"

    @property
    def data(self):
        """The stored elements."""
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self._indptr))
        return _array(self.asnumpy()[rows, self._indices], ctx=self.context, dtype=self.dtype)

    @property
    def indptr(self):
        """Where each row's elements start, and the end of the last."""
        return _array(self._indptr, ctx=self.context, dtype="int64")

    def asscipy(self):
        """A scipy.sparse.csr_matrix."""
        from scipy.sparse import csr_matrix as scipy_matrix
        return scipy_matrix((self.data.asnumpy(), self._indices, self._indptr), shape=self.shape, dtype=self.dtype)

    def __getitem__(self, key):
        """Rows: a number or a slice of them."""
        if isinstance(key, int):
            if not -self.shape[0] <= key < self.shape[0]:
                raise IndexError(f"row {key} of a matrix with {self.shape[0]} rows")
            begin = key % self.shape[0]
            key = slice(begin, begin + 1)
        if not isinstance(key, slice) or key.step not in (None, 1):
            raise ValueError("a csr matrix is indexed by a row or a slice of rows")
        begin, end, _ = key.indices(self.shape[0])
        first, last = self._indptr[begin], self._indptr[max(begin, end)]
        return _made(CSRNDArray, self.todense()[begin:end], _indices=self._indices[first:last], _indptr=self._indptr[begin:max(begin, end) + 1] - first)


class RowSparseNDArray(BaseSparseNDArray):
    """An array of few rows."""

    _STYPE = "row_sparse"

    @property
    def data(self):
        """The stored rows."""
        return _array(self.asnumpy()[self._indices], ctx=self.context, dtype=self.dtype)

    def retain(self, indices):
        """These rows, zeros where they were not stored."""
        return retain(self, indices)

    def __getitem__(self, key):
        if key != slice(None):
            raise ValueError("a row_sparse array is indexed by [:] only")
        return self


_KINDS = {"csr": CSRNDArray, "row_sparse": RowSparseNDArray}


def _made(kind, dense, **structure):
    made = kind(dense)
    made.__dict__.update(structure)
    return made


def _numbers(x, dtype=None):
    return np.asarray(x.asnumpy() if isinstance(x, NDArray) else x, dtype)


def _dense(values, ctx, dtype, like=None):
    """A new dense array; float32 unless `dtype` or an array's own says otherwise."""
    return _array(values, ctx=ctx, dtype=dtype or (like.dtype if hasattr(like, "dtype") else "float32"))


def from_parts(dense, data, indices):
    """The sparse array of what a file stores: row_sparse has (indices), csr (indptr, indices)."""
    if len(indices) == 1:
        return _made(RowSparseNDArray, dense, _indices=_numbers(indices[0], "int64"))
    return _made(CSRNDArray, dense, _indptr=_numbers(indices[0], "int64"), _indices=_numbers(indices[1], "int64"))


def row_sparse_view(dense):
    """A row_sparse array that shares the memory of a dense one: what is written into it is seen there."""
    values = dense.asnumpy()
    return _made(RowSparseNDArray, dense, _indices=np.flatnonzero(values.reshape(len(values), -1).any(axis=1)).astype("int64"))


def cast_storage(data, stype):
    """The same values as "default", "csr" or "row_sparse"."""
    if stype == "default":
        return _core.as_flavour(data, False).copy() if isinstance(data, BaseSparseNDArray) else data
    if stype not in _KINDS:
        raise ValueError(f"no storage type is named {stype!r}; there are default, csr and row_sparse")
    if isinstance(data, _KINDS[stype]):
        return data
    if isinstance(data, BaseSparseNDArray):
        raise NotSupportedForSparseNDArray(f"{data.stype} cannot become {stype} directly; call tostype('default') first")
    if stype == "row_sparse":
        return row_sparse_view(data.copy())
    values = data.asnumpy()
    if values.ndim != 2:
        raise ValueError(f"a csr matrix has two axes, not {values.ndim}")
    rows, columns = values.nonzero()
    return _made(CSRNDArray, data.copy(), _indices=columns.astype("int64"), _indptr=np.searchsorted(rows, np.arange(len(values) + 1)))


def csr_matrix(arg1, shape=None, ctx=None, dtype=None):
    """From an array, a scipy matrix, (data, indices, indptr), (data, (row, column)) or (rows, columns) for an empty one."""
    if isinstance(arg1, tuple) and len(arg1) == 2 and isinstance(arg1[1], (tuple, list)):
        data, (rows, columns) = _numbers(arg1[0]), (_numbers(part, "int64") for part in arg1[1])
        order = np.lexsort((columns, rows))
        count = shape[0] if shape else int(rows.max()) + 1
        return csr_matrix((data[order], columns[order], np.searchsorted(rows[order], np.arange(count + 1))), shape, ctx, dtype or _dtype_of(arg1[0]))
    if isinstance(arg1, tuple) and len(arg1) == 2:
        return zeros("csr", arg1, ctx, dtype)
    if isinstance(arg1, tuple) and len(arg1) == 3:
        data, indices, indptr = _numbers(arg1[0]), _numbers(arg1[1], "int64"), _numbers(arg1[2], "int64")
        shape = shape or (len(indptr) - 1, int(indices.max()) + 1 if indices.size else 0)
        if len(indptr) != shape[0] + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] != len(indices) or len(data) != len(indices):
            raise ValueError(f"{len(data)} values, {len(indices)} indices and {len(indptr)} row pointers do not make a csr matrix of shape {shape}")
        if indices.size and not 0 <= indices.min() <= indices.max() < shape[1]:
            raise ValueError(f"column {indices.max()} of a csr matrix of shape {shape}")
        rows = np.repeat(np.arange(shape[0]), np.diff(indptr))
        values = np.zeros(shape, data.dtype)
        np.add.at(values, (rows, indices), data)  # a column that comes twice counts twice
        if len(np.unique(rows * shape[1] + indices)) < len(indices):
            places = np.unique(rows * shape[1] + indices)
            rows, indices = places // shape[1], places % shape[1]
            indptr = np.searchsorted(rows, np.arange(shape[0] + 1))
        return _made(CSRNDArray, _dense(values, ctx, dtype or _dtype_of(arg1[0])), _indices=indices, _indptr=indptr)
    if hasattr(arg1, "tocsr"):
        matrix = arg1.tocsr()
        return csr_matrix((matrix.data, matrix.indices, matrix.indptr), matrix.shape, ctx, dtype or matrix.dtype)
    if isinstance(arg1, CSRNDArray):
        return arg1.copy() if dtype is None else arg1.astype(dtype)
    return _dense(arg1, ctx, dtype, arg1).tostype("csr")


def _dtype_of(x):
    return x.dtype if hasattr(x, "dtype") else None


def row_sparse_array(arg1, shape=None, ctx=None, dtype=None):
    """From an array, (rows, their numbers), or a shape for an empty one."""
    if isinstance(arg1, tuple) and all(isinstance(extent, int) for extent in arg1):
        return zeros("row_sparse", arg1, ctx, dtype)
    if isinstance(arg1, tuple) and len(arg1) == 2:
        data, indices = _numbers(arg1[0]), _numbers(arg1[1], "int64")
        shape = shape or (int(indices.max()) + 1 if indices.size else 0, *data.shape[1:])
        if len(data) != len(indices) or (indices.size and not 0 <= indices.min() <= indices.max() < shape[0]):
            raise ValueError(f"{len(data)} rows with {len(indices)} numbers do not make a row_sparse array of shape {shape}")
        order = np.argsort(indices, kind="stable")
        values = np.zeros(shape, data.dtype)
        values[indices] = data
        return _made(RowSparseNDArray, _dense(values, ctx, dtype or _dtype_of(arg1[0])), _indices=indices[order])
    if isinstance(arg1, RowSparseNDArray):
        return arg1.copy() if dtype is None else arg1.astype(dtype)
    return _dense(arg1, ctx, dtype, arg1).tostype("row_sparse")


def array(source_array, ctx=None, dtype=None):
    """A copy of a sparse array or of a scipy matrix."""
    if isinstance(source_array, BaseSparseNDArray):
        copy = source_array.copy() if dtype is None else source_array.astype(dtype)
        return copy if ctx is None else copy.as_in_context(ctx)
    if hasattr(source_array, "tocsr"):
        return csr_matrix(source_array, ctx=ctx, dtype=dtype)
    raise ValueError("a sparse array or a scipy matrix is needed; mx.nd.array takes dense ones")


def zeros(stype, shape, ctx=None, dtype=None, **kwargs):
    """Zeros, none of which is stored."""
    return _zeros(shape, ctx=ctx, dtype=dtype).tostype(stype)


empty = zeros


def retain(data, indices):
    """These rows of a row_sparse array, zeros where they were not stored."""
    if not isinstance(data, RowSparseNDArray):
        raise TypeError("retain needs a row_sparse array")
    wanted = np.unique(_numbers(indices, "int64"))
    values = np.zeros(data.shape, data.dtype)
    values[wanted] = data.asnumpy()[wanted]
    return row_sparse_array((values[wanted], wanted), data.shape, data.context, data.dtype)


def dot(lhs, rhs, transpose_a=False, transpose_b=False, forward_stype=None):
    """The product of matrices; dense unless `forward_stype` says otherwise."""
    from . import dot as product
    return product(lhs, rhs, transpose_a=transpose_a, transpose_b=transpose_b).tostype(forward_stype or "default")


def _elementwise(name):
    def function(lhs, rhs):
        from .. import ndarray as nd
        result = getattr(nd, name)(lhs, rhs)
        kinds = {x.stype for x in (lhs, rhs) if isinstance(x, NDArray)}
        return result.tostype(kinds.pop()) if len(kinds) == 1 and (kinds != {"default"}) else result
    function.__name__, function.__doc__ = name, f"mx.nd.{name}; sparse when both are of one sparse kind."
    return function


add, subtract, multiply, divide = (_elementwise(name) for name in ("add", "subtract", "multiply", "divide"))


def __getattr__(name):
    """Other operators are those of mx.nd, with dense results."""
    from .. import ndarray as nd
    return getattr(nd, name)
