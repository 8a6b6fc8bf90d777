"""mx.nd.sparse: arrays that store few rows (row_sparse) or few elements (csr) of what they stand for.

An operator that knows no sparse arrays takes them as the dense ones they stand for; that is made then, and kept in step.
"""
import numpy as np

from .. import _core
from ..base import NotSupportedForSparseNDArray, dtype_name
from ..context import Context, current_context, engine_device
from .ndarray import NDArray, array as _array

__all__ = ["csr_matrix", "row_sparse_array", "zeros", "empty", "array", "retain", "dot", "cast_storage", "add", "subtract", "multiply", "divide",
           "BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray"]


class BaseSparseNDArray(NDArray):
    """What both kinds share: `_stored` has the elements and where they stand, (data, indices) or (data, indices, indptr)."""

    _seen = None  # how often the dense form, where there is one, had been written when `_stored` was right
    _leaf = None  # whose gradient this is, where that keeps rows

    def __repr__(self):
        return f"\n<{type(self).__name__} {'x'.join(map(str, self.shape))} @{self.context}>"

    @property
    def stype(self):
        """The storage type: "csr" or "row_sparse"."""
        return self._STYPE

    # ---- what is stored, and the dense form

    @property
    def _parts(self):
        writes = _core.dense_writes(self)
        if writes >= 0 and writes != self._seen:  # an operator has changed the dense form
            self._stored, self._seen = self._stored_of(_core.asnumpy(self), self.context), writes
        return self._stored

    def _as_dense(self):
        """The library asks for it when an operator needs memory."""
        dense = _array(self._to_numpy(), ctx=self.context, dtype=self._dtype_name)
        self._seen = _core.dense_writes(dense)
        return dense

    def _put(self, stored):
        """Other elements. Who watches the dense form, such as the tape, sees them there."""
        if _core.dense_writes(self) >= 0:
            super().__setitem__(slice(None), _made(type(self), self.shape, self.context, *stored).todense())
            self._seen = _core.dense_writes(self)
        if self._leaf is not None:
            _core.set_row_gradient(self._leaf, _array(stored[1], ctx=self.context, dtype="int64"), stored[0])
            stored = _core.row_gradient(self._leaf)[1], stored[1]
        self._stored = stored

    @property
    def data(self):
        """The stored elements of a csr matrix, or the stored rows of a row_sparse array."""
        return self._parts[0]

    @property
    def indices(self):
        """Columns of a csr matrix's elements, or the rows of a row_sparse array."""
        return _array(self._parts[1], ctx=self.context, dtype="int64")

    @property
    def _sparse_parts(self):
        return self.data, [self.indptr, self.indices] if self.stype == "csr" else [self.indices]

    def asnumpy(self):
        """The values as a dense NumPy array."""
        return super().asnumpy() if _core.dense_writes(self) >= 0 else self._to_numpy()

    def tostype(self, stype):
        """The same values in another storage."""
        return cast_storage(self, stype)

    def todense(self):
        """The same values as a dense array."""
        return cast_storage(self, "default")

    # ---- gradients: a leaf is dense

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
        return self.copy()

    # ---- copies

    def _with(self, data, context=None):
        return _made(type(self), self.shape, context or self.context, data, *self._parts[1:])

    def astype(self, dtype, copy=True):
        """Another dtype."""
        return self._with(self.data.astype(dtype))

    def copy(self):
        """A copy."""
        return self._with(self.data.copy())

    def __deepcopy__(self, memo):
        return self.copy()

    def as_in_context(self, context):
        """This array, or its copy on another device."""
        return self if context == self.context else self._with(self.data.as_in_context(context), context)

    as_in_ctx = to_device = as_in_context

    def copyto(self, other):
        """Copies the values into another array, or to a device."""
        if isinstance(other, Context):
            return self._with(self.data.copyto(other), other)
        if not isinstance(other, BaseSparseNDArray) or other.stype != self.stype:
            return super().copyto(other)
        if other.shape != self.shape:
            raise ValueError(f"shapes do not fit: {self.shape} cannot be copied into {other.shape}")
        other._put((self.data.astype(other.dtype).copyto(other.context), *self._parts[1:]))
        return other

    def __setitem__(self, key, value):
        if key != slice(None):
            raise ValueError(f"assignment of a part is not supported for {self.stype} arrays; x[:] = y is")
        if isinstance(value, NDArray) and value.stype == self.stype:
            value.copyto(self)
        elif not isinstance(value, NDArray) and np.ndim(value) == 0 and value == 0:
            zeros(self.stype, self.shape, self.context, self.dtype).copyto(self)
        else:
            dense = _array(np.broadcast_to(value.asnumpy() if isinstance(value, NDArray) else value, self.shape), dtype=self.dtype)
            cast_storage(dense, self.stype).copyto(self)

    # ---- arithmetic: what leaves zeros zero changes what is stored alone

    def __mul__(self, other):
        return multiply(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other):
        return divide(self, other)

    def __add__(self, other):
        return add(self, other)

    __radd__ = __add__

    def __sub__(self, other):
        return subtract(self, other)

    def _updated(self, value):
        self[:] = value
        return self

    def __imul__(self, other):
        return self._updated(self * other)

    def __itruediv__(self, other):
        return self._updated(self / other)

    def __iadd__(self, other):
        return self._updated(add(self, other))

    def __isub__(self, other):
        return self._updated(subtract(self, other))

    def dot(self, other, transpose_a=False, transpose_b=False):
        """The product of matrices."""
        return dot(self, other, transpose_a, transpose_b)

    def reshape(self, *args, **kwargs):
        """Not supported: raises."""
        raise NotSupportedForSparseNDArray(f"reshape is not supported for {self.stype} arrays; call tostype('default') first")

    def check_format(self, full_check=True):
        """Raises when the structure is wrong; it is checked when the array is made."""

    def __reduce__(self):
        data, *places = self._parts
        return _rebuilt, (self.stype, self.shape, self._dtype_name, data.asnumpy(), places)


def _rebuilt(stype, shape, dtype, data, places):
    return _made(_KINDS[stype], shape, current_context(), _array(data, dtype=dtype), *places)


class CSRNDArray(BaseSparseNDArray):
    """A matrix of few elements, row by row."""

    _STYPE = "csr"

    @staticmethod
    def _stored_of(values, context):
        if values.ndim != 2:
            raise ValueError(f"a csr matrix has two axes, not {values.ndim}")
        rows, columns = values.nonzero()
        return (_array(values[rows, columns], ctx=context, dtype=values.dtype), columns.astype("int64"),
                np.searchsorted(rows, np.arange(len(values) + 1)).astype("int64"))

    def _to_numpy(self):
        values = np.zeros(self.shape, self.dtype)
        np.add.at(values, (self._rows, self._stored[1]), self._stored[0].asnumpy())  # a column that comes twice counts twice
        return values

    @property
    def _rows(self):
        return np.repeat(np.arange(self.shape[0]), np.diff(self._parts[2]))

    @property
    def indptr(self):
        """Where each row's elements start, and the end of the last."""
        return _array(self._parts[2], ctx=self.context, dtype="int64")

    def take_rows(self, rows):
        """These rows, in this order."""
        (data, indices, indptr), rows = self._parts, np.asarray(rows, "int64")
        counts = np.diff(indptr)[rows]
        ends = np.concatenate([[0], np.cumsum(counts)]).astype("int64")
        places = np.arange(ends[-1]) - np.repeat(ends[:-1] - indptr[rows], counts)
        picked = _array(data.asnumpy()[places], ctx=self.context, dtype=self._dtype_name)
        return _made(CSRNDArray, (len(rows), self.shape[1]), self.context, picked, indices[places], ends)

    def asscipy(self):
        """A scipy.sparse.csr_matrix."""
        from scipy.sparse import csr_matrix as scipy_matrix
        data, indices, indptr = self._parts
        return scipy_matrix((data.asnumpy(), indices, indptr), shape=self.shape, dtype=self.dtype)

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
        end = max(begin, end)
        data, indices, indptr = self._parts
        first, last = int(indptr[begin]), int(indptr[end])
        picked = data[first:last] if last > first else _array(np.zeros(0, self.dtype), ctx=self.context, dtype=self.dtype)
        return _made(CSRNDArray, (end - begin, self.shape[1]), self.context, picked, indices[first:last], indptr[begin:end + 1] - first)


class RowSparseNDArray(BaseSparseNDArray):
    """An array of few rows."""

    _STYPE = "row_sparse"
    _stored = None

    @staticmethod
    def _rows_that_count(values):
        return np.flatnonzero(values.reshape(len(values), -1).any(axis=1)).astype("int64")

    def _stored_of(self, values, context):
        rows = self._rows_that_count(values)
        if self._stored is not None:  # what was stored stays so, zeros too
            rows = np.union1d(rows, self._stored[1]).astype("int64")
        return _array(values[rows], ctx=context, dtype=values.dtype), rows

    def _to_numpy(self):
        values = np.zeros(self.shape, self.dtype)
        values[self._stored[1]] = self._stored[0].asnumpy()
        return values

    def retain(self, indices):
        """These rows, zeros where they were not stored."""
        return retain(self, indices)

    def __getitem__(self, key):
        if key != slice(None):
            raise ValueError("a row_sparse array is indexed by [:] only")
        return self


_KINDS = {"csr": CSRNDArray, "row_sparse": RowSparseNDArray}


def _made(kind, shape, context, data, *places):
    made = _core.new_sparse(kind, tuple(shape), data._dtype_name, engine_device(context))
    made._stored = data, *places
    return made


def _numbers(x, dtype=None):
    return np.asarray(x.asnumpy() if isinstance(x, NDArray) else x, dtype)


def _dense(values, ctx, dtype, like=None):
    """A new dense array; float32 unless `dtype` or an array's own says otherwise."""
    return _array(values, ctx=ctx, dtype=dtype or (like.dtype if hasattr(like, "dtype") else "float32"))


def from_parts(form, data, indices):
    """The sparse array of what a file stores: row_sparse has (indices), csr (indptr, indices); `form` is (shape, dtype)."""
    places = [_numbers(part, "int64") for part in reversed(indices)]
    return _made(RowSparseNDArray if len(places) == 1 else CSRNDArray, form[0], data.context, data, *places)


def row_sparse_view(dense):
    """A row_sparse array that shares the memory of a dense one: what is written into it is seen there."""
    return dense if isinstance(dense, RowSparseNDArray) else RowSparseNDArray(dense)


def gradient_of(leaf):
    """The gradient of an array that keeps the rows of it alone; what is written into it is what is learnt from."""
    rows, values = _core.row_gradient(leaf)
    made = _made(RowSparseNDArray, leaf.shape, leaf.context, values, rows.asnumpy())
    made._leaf = leaf
    return made


def cast_storage(data, stype):
    """The same values as "default", "csr" or "row_sparse"."""
    if stype == "default":
        if not isinstance(data, BaseSparseNDArray):
            return data
        return _core.as_flavour(data, False).copy() if _core.dense_writes(data) >= 0 else _array(data._to_numpy(), ctx=data.context, dtype=data._dtype_name)
    if stype not in _KINDS:
        raise ValueError(f"no storage type is named {stype!r}; there are default, csr and row_sparse")
    if isinstance(data, _KINDS[stype]):
        return data
    if isinstance(data, BaseSparseNDArray):
        raise NotSupportedForSparseNDArray(f"{data.stype} cannot become {stype} directly; call tostype('default') first")
    if _core.is_recording():
        return _KINDS[stype](data.copy())  # what is stored is looked up in the dense form, which the tape knows
    values = data.asnumpy()
    if stype == "csr":
        return _made(CSRNDArray, data.shape, data.context, *CSRNDArray._stored_of(values, data.context))
    rows = RowSparseNDArray._rows_that_count(values)
    return _made(RowSparseNDArray, data.shape, data.context, _array(values[rows], ctx=data.context, dtype=data._dtype_name), rows)


def csr_matrix(arg1, shape=None, ctx=None, dtype=None):
    """From an array, a scipy matrix, (data, indices, indptr), (data, (row, column)) or (rows, columns) for an empty one."""
    if isinstance(arg1, tuple) and len(arg1) == 2 and isinstance(arg1[1], (tuple, list)):
        data, (rows, columns) = _numbers(arg1[0]), (_numbers(part, "int64") for part in arg1[1])
        order = np.lexsort((columns, rows))
        count = shape[0] if shape else int(rows.max()) + 1
        pointers = np.searchsorted(rows[order], np.arange(count + 1))
        return csr_matrix((data[order], columns[order], pointers), shape, ctx, dtype or _dtype_of(arg1[0]) or "float32")
    if isinstance(arg1, tuple) and len(arg1) == 2:
        return zeros("csr", arg1, ctx, dtype)
    if isinstance(arg1, tuple) and len(arg1) == 3:
        data, indices, indptr = _numbers(arg1[0]), _numbers(arg1[1], "int64"), _numbers(arg1[2], "int64")
        shape = shape or (len(indptr) - 1, int(indices.max()) + 1 if indices.size else 0)
        if len(indptr) != shape[0] + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] != len(indices) or len(data) != len(indices):
            raise ValueError(f"{len(data)} values, {len(indices)} indices and {len(indptr)} row pointers do not make a csr matrix of shape {shape}")
        if indices.size and not 0 <= indices.min() <= indices.max() < shape[1]:
            raise ValueError(f"column {indices.max()} of a csr matrix of shape {shape}")
        places, back = np.unique(np.repeat(np.arange(shape[0]), np.diff(indptr)) * shape[1] + indices, return_inverse=True)
        if len(places) < len(indices):  # a column that comes twice counts twice
            summed = np.zeros(len(places), data.dtype)
            np.add.at(summed, back, data)
            data, indices, indptr = summed, places % shape[1], np.searchsorted(places // shape[1], np.arange(shape[0] + 1)).astype("int64")
        return _made(CSRNDArray, shape, ctx or current_context(), _dense(data, ctx, dtype or _dtype_of(arg1[0])), indices, indptr)
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
        data, indices = _numbers(arg1[0]), _numbers(arg1[1], "int64").reshape(-1)
        shape = shape or (int(indices.max()) + 1 if indices.size else 0, *data.shape[1:])
        if len(data) != len(indices) or (indices.size and not 0 <= indices.min() <= indices.max() < shape[0]):
            raise ValueError(f"{len(data)} rows with {len(indices)} numbers do not make a row_sparse array of shape {shape}")
        rows, last = np.unique(indices[::-1], return_index=True)  # of rows that come twice the last one counts
        kept = _dense(data[::-1][last].reshape(len(rows), *shape[1:]), ctx, dtype or _dtype_of(arg1[0]))
        return _made(RowSparseNDArray, shape, ctx or current_context(), kept, rows)
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
    from .ndarray import zeros as dense_zeros
    if stype == "default":
        return dense_zeros(shape, ctx=ctx, dtype=dtype)
    if stype not in _KINDS:
        raise ValueError(f"no storage type is named {stype!r}; there are default, csr and row_sparse")
    shape, name, none = (shape,) if isinstance(shape, int) else tuple(shape), dtype_name(dtype or "float32"), np.zeros(0, "int64")
    if stype == "row_sparse":
        return _made(RowSparseNDArray, shape, ctx or current_context(), _array(np.zeros((0, *shape[1:]), name), ctx=ctx, dtype=name), none)
    if len(shape) != 2:
        raise ValueError(f"a csr matrix has two axes, not {len(shape)}")
    return _made(CSRNDArray, shape, ctx or current_context(), _array(np.zeros(0, name), ctx=ctx, dtype=name), none, np.zeros(shape[0] + 1, "int64"))


empty = zeros


def retain(data, indices):
    """These rows of a row_sparse array, zeros where they were not stored."""
    if not isinstance(data, RowSparseNDArray):
        raise TypeError("retain needs a row_sparse array")
    wanted, (stored, rows) = np.unique(_numbers(indices, "int64")), data._parts
    kept = np.zeros((len(wanted), *data.shape[1:]), data.dtype)
    _, here, there = np.intersect1d(wanted, rows, assume_unique=True, return_indices=True)
    kept[here] = stored.asnumpy()[there]
    return _made(RowSparseNDArray, data.shape, data.context, _array(kept, ctx=data.context, dtype=data.dtype), wanted)


def rows_of(table, indices):
    """These rows of a dense or row_sparse array, as a row_sparse one; nothing else of it is copied."""
    if isinstance(table, RowSparseNDArray):
        return retain(table, indices)
    from . import take
    wanted = np.unique(_numbers(indices, "int64"))
    return _made(RowSparseNDArray, table.shape, table.context, take(table.detach(), _array(wanted, ctx=table.context, dtype="int64")), wanted)


def dot(lhs, rhs, transpose_a=False, transpose_b=False, forward_stype=None):
    """The product of matrices."""
    from .. import ndarray as nd
    return nd.dot(lhs, rhs, transpose_a, transpose_b, forward_stype)


def __getattr__(name):
    """Other operators are those of mx.nd."""
    from .. import ndarray as nd
    return getattr(nd, name)


# At the end, because it needs the classes above.
from ._storage import add, divide, multiply, subtract  # noqa: E402,F401
