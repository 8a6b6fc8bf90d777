"""NumPy mode (npx.set_np and its like), and helpers of MXNet's util module."""
import contextlib
import functools
import os

from . import _core

__all__ = ["set_np", "reset_np", "is_np_array", "is_np_shape", "np_array", "np_shape", "use_np", "use_np_array", "use_np_shape",
           "set_np_shape", "makedirs", "getenv", "setenv", "get_gpu_count", "default_array", "is_np_default_dtype", "wraps_safely",
           "set_module", "np_default_dtype", "get_gpu_memory", "get_cuda_compute_capability", "np_ufunc_legal_option",
           "wrap_np_unary_func", "wrap_np_binary_func", "wrap_data_api_statical_func"]

_ARRAY, _SHAPE = 0, 1


def is_np_array():
    """Whether new arrays are mx.np arrays."""
    return _core.numpy_mode(_ARRAY)


def is_np_shape():
    """Whether shapes may hold zeros and scalars have no axes; the engine always allows both."""
    return _core.numpy_mode(_SHAPE)


def is_np_default_dtype():
    """False: the default dtype is float32."""
    return False


def set_np(shape=True, array=True, dtype=False):
    """Makes mx.np the interface of Gluon: blocks and losses take and give mx.np arrays."""
    if array and not shape:
        raise ValueError("NumPy arrays need NumPy shapes: set_np(shape=False, array=True) is not possible")
    for kind, active in ((_ARRAY, array), (_SHAPE, shape)):
        _core.set_numpy_mode(kind, bool(active))
        _core.set_numpy_mode_of_thread(kind, None)


def reset_np():
    """Goes back to mx.nd."""
    set_np(shape=False, array=False)


def set_np_shape(active):
    """Turns NumPy shapes on or off; returns what was before."""
    previous = is_np_shape()
    _core.set_numpy_mode_of_thread(_SHAPE, bool(active))
    return previous


class _Scope:
    def __init__(self, kind, active):
        self._kind, self._active, self._previous = kind, active, None

    def __enter__(self):
        self._previous = _core.numpy_mode_of_thread(self._kind)
        _core.set_numpy_mode_of_thread(self._kind, bool(self._active))

    def __exit__(self, *exc):
        _core.set_numpy_mode_of_thread(self._kind, self._previous)


def np_array(active=True):
    """A `with` scope for is_np_array."""
    return _Scope(_ARRAY, active)


def np_shape(active=True):
    """A `with` scope for is_np_shape."""
    return _Scope(_SHAPE, active)


def np_default_dtype(active=True):
    """A `with` scope without effect."""
    return contextlib.nullcontext(active)


def _decorated(target, scopes):
    if isinstance(target, type):
        for name, member in list(vars(target).items()):
            if callable(member) and not isinstance(member, (type, staticmethod, classmethod)):
                setattr(target, name, _decorated(member, scopes))
        return target

    @functools.wraps(target)
    def inside(*args, **kwargs):
        if len(scopes) == 2:
            with np_shape(), np_array():
                return target(*args, **kwargs)
        with _Scope(scopes[0], True):
            return target(*args, **kwargs)
    return inside


def use_np(func):
    """Decorates a function or class: it runs in NumPy mode."""
    return _decorated(func, (_SHAPE, _ARRAY))


def use_np_array(func):
    """Decorates a function or class: arrays are mx.np arrays inside."""
    return _decorated(func, (_ARRAY,))


def use_np_shape(func):
    """Decorates a function or class: NumPy shapes inside."""
    return _decorated(func, (_SHAPE,))


def set_module(module):
    """Sets __module__ of what it decorates."""
    def decorate(target):
        target.__module__ = module
        return target
    return decorate


wraps_safely = functools.wraps


def default_array(source, ctx=None, dtype=None):
    """mx.np.array or mx.nd.array, by the mode."""
    from . import ndarray, numpy
    return (numpy if is_np_array() else ndarray).array(source, ctx=ctx, dtype=dtype)


def makedirs(path):
    """Makes a folder and those above it."""
    os.makedirs(os.path.expanduser(path), exist_ok=True)


def getenv(name):
    """An environment variable."""
    return os.environ.get(name)


def setenv(name, value):
    """Sets or removes an environment variable."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def get_gpu_count():
    """0."""
    return 0


def get_gpu_memory(gpu_dev_id):
    """Raises: there is no GPU."""
    from .context import gpu_memory_info
    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx):
    """Raises: there is no GPU."""
    from .base import MXNetError
    raise MXNetError(f"{ctx}: this build computes on the CPU; there is no compute capability")


# What a ufunc of NumPy takes beside its inputs, and the values that mean nothing other than their absence.
_UFUNC_OPTIONS = {"where": (True,), "subok": (True,), "order": ("C", "K"), "casting": ("same_kind",), "dtype": None}


def np_ufunc_legal_option(key, value):
    """Whether a keyword of NumPy's elementwise functions may have this value here."""
    import numpy
    if key not in _UFUNC_OPTIONS:
        return False
    if key == "dtype":
        return value in ("int8", "uint8", "int32", "int64", "float16", "float32", "float64", numpy.int8, numpy.uint8, numpy.int32, numpy.int64,
                         numpy.float16, numpy.float32, numpy.float64)
    return any(value is allowed or (isinstance(value, str) and value == allowed) for allowed in _UFUNC_OPTIONS[key])


def check_ufunc_options(name, kwargs):
    """Raises where a keyword of NumPy's elementwise functions asks for what is not done here."""
    for key, value in kwargs.items():
        if key not in _UFUNC_OPTIONS:
            raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
        if key == "dtype" or not np_ufunc_legal_option(key, value):
            raise NotImplementedError(f"{name}: {key}={value!r} is not supported")


def _wrapped(func, inputs):
    @functools.wraps(func)
    def checked(*args, out=None, **kwargs):
        if len(args) == inputs + 1:
            *args, out = args
        check_ufunc_options(func.__name__, kwargs)
        return func(*args, out=out)
    return checked


def wrap_np_unary_func(func):
    """A function of (x, out) that refuses options of NumPy's which it would ignore."""
    return _wrapped(func, 1)


def wrap_np_binary_func(func):
    """The same of (x1, x2, out)."""
    return _wrapped(func, 2)


def wrap_data_api_statical_func(func):
    """The function itself: its result depends on NumPy mode by itself."""
    return func
