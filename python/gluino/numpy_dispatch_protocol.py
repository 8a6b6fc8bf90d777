"""NumPy's dispatch: numpy.f(array of mx.np) calls mx.np.f. The arrays themselves take care of it."""

__all__ = ["with_array_function_protocol", "with_array_ufunc_protocol"]


def with_array_function_protocol(func):
    """The function itself: arrays of mx.np have __array_function__ always."""
    return func


def with_array_ufunc_protocol(func):
    """The function itself: arrays of mx.np have __array_ufunc__ always."""
    return func


def _dispatched(of):
    """Names of NumPy that mx.np has too: of functions, or of ufuncs."""
    import numpy

    from . import numpy as mx_np
    names = [name for name in dir(numpy) if hasattr(mx_np, name) and isinstance(getattr(numpy, name), numpy.ufunc) is of]
    if of:
        return names
    names += [f"linalg.{name}" for name in mx_np.linalg.__all__ if hasattr(numpy.linalg, name)]
    return [name for name in names if callable(getattr(numpy, name, len)) and not isinstance(getattr(numpy, name, None), type)]


def __getattr__(name):
    if name in ("_NUMPY_ARRAY_FUNCTION_LIST", "_NUMPY_ARRAY_UFUNC_LIST"):
        return _dispatched(name == "_NUMPY_ARRAY_UFUNC_LIST")
    raise AttributeError(name)
