"""NDArray: the array of mx.nd, and the functions that make arrays."""
import numpy as _np

from .. import _core, _register
from ..base import ShapeError, as_dtype, dtype_name
from ..context import Context, engine_device, placed

__all__ = ["NDArray", "array", "empty", "zeros", "ones", "full", "arange", "linspace", "eye", "concatenate", "moveaxis", "waitall", "imdecode",
           "onehot_encode", "histogram", "split_v2", "true_divide", "power", "zeros_like", "ones_like", "shape_array", "fill_element_0index",
           "CachedOp"]

# The numbers that MXNet's C interface has for dtypes, storage and gradients, by which programs look names up.
_DTYPE_NP_TO_MX = {None: -1, _np.float32: 0, _np.float64: 1, _np.float16: 2, _np.uint8: 3, _np.int32: 4, _np.int8: 5, _np.int64: 6, _np.bool_: 7}
_DTYPE_MX_TO_NP = {number: dtype for dtype, number in _DTYPE_NP_TO_MX.items()}
_STORAGE_TYPE_UNDEFINED, _STORAGE_TYPE_DEFAULT, _STORAGE_TYPE_ROW_SPARSE, _STORAGE_TYPE_CSR = -1, 0, 1, 2
_STORAGE_TYPE_STR_TO_ID = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}
_STORAGE_TYPE_ID_TO_STR = {number: stype for stype, number in _STORAGE_TYPE_STR_TO_ID.items()}
_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}


def _int64_enabled():
    """Whether arrays may have more than 2^31 elements: always."""
    return True


def flat_shape(args, kwargs):
    """The shape of reshape(2, 3), reshape((2, 3)) and reshape(shape=(2, 3))."""
    if args and kwargs.get("shape"):
        raise ValueError("the shape was given twice")
    shape = kwargs.pop("shape", None) if not args else args[0] if len(args) == 1 else args
    if shape is None:
        raise ValueError("Shape must be provided.")
    return (shape,) if isinstance(shape, int) else tuple(shape)


class Readable:
    """Methods that arrays and traced values share; a Symbol outside of a trace refuses them."""

    __slots__ = ()
    __array_priority__ = 1000.0

    @property
    def dtype(self):
        """The element type, as NumPy's type."""
        return as_dtype(self._dtype_name)

    @property
    def context(self):
        """The device that the array lives on."""
        return Context("cpu", self._device_id)

    ctx = device = context

    @property
    def T(self):
        """The array with its axes in reverse order."""
        return self.transpose()

    @property
    def stype(self):
        """"default": arrays are dense."""
        self._dtype_name  # a Symbol outside of a trace has no stype either
        return "default"

    def asnumpy(self):
        """The values as a NumPy array. Inside a hybridized block it splits the program into segments."""
        return _core.asnumpy(self)

    def asscalar(self):
        """The value of an array with one element."""
        if self.size != 1:
            raise ValueError("The current array is not a scalar")
        return self.asnumpy().reshape(-1)[0]

    def item(self, *args):
        """One element as a Python number."""
        return self.asnumpy().item(*args)

    def tolist(self):
        """The values as nested lists."""
        return self.asnumpy().tolist()

    def __iter__(self):
        return (self[i] for i in range(len(self)))  # an array without axes is refused by iter() itself, which libraries ask

    def astype(self, dtype, copy=True):
        """The same values in another element type."""
        if not copy and self._dtype_name == dtype_name(dtype):
            return self
        return self._call("Cast", dtype=dtype_name(dtype))

    def reshape(self, *args, **kwargs):
        """A view of another shape; 0, -1, -2, -3, -4 as in MXNet."""
        shape = flat_shape(args, kwargs)
        return self._call("Reshape", shape=shape, reverse=kwargs.pop("reverse", False), **kwargs)

    def broadcast_to(self, shape):
        """The array repeated along axes of extent 1, and along new ones in front."""
        missing = len(shape) - self.ndim
        source = self.reshape((1,) * missing + tuple(self.shape)) if missing > 0 else self
        return source._call("broadcast_to", shape=shape)

    def split_v2(self, indices_or_sections, axis=0, squeeze_axis=False):
        """Parts of the array: so many equal ones, or cut at these places."""
        return split_v2(self, indices_or_sections, axis, squeeze_axis)

    def copy(self):
        """A new array with the same values."""
        return self._call("_copy")

    def attach_grad(self, grad_req="write", stype=None):
        """Makes room for a gradient: backward() writes, adds or leaves it. stype="row_sparse": it keeps the rows that were used alone."""
        (_core.attach_row_grad if stype == "row_sparse" else _core.attach_grad)(self, grad_req)

    def zero_grad(self):
        """Sets the gradient to 0."""
        _core.zero_grad(self)

    @property
    def _fresh_grad(self):
        """Whether backward() has written the gradient since this was last set to False."""
        return _core.has_fresh_grad(self)

    @_fresh_grad.setter
    def _fresh_grad(self, state):
        _core.set_fresh_grad(self, state)

    def drop_grad(self):
        """Forgets the gradient."""
        _core.attach_grad(self, "null")

    def backward(self, out_grad=None, retain_graph=False, train_mode=True):
        """Computes the gradients of all arrays with attach_grad() that this one depends on."""
        _core.backward([self], [] if out_grad is None else [out_grad], retain_graph, train_mode)

    def detach(self):
        """The same values, off the tape."""
        return self._like_self(_core.detach(self))

    def _call(self, op, **attrs):
        return _operator(op)(self, **attrs)

    def _like_self(self, other):
        return _core.as_flavour(other, False)


_operators = {}


def _operator(name):
    """An operator by its name in the registry."""
    found = _operators.get(name)
    if found is None:
        found = _operators[name] = _core.make_operator(name, name, False, False)
    return found


class NDArray(Readable, _core.Array):
    """An array of numbers on a device."""

    __slots__ = ()

    # ---- text, NumPy, files

    def __repr__(self):
        return f"\n{self.asnumpy()}\n<{self.__class__.__name__} {'x'.join(map(str, self.shape))} @{self.context}>"

    def __array__(self, dtype=None):
        values = self.asnumpy()
        return values if dtype is None else values.astype(dtype)

    def __reduce__(self):
        return _rebuild, (self.asnumpy(), self._device_id, type(self))

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __contains__(self, value):
        return bool((self.asnumpy() == (value.asnumpy() if isinstance(value, NDArray) else value)).any())

    def __dlpack__(self, stream=None):
        return _core.to_dlpack(self)

    def __dlpack_device__(self):
        return 1, self._device_id

    def reshape(self, *args, **kwargs):
        """A view of another shape; 0, -1, -2, -3, -4 as in MXNet. A smaller one, where nothing is recorded, shows the first elements."""
        try:
            return Readable.reshape(self, *args, **kwargs)
        except ShapeError:
            shape = flat_shape(args, kwargs)
            wanted = int(_np.prod(shape)) if all(extent > 0 for extent in shape) else self.size
            if _core.is_recording() or wanted >= self.size:
                raise
            return Readable.reshape(Readable.reshape(self, (-1,))[:wanted], shape)

    # ---- where it lives

    def as_in_context(self, context):
        """This array, or its copy on another device."""
        device = engine_device(context)
        return self if device == self._device_id else self._like_self(_core.to_device(self, device))

    as_in_ctx = to_device = as_in_context

    def copyto(self, other):
        """Copies the values into another array, or to a device."""
        if isinstance(other, Context):
            return self._like_self(_core.to_device(self.copy(), engine_device(other)))
        if not isinstance(other, NDArray):
            raise TypeError(f"copyto does not support type {type(other)}")
        if other.shape != self.shape:
            raise ValueError(f"shapes do not fit: {self.shape} cannot be copied into {other.shape}")
        _core.copy_into(self.as_in_context(other.context), other)
        return other

    def wait_to_read(self):
        """Nothing to wait for: operators have finished when they return."""

    wait_to_write = wait_to_read

    def tostype(self, stype):
        """The same values as a "default", "csr" or "row_sparse" array."""
        from .sparse import cast_storage
        return cast_storage(self, stype)

    _sparse_parts = None  # of a sparse array: what files store

    def as_np_ndarray(self):
        """The same memory as an mx.np array."""
        return _core.as_flavour(self, True)

    def as_nd_ndarray(self):
        """The same memory as an mx.nd array."""
        return _core.as_flavour(self, False)

    def to_dlpack_for_read(self):
        """A DLPack capsule."""
        return _core.to_dlpack(self)

    to_dlpack_for_write = to_dlpack_for_read

    # ---- what operators do not know

    def expand_dims(self, axis, inplace=False):
        """With a new axis; inplace=True gives a view."""
        return self._call("expand_dims", axis=axis)

    def squeeze(self, axis=None, inplace=False):
        """Without axes of extent 1."""
        return self._call("squeeze", axis=axis)

    def flatten(self, inplace=False):
        """All axes but the first as one."""
        return self._call("Flatten")

    def broadcast_like(self, other, **kwargs):
        """Repeated to the shape of another array."""
        return _operator("broadcast_like")(self, other, **kwargs)

    def diag(self, k=0, **kwargs):
        """A diagonal, or a matrix with one."""
        return self._call("diag", k=k, **kwargs)

    def slice_assign(self, rhs, begin, end, step):
        """Writes `rhs` into a slice."""
        self[_slices(begin, end, step)] = rhs
        return self

    def slice_assign_scalar(self, value, begin, end, step):
        """Writes a number into a slice."""
        self[_slices(begin, end, step)] = value
        return self


def _slices(begin, end, step):
    step = step or (None,) * len(begin)
    return tuple(slice(b, e, s or None) for b, e, s in zip(begin, end, step))


def _rebuild(values, device, cls):
    made = _core.array(values, device, False)
    return made if cls is NDArray else _core.as_flavour(made, True)


# ---- making arrays

def _dtype_for(source, dtype):
    if dtype is not None:
        return dtype_name(dtype)
    return source._dtype_name if isinstance(source, NDArray) else "float32"


def array(source_array, ctx=None, dtype=None):
    """A new array with the values of a list, a NumPy array or another NDArray; float32 unless said otherwise."""
    if hasattr(source_array, "tocsr") or (isinstance(source_array, NDArray) and source_array.stype != "default"):
        from .sparse import array as sparse_array
        return sparse_array(source_array, ctx, dtype)
    name = _dtype_for(source_array, dtype)
    if isinstance(source_array, NDArray) or _core.is_traced(source_array):
        return source_array.as_in_context(ctx or source_array.context).astype(name).copy()
    try:
        if isinstance(source_array, (list, tuple)) and source_array and isinstance(source_array[0], NDArray):
            source_array = [item.asnumpy() if isinstance(item, NDArray) else item for item in source_array]
        values = _np.asarray(source_array, dtype=None if name == "bfloat16" else name)
    except (TypeError, ValueError) as error:
        raise TypeError(f"source_array must be array like object: {error}") from None
    made = _core.array(values, engine_device(ctx), False)
    return made.astype("bfloat16") if name == "bfloat16" else made


def _created(op, ctx, dtype, **attrs):
    return placed(ctx, lambda where: _operator(op)(dtype=dtype_name(dtype or "float32"), ctx=where, **attrs))


def _into(out, made):
    """The array that was made, or `out` with its values."""
    if out is None:
        return made
    out[:] = made
    return out


def zeros(shape, ctx=None, dtype=None, stype=None, out=None, **kwargs):
    """An array of zeros."""
    if stype not in (None, "default"):
        from .sparse import zeros as sparse_zeros
        return sparse_zeros(stype, shape, ctx, dtype)
    return _into(out, _created("_zeros", ctx, dtype, shape=shape))


def ones(shape, ctx=None, dtype=None, out=None, **kwargs):
    """An array of ones."""
    return _into(out, _created("_ones", ctx, dtype, shape=shape))


def full(shape, val, ctx=None, dtype=None, out=None):
    """An array of one number."""
    return _into(out, _created("_full", ctx, dtype, shape=shape, value=val))


def empty(shape, ctx=None, dtype=None, stype=None):
    """An array whose values do not matter: zeros."""
    return zeros(shape, ctx, dtype, stype)


def arange(start, stop=None, step=1.0, repeat=1, infer_range=None, ctx=None, dtype=None):
    """Numbers from start to stop, each `repeat` times."""
    if stop is None and not infer_range:
        start, stop = 0, start
    return _created("_arange", ctx, dtype, start=start, stop=stop, step=step, repeat=repeat)


def linspace(start, stop, num, endpoint=True, ctx=None, dtype=None):
    """`num` numbers at equal distances."""
    return _created("_linspace", ctx, dtype, start=start, stop=stop, num=num, endpoint=endpoint)


def eye(N, M=0, k=0, ctx=None, dtype=None, **kwargs):
    """Ones on a diagonal, zeros elsewhere."""
    return _created("_eye", ctx, dtype, N=N, M=M or 0, k=k)


def zeros_like(data, **kwargs):
    """Zeros of the same shape and dtype."""
    return _operator("zeros_like")(data)


def ones_like(data, **kwargs):
    """Ones of the same shape and dtype."""
    return _operator("ones_like")(data)


def shape_array(data):
    """The shape, as an int64 array."""
    return _operator("shape_array")(data)


# ---- functions over arrays that are not operators

def concatenate(arrays, axis=0, always_copy=True):
    """Arrays joined along an axis."""
    return _operator("Concat")(*arrays, dim=axis)


def moveaxis(tensor, source, destination):
    """The array with axes moved to other places, the others in their order."""
    sources, destinations = ([s] if isinstance(s, int) else list(s) for s in (source, destination))
    if len(sources) != len(destinations):
        raise ValueError("source and destination must have the same number of axes")
    ndim = tensor.ndim
    for axis in sources + destinations:
        if not -ndim <= axis < ndim:
            raise ValueError(f"axis {axis} is out of range for an array with {ndim} axes")
    sources, destinations = [s % ndim for s in sources], [d % ndim for d in destinations]
    if len(set(sources)) < len(sources) or len(set(destinations)) < len(destinations):
        raise ValueError(f"an axis is named twice: {source} to {destination}")
    order = [axis for axis in range(ndim) if axis not in sources]
    for place, axis in sorted(zip(destinations, sources)):
        order.insert(place, axis)
    return _operator("transpose")(tensor, axes=order)


def split_v2(ary, indices_or_sections, axis=0, squeeze_axis=False):
    """Parts of an array: so many equal ones, or cut at these places."""
    if isinstance(indices_or_sections, int):
        return _operator("_split_v2")(ary, indices=(), axis=axis, squeeze_axis=squeeze_axis, sections=indices_or_sections)
    return _operator("_split_v2")(ary, indices=(0, *indices_or_sections), axis=axis, squeeze_axis=squeeze_axis)


def histogram(a, bins=10, range=None):
    """Counts per bin, and the bins' edges."""
    if isinstance(bins, NDArray):
        return _operator("_histogram")(a, bins)
    if range is None:
        range = (float(a.min().asscalar()), float(a.max().asscalar()))
    return _operator("_histogram")(a, bin_cnt=bins, range=range)


def fill_element_0index(lhs, mhs, rhs):
    """`lhs` with one element of each row, at the place that `rhs` says, replaced by that of `mhs`."""
    chosen = _operator("one_hot")(rhs, depth=lhs.shape[1])
    return _operator("where")(chosen, mhs.expand_dims(axis=1).broadcast_to(lhs.shape), lhs)


class CachedOp:
    """A symbol as a function of arrays, which are given in the order of its inputs."""

    def __init__(self, sym, flags=()):
        self._names, self._function = sym.list_inputs(), _core.GraphFunction(sym)

    def __call__(self, *args, out=None, default_ctx=None):
        results = self._function(dict(zip(self._names, args)), False)
        if out is None:
            return results
        for target, result in zip(out if isinstance(out, (list, tuple)) else [out], results if isinstance(results, list) else [results]):
            target[:] = result
        return out


def onehot_encode(indices, out):
    """Writes one-hot rows into `out`."""
    out[:] = _operator("one_hot")(indices, depth=out.shape[1])
    return out


def power(base, exp):
    """base to the power of exp, arrays or numbers."""
    return _core.binary_functions["power"](base, exp)


true_divide = _core.binary_functions["divide"]


def waitall():
    """Returns at once: operators have finished when they return."""


def imdecode(str_img, clip_rect=(0, 0, 0, 0), out=None, index=0, channels=3, mean=None, **kwargs):
    """An image (1, channel, height, width) of float32 from the bytes of a file, a part of it where clip_rect (x0, y0, x1, y1) says so;
    with flag or to_rgb, what mx.image.imdecode gives."""
    from .. import image
    if kwargs:
        return image.imdecode(str_img, **kwargs)
    pixels = image.imdecode(str_img, flag=int(channels == 3)).as_nd_ndarray().transpose((2, 0, 1)).astype("float32")
    left, top, right, bottom = clip_rect
    if right and bottom:
        pixels = pixels[:, top:bottom, left:right]
    pixels = pixels if mean is None else pixels - mean
    if out is None:
        return pixels.expand_dims(axis=0)
    out[index] = pixels
    return out


__getattr__ = _register.elsewhere("gluino.ndarray")  # add, maximum and their like are made there
