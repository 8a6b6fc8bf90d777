"""mx.np.ndarray: arrays with NumPy's rules (zero axes, boolean comparisons), and the functions that make them."""
import functools
import re

import numpy as _np

from .. import _core, _register
from ..base import as_dtype, dtype_name
from ..context import engine_device, placed
from ..ndarray.ndarray import NDArray
from ..symbol.symbol import Symbol, is_shown_as_array, of_symbols_alone

__all__ = ["ndarray", "array", "zeros", "ones", "full", "empty", "arange", "linspace", "eye", "identity", "zeros_like", "ones_like",
           "full_like", "empty_like", "asarray", "copy", "logspace", "hanning", "hamming", "blackman", "indices", "unravel_index"]

_operators = {}
_FLOAT32 = re.compile(r",\s*dtype=float32")  # on the next line where the values end close to the margin


def _op(name):
    """An operator by its name in the registry, giving mx.np arrays."""
    found = _operators.get(name)
    if found is None:
        found = _operators[name] = _core.make_operator(name, name, True, False)
    return found


class _Methods:
    """What mx.np's arrays and symbols do otherwise than mx.nd's."""

    __slots__ = ()

    def _call(self, op, **attrs):
        return _op(op)(self, **attrs)

    def _like_self(self, other):
        return _core.as_flavour(other, True)

    @property
    def dtype(self):
        """The element type, as NumPy's arrays have it."""
        name = self._dtype_name
        return as_dtype(name) if name == "bfloat16" else _np.dtype(name)

    def reshape(self, *args, **kwargs):
        """Another shape, one extent of which may be -1."""
        order = kwargs.pop("order", "C")
        if order != "C":
            raise NotImplementedError("reshape: only order='C' is supported")
        shape = kwargs.pop("newshape", kwargs.pop("shape", None)) if not args else args[0] if len(args) == 1 else args
        shape = (int(shape),) if isinstance(shape, (int, _np.integer)) else tuple(shape)
        if 0 in shape:  # which stands for an extent to copy in the operator
            if self.size:
                raise ValueError(f"cannot reshape array of size {self.size} into shape {shape}")
            return self._call("_np_reshape", newshape=_np.empty(0).reshape(shape).shape)
        return self._call("Reshape", shape=shape)

    def transpose(self, *axes):
        """The axes in another order; reversed without arguments."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            axes = axes[0] or ()
        return self._call("transpose", axes=axes)

    def flatten(self, order="C"):
        """A copy with one axis."""
        return self._call("Reshape", shape=(-1,)).copy()

    def ravel(self, order="C"):
        """All elements along one axis."""
        return self._call("Reshape", shape=(-1,))

    def __array_function__(self, function, types, args, kwargs):
        """numpy.concatenate([mx array]) and its like run the function of mx.np with the same name."""
        from . import dispatch
        return dispatch.function(function)(*args, **kwargs)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        """numpy.add(mx array, ...) and its like: the function of mx.np with the same name."""
        from . import dispatch
        return dispatch.ufunc(ufunc, method, inputs, out, kwargs)


def _method(name):
    def method(self, *args, **kwargs):
        from .. import numpy
        return getattr(numpy, name)(self, *args, **kwargs)
    method.__name__, method.__doc__ = name, f"The same as mx.np.{name} of this array."
    return method


_NUMPY_METHODS = ("sum", "mean", "std", "var", "prod", "max", "min", "argmax", "argmin", "argsort", "cumsum", "clip", "repeat", "squeeze",
                  "swapaxes", "dot", "take", "all", "any", "nonzero", "round", "split", "tile", "expand_dims")
for _name in _NUMPY_METHODS:
    setattr(_Methods, _name, _method(_name))
del _name


def _named(name):
    """A function of mx.np, whose modules are made of this one."""
    from .. import numpy
    return getattr(numpy, name)


class ndarray(_Methods, NDArray):
    """An array with NumPy's rules."""

    __slots__ = ()

    def __repr__(self):
        text = repr(self.asnumpy())
        text = _FLOAT32.sub("", text)
        if "dtype=" not in text and self._dtype_name in ("float64", "int64"):  # NumPy's defaults are not MXNet's
            text = f"{text[:-1]}, dtype={self._dtype_name})"
        return text if self._device_id == 0 else f"{text[:-1]}, ctx={self.context})"

    def __str__(self):
        return str(self.asnumpy())

    def __format__(self, spec):
        return format(self.asnumpy().item() if self.ndim == 0 else self.asnumpy(), spec)

    def __floordiv__(self, other):
        return (self / other).floor().astype(self.dtype)

    def __invert__(self):
        return _named("invert")(self)

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        """The same values in another element type."""
        if order not in ("C", "K", "A") or casting != "unsafe" or subok is not True:
            raise NotImplementedError("astype: only order='C', casting='unsafe' and subok=True are supported")
        return NDArray.astype(self, dtype, copy)

    def copy(self, order="C"):
        """A new array with the same values."""
        if order not in ("C", "K", "A"):
            raise NotImplementedError("copy: only order='C' is supported")
        return self._call("_copy")

    def as_in_ctx(self, ctx):
        """This array, or its copy on another device."""
        return self.as_in_context(ctx)

    def reshape_view(self, *shape, **kwargs):
        """A view of another shape."""
        return self.reshape(*shape, **kwargs)

    def __and__(self, other):
        return _named("bitwise_and")(self, other)

    __rand__ = __and__

    def __or__(self, other):
        return _named("bitwise_or")(self, other)

    __ror__ = __or__

    def __xor__(self, other):
        return _named("bitwise_xor")(self, other)

    __rxor__ = __xor__


class _Symbol(_Methods, Symbol):
    """A symbol with NumPy's rules."""

    __slots__ = ()

    def __repr__(self):
        return Symbol.__repr__(self).replace("<_Symbol", "<Symbol")

    def __format__(self, spec):
        return ndarray.__format__(self, spec) if is_shown_as_array(self) else object.__format__(self, spec)

    def __getitem__(self, key):
        """One of several outputs; of a single one its values at numbers and slices."""
        if _core.is_traced(self) or isinstance(key, str) or self._num_outputs > 1:
            return Symbol.__getitem__(self, key)
        from ..symbol.numpy_functions import part_of
        return part_of(self, key)

    def __iter__(self):
        return Symbol.__iter__(self) if _core.is_traced(self) or self._num_outputs > 1 else iter((self,))


def _symbol_method(name):
    of_arrays = getattr(_Methods, name)

    def method(self, *args, **kwargs):
        if _core.is_traced(self):
            return of_arrays(self, *args, **kwargs)
        from ..symbol import numpy_functions
        return getattr(numpy_functions, name)(self, *args, **kwargs)
    method.__name__, method.__doc__ = name, of_arrays.__doc__
    return method


for _name in _NUMPY_METHODS:
    setattr(_Symbol, _name, _symbol_method(_name))
del _name


def _traced_operator(name):
    of_arrays = getattr(ndarray, name)

    def operator(self, *args):
        if not _core.is_traced(self) and not args:
            raise TypeError(f"a Symbol has no {name}")
        return of_arrays(self, *args) if _core.is_traced(self) else NotImplemented
    operator.__name__ = name
    return operator


for _name in ("__floordiv__", "__invert__", "__and__", "__rand__", "__or__", "__ror__", "__xor__", "__rxor__"):
    setattr(_Symbol, _name, _traced_operator(_name))
del _name


of_symbols_alone.update(name for name in dir(_Symbol) if not name.startswith("_") and not hasattr(ndarray, name))


# ---- making arrays

def array(object, dtype=None, ctx=None, device=None):
    """A new array; float32 unless `object` is an array with another dtype, or `dtype` says otherwise."""
    ctx = ctx or device
    if _core.is_traced(object):
        made = object.as_in_context(ctx or object.context).as_np_ndarray()
        return made if dtype is None else made.astype(dtype)
    if isinstance(object, NDArray):
        made = object.as_in_context(ctx or object.context).as_np_ndarray()
        return made.copy() if dtype is None else made.astype(dtype)
    if isinstance(object, (list, tuple)) and object and isinstance(object[0], NDArray):
        object = [item.asnumpy() if isinstance(item, NDArray) else item for item in object]
    values = _np.asarray(object)
    if dtype is None:
        dtype = values.dtype if isinstance(object, (_np.ndarray, _np.generic)) and values.dtype != _np.float64 else \
            "bool" if values.dtype == bool else "float32"
    return _core.array(_np.asarray(values, dtype=dtype_name(dtype)), engine_device(ctx), True)


def asarray(a, dtype=None, ctx=None):
    """`a` itself when it is an array already."""
    return a if isinstance(a, (ndarray, _core.SymbolBase)) and dtype is None else array(a, dtype, ctx)


def taking_lists(function, count=1):
    """`function`, whose first arguments may also be what np.array makes arrays of."""
    @functools.wraps(function)
    def taking(*args, **kwargs):
        for x in args[:count]:
            if not isinstance(x, (_core.Array, _core.SymbolBase)):
                args = (*(x if isinstance(x, (_core.Array, _core.SymbolBase)) else array(x) for x in args[:count]), *args[count:])
                break
        return function(*args, **kwargs)
    return taking


def copy(a):
    """A new array with the same values."""
    return a.copy()


def _created(op, dtype, ctx, **attrs):
    return placed(ctx, lambda where: _op(op)(dtype=dtype_name(dtype or "float32"), ctx=where, **attrs))


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def zeros(shape, dtype=None, order="C", ctx=None, device=None):
    """Zeros."""
    return _created("_zeros", dtype, ctx or device, shape=_shape(shape))


def ones(shape, dtype=None, order="C", ctx=None, device=None):
    """Ones."""
    return _created("_ones", dtype, ctx or device, shape=_shape(shape))


def full(shape, fill_value, dtype=None, order="C", ctx=None, out=None, device=None):
    """One number, or the values of an array, everywhere."""
    if isinstance(fill_value, NDArray) and fill_value.ndim:
        made = fill_value.as_np_ndarray().broadcast_to(_shape(shape))
        made = made if dtype is None else made.astype(dtype)
    else:
        value = fill_value.item() if isinstance(fill_value, NDArray) else fill_value
        kind = "bool" if isinstance(value, (bool, _np.bool_)) else "float32"
        made = _created("_full", dtype or kind, ctx or device, shape=_shape(shape), value=float(value))
    if out is None:
        return made
    out[:] = made
    return out


def empty(shape, dtype=None, order="C", ctx=None, device=None):
    """Zeros."""
    return zeros(shape, dtype, order, ctx, device)


def arange(start, stop=None, step=1, dtype=None, ctx=None, device=None):
    """Numbers from start to stop."""
    start, stop, step = (x.item() if isinstance(x, NDArray) else x for x in (start, stop, step))
    if stop is None:
        start, stop = 0, start
    return _created("_arange", dtype, ctx or device, start=start, stop=stop, step=step)


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, ctx=None, device=None):
    """Numbers at equal distances."""
    if axis != 0:
        raise NotImplementedError("linspace: only axis=0 is supported")
    start, stop = (x.item() if isinstance(x, NDArray) and x.ndim == 0 else x for x in (start, stop))
    made = _created("_linspace", dtype, ctx or device, start=start, stop=stop, num=num, endpoint=endpoint)
    return (made, (stop - start) / (num - 1 if endpoint else num)) if retstep else made


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0, ctx=None):
    """Numbers at equal ratios."""
    if axis != 0:
        raise NotImplementedError("logspace: only axis=0 is supported")
    start, stop, base = (x.item() if isinstance(x, NDArray) else x for x in (start, stop, base))
    return array(_np.logspace(start, stop, num, endpoint, base), dtype=dtype, ctx=ctx)


def eye(N, M=None, k=0, dtype=None, ctx=None, device=None):
    """Ones on a diagonal."""
    return _created("_eye", dtype, ctx or device, N=N, M=M or N, k=k)


def identity(n, dtype=None, ctx=None):
    """The unit matrix."""
    return eye(n, dtype=dtype, ctx=ctx)


def zeros_like(a, dtype=None, order="C", ctx=None, out=None):
    """Zeros of the same shape."""
    made = _op("zeros_like")(a)
    return made if dtype is None else made.astype(dtype)


def ones_like(a, dtype=None, order="C", ctx=None, out=None):
    """Ones of the same shape."""
    made = _op("ones_like")(a)
    return made if dtype is None else made.astype(dtype)


def full_like(a, fill_value, dtype=None, order="C", ctx=None, out=None):
    """One number, in the same shape and dtype."""
    made = (_op("ones_like")(a if dtype is None else a.astype(dtype)) * fill_value).astype(dtype or a.dtype)
    if out is None:
        return made
    out[:] = made
    return out


def empty_like(prototype, dtype=None, order="C", subok=False, shape=None):
    """An array whose values do not matter: zeros."""
    if subok or order not in ("C", "K", "A"):
        raise NotImplementedError("empty_like: only order='C' and subok=False are supported")
    return zeros_like(prototype, dtype) if shape is None else zeros(shape, dtype or prototype.dtype)


def _window(name):
    def window(M, dtype=None, ctx=None):
        return array(getattr(_np, name)(M), dtype=dtype or "float32", ctx=ctx)
    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"numpy.{name}, as float32."
    return window


hanning, hamming, blackman = map(_window, ("hanning", "hamming", "blackman"))


def indices(dimensions, dtype="int32", ctx=None):
    """The positions of a grid, one array per axis."""
    return array(_np.indices(dimensions), dtype=dtype, ctx=ctx)


def unravel_index(indices, shape, order="C"):
    """Positions of numbers of elements, one array per axis."""
    if order != "C":
        raise NotImplementedError("unravel_index: only order='C' is supported")
    flat = indices if isinstance(indices, (NDArray, Symbol)) else array(indices, dtype="int64")
    found = _op("_unravel_index")(flat.reshape(-1), shape=tuple(shape)).astype("int64")
    return tuple(found[i].reshape(flat.shape) for i in range(len(shape)))


__getattr__ = _register.elsewhere("gluino.numpy")  # MXNet has all functions of arrays in this module
