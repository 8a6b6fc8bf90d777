"""NumPy's dispatch: numpy.f(array of mx.np) calls mx.np.f. The arrays themselves take care of it."""

__all__ = ["with_array_function_protocol", "with_array_ufunc_protocol"]


def with_array_function_protocol(func):
    """The function itself: arrays of mx.np have __array_function__ always."""
    return func


def with_array_ufunc_protocol(func):
    """The function itself: arrays of mx.np have __array_ufunc__ always."""
    return func
