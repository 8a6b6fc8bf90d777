"""Arrays that are equal, nearly."""
import numpy as np

from .. import ndarray as nd
from .environment import default_context

__all__ = ["same", "almost_equal", "assert_almost_equal", "assert_almost_equal_ignore_nan", "assert_almost_equal_with_err", "assert_allclose",
           "default_rtols", "default_atols", "default_numeric_eps", "get_rtol", "get_atol", "get_etol", "get_tolerance", "get_tols", "effective_dtype",
           "locationError", "checkShapes", "same_array", "compare_ndarray_tuple", "compare_optimizer", "assign_each", "assign_each2", "collapse_sum_like",
           "np_reduce", "same_symbol_structure", "find_max_violation"]

_WHOLE = (np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64)


def default_rtols():
    """Relative differences that are allowed, by dtype."""
    return {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-5, **{np.dtype(t): 0 for t in _WHOLE}}


def default_atols():
    """Absolute differences that are allowed, by dtype."""
    return {np.dtype(np.float16): 1e-1, np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-20, **{np.dtype(t): 0 for t in _WHOLE}}


def default_numeric_eps():
    """Steps of central differences, by dtype: powers of 2, so that x + eps is exact."""
    return {np.dtype(np.float16): 1.0 / 2**6, np.dtype(np.float32): 1.0 / 2**9, np.dtype(np.float64): 1.0 / 2**14}


def effective_dtype(dat):
    """The dtype that decides about tolerances."""
    return np.dtype(getattr(dat, "dtype", np.float64))


def get_tolerance(dat, tol, default_tol):
    """The tolerance, or that of the dtype from a dictionary."""
    if isinstance(tol, (int, float)):
        return tol
    return {**default_tol, **(tol or {})}.get(effective_dtype(dat), 0)


def get_rtol(rtol=None, dtype=np.dtype(np.float64)):
    """The relative tolerance: a number, or that of the dtype from a dictionary."""
    return rtol if isinstance(rtol, (int, float)) else {**default_rtols(), **(rtol or {})}[np.dtype(dtype)]


def get_atol(atol=None, dtype=np.dtype(np.float64)):
    """The absolute tolerance."""
    return atol if isinstance(atol, (int, float)) else {**default_atols(), **(atol or {})}[np.dtype(dtype)]


def get_etol(etol=None):
    """The share of elements that may differ."""
    return 0 if etol is None else etol


def get_tols(x, y, rtol, atol):
    """The larger tolerances of two arrays."""
    return tuple(max(get_tolerance(array, tol, defaults) for array in (x, y))
                 for tol, defaults in ((rtol, default_rtols()), (atol, default_atols())))


def as_numpy(x):
    """A NumPy array of anything."""
    return x.asnumpy() if hasattr(x, "asnumpy") else np.asarray(x)


def same(a, b):
    """Whether all elements are equal."""
    return np.array_equal(as_numpy(a), as_numpy(b))


def checkShapes(a, b):
    """Raises AssertionError where two shapes differ."""
    if a.shape != b.shape:
        raise AssertionError(f"Shapes {a.shape} and {b.shape} differ")


def almost_equal(a, b, rtol=None, atol=None, equal_nan=False, use_broadcast=True):
    """Whether all elements are close, by float64's tolerances where none are given."""
    a, b = as_numpy(a), as_numpy(b)
    if not use_broadcast:
        checkShapes(a, b)
    return np.allclose(a, b, rtol=get_rtol(rtol), atol=get_atol(atol), equal_nan=equal_nan)


def locationError(a, b, index, names, maxError=False):
    """A line about one place."""
    worst = "maximum error" if maxError else "Error"
    return f"Location of {worst}: {tuple(int(i) for i in index)}, {names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}"


def find_max_violation(a, b, rtol=None, atol=None):
    """(place, size) of the greatest difference, in units of what is allowed."""
    a, b = (as_numpy(x).astype("float64") for x in (a, b))
    rtol, atol = get_tols(a, b, rtol, atol)
    with np.errstate(all="ignore"):
        violation = np.where(a == b, 0.0, np.abs(a - b) / (atol + rtol * np.abs(b) + 1e-20))
    if not violation.size:
        return (), 0.0
    place = np.unravel_index(np.argmax(violation), violation.shape)  # NaN is the greatest
    return place, float(violation[place])


def _difference(a, b, rtol, atol, names, wrong):
    place, size = find_max_violation(a, b, rtol, atol)
    left, right = np.broadcast_arrays(a, b)
    return AssertionError(f"{names[0]} and {names[1]} differ: {wrong.sum()} of {wrong.size} elements, at most {size:.3g} times what rtol={rtol} and "
                          f"atol={atol} allow. {locationError(left, right, place, names, maxError=True)}\n{names[0]}: {a!r}\n{names[1]}: {b!r}")


def assert_almost_equal(a, b, rtol=None, atol=None, names=("a", "b"), equal_nan=False, use_broadcast=True, mismatches=(10, 10)):
    """Raises AssertionError with the place where elements differ most. Shapes may differ by broadcasting, unless it is forbidden."""
    a, b = as_numpy(a), as_numpy(b)
    if not use_broadcast:
        checkShapes(a, b)
    if a.dtype == b.dtype == np.bool_:
        np.testing.assert_equal(a, b)
        return
    rtol, atol = get_tols(a, b, rtol, atol)
    wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if wrong.any():
        raise _difference(a, b, rtol, atol, names, wrong)


def assert_almost_equal_with_err(a, b, rtol=None, atol=None, etol=None, names=("a", "b"), equal_nan=False, mismatches=(10, 10)):
    """The same; a share etol of the elements may differ."""
    a, b = as_numpy(a), as_numpy(b)
    rtol, atol = get_tols(a, b, rtol, atol)
    wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if wrong.size and wrong.mean() > get_etol(etol):
        raise _difference(a, b, rtol, atol, names, wrong)


def assert_almost_equal_ignore_nan(a, b, rtol=None, atol=None, names=("a", "b")):
    """The same; where one has NaN, nothing is compared."""
    a, b = np.copy(as_numpy(a)), np.copy(as_numpy(b))
    nan = np.isnan(a) | np.isnan(b)
    a[nan] = b[nan] = 0
    assert_almost_equal(a, b, rtol, atol, names)


def assert_allclose(a, b, rtol=1e-07, atol=0, equal_nan=True):
    """Raises AssertionError unless all elements are close."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def same_array(array1, array2):
    """Whether two arrays share memory: a change of one is seen in the other."""
    array1[:] += 1
    if not same(array1, array2):
        array1[:] -= 1
        return False
    array1[:] -= 1
    return same(array1, array2)


def compare_ndarray_tuple(t1, t2, rtol=None, atol=None):
    """Compares arrays, or tuples of them within tuples."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for a, b in zip(t1, t2):
            compare_ndarray_tuple(a, b, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def compare_optimizer(opt1, opt2, shape, dtype, w_stype="default", g_stype="default", rtol=1e-4, atol=1e-5, compare_states=True, ntensors=1):
    """Compares a step of two optimizers on the same weights and gradients: opt1's are dense and taken one by one, opt2's of the kinds given, or all
    at once where `shape` is a list of them."""
    from ..random import uniform
    from .generators import rand_ndarray
    several = isinstance(shape, list)
    if not several and ntensors != 1:
        raise AssertionError("several arrays need a list of shapes")

    def made(shape, stype, density=None):
        if stype == "default":
            return uniform(shape=shape, ctx=default_context(), dtype=dtype)
        return rand_ndarray(shape, stype, density=density, dtype=dtype)
    shapes = shape if several else [shape]
    weights, grads = [made(s, w_stype, 1) for s in shapes], [made(s, g_stype) for s in shapes]
    plain_weights, plain_grads = ([x.copy().tostype("default") for x in arrays] for arrays in (weights, grads))
    states = [opt2.create_state_multi_precision(0 if several else i, w) for i, w in enumerate(weights)]
    plain_states = [opt1.create_state_multi_precision(i, w) for i, w in enumerate(plain_weights)]
    if compare_states and not several:
        compare_ndarray_tuple(plain_states[0], states[0])
    for i, (w, g, state) in enumerate(zip(plain_weights, plain_grads, plain_states)):
        opt1.update_multi_precision(i, w, g, state)
    if several:
        opt2.update_multi_precision(list(range(ntensors)), weights, grads, states)
    else:
        opt2.update_multi_precision(0, weights[0], grads[0], states[0])
    for first, second in zip(plain_states, states) if compare_states else ():
        compare_ndarray_tuple(first, second, rtol, atol)
    for first, second in zip(plain_weights, weights):
        assert_almost_equal(first, second, rtol=rtol, atol=atol)


def assign_each(the_input, function):
    """function of every element; a copy without one."""
    return np.copy(the_input) if function is None else np.vectorize(function, otypes=[float])(the_input)


def assign_each2(input1, input2, function):
    """function of every pair of elements; a copy of the first without one."""
    if function is None:
        return np.copy(input1)
    checkShapes(input1, input2)
    return np.vectorize(function, otypes=[float])(input1, input2)


def collapse_sum_like(a, shape):
    """`a` summed over the axes along which `shape` was repeated."""
    if len(a.shape) < len(shape):
        raise AssertionError(f"{a.shape} has fewer axes than {tuple(shape)}")
    if 0 in (a.size, np.prod(shape)):
        return np.zeros(shape, dtype=a.dtype)
    axes = tuple(i for i in range(a.ndim) if i < a.ndim - len(shape) or shape[i - (a.ndim - len(shape))] != a.shape[i])
    return a.sum(axis=axes).reshape(shape) if axes else a


def np_reduce(dat, axis, keepdims, numpy_reduce_func):
    """A reduction of NumPy over several axes, one after the other."""
    axes = list(range(dat.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    for i in sorted((x % dat.ndim for x in axes), reverse=True):
        dat = numpy_reduce_func(dat, axis=i) if not keepdims else np.expand_dims(numpy_reduce_func(dat, axis=i), i)
    return dat


def same_symbol_structure(sym1, sym2):
    """Whether two graphs have the same operators, node by node."""
    import json
    first, second = (json.loads(s.tojson())["nodes"] for s in (sym1, sym2))
    return all(a["op"] == b["op"] for a, b in zip(first, second))
