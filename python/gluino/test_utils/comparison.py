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
    """Whether all elements are close."""
    a, b = as_numpy(a), as_numpy(b)
    if not use_broadcast:
        checkShapes(a, b)
    rtol, atol = get_tols(a, b, rtol, atol)
    return np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def locationError(a, b, index, names, maxError=False):
    """A line about one place."""
    worst = "maximum error" if maxError else "Error"
    return f"Location of {worst}: {tuple(int(i) for i in index)}, {names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}"


def find_max_violation(a, b, rtol=None, atol=None):
    """(place, size) of the greatest difference, in units of what is allowed."""
    a, b = (as_numpy(x).astype("float64") for x in (a, b))
    rtol, atol = get_tols(a, b, rtol, atol)
    violation = np.abs(a - b) / (atol + rtol * np.abs(b) + 1e-20)
    place = np.unravel_index(np.nanargmax(violation), violation.shape) if violation.size else ()
    return place, float(violation[place]) if violation.size else 0.0


def assert_almost_equal(a, b, rtol=None, atol=None, names=("a", "b"), equal_nan=False, use_broadcast=True, mismatches=(10, 10)):
    """Raises AssertionError with the places where elements differ."""
    a, b = as_numpy(a), as_numpy(b)
    if not use_broadcast:
        checkShapes(a, b)
    rtol, atol = get_tols(a, b, rtol, atol)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, err_msg=f"{names[0]} and {names[1]} differ")


def assert_almost_equal_with_err(a, b, rtol=None, atol=None, etol=None, names=("a", "b"), equal_nan=False, mismatches=(10, 10)):
    """The same; a share etol of the elements may differ."""
    a, b = as_numpy(a), as_numpy(b)
    rtol, atol = get_tols(a, b, rtol, atol)
    wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if wrong.mean() > get_etol(etol):
        place, size = find_max_violation(a, b, rtol, atol)
        raise AssertionError(f"{wrong.sum()} of {wrong.size} elements differ, at most {size:.3g} times what rtol={rtol} and atol={atol} allow. "
                             + locationError(np.asarray(a), np.asarray(b), place, names, maxError=True))


def assert_almost_equal_ignore_nan(a, b, rtol=None, atol=None, names=("a", "b")):
    """The same; where one has NaN, nothing is compared."""
    a, b = np.copy(as_numpy(a)), np.copy(as_numpy(b))
    nan = np.isnan(a) | np.isnan(b)
    a[nan] = b[nan] = 0
    assert_almost_equal(a, b, rtol, atol, names)


def assert_allclose(a, b, rtol=1e-07, atol=0, equal_nan=True):
    """Raises AssertionError unless all elements are close."""
    np.testing.assert_allclose(as_numpy(a), as_numpy(b), rtol=rtol, atol=atol, equal_nan=equal_nan)


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
    """Compares one step of two optimizers on the same random weights and gradients."""
    from .generators import rand_ndarray
    several = not isinstance(shape, (tuple, list)) or isinstance(shape[0], (tuple, list))
    shapes = list(shape) if several and isinstance(shape, list) else [shape] * ntensors
    weights = [rand_ndarray(s, "default", dtype=dtype).as_in_context(default_context()) for s in shapes]
    grads = [rand_ndarray(s, "default", dtype=dtype).as_in_context(default_context()) for s in shapes]
    results = []
    for optimizer in (opt1, opt2):
        w, g = [x.copy().tostype(w_stype) for x in weights], [x.copy().tostype(g_stype) for x in grads]
        indices = list(range(len(w)))
        states = [optimizer.create_state_multi_precision(i, x) for i, x in zip(indices, w)]
        if ntensors == 1:
            optimizer.update_multi_precision(0, w[0], g[0], states[0])
        else:
            optimizer.update_multi_precision(indices, w, g, states)
        results.append((w, states))
    for a, b in zip(results[0][0], results[1][0]):
        assert_almost_equal(a, b, rtol=rtol, atol=atol)
    for a, b in zip(results[0][1], results[1][1]) if compare_states else ():
        compare_ndarray_tuple(a, b, rtol, atol)


def assign_each(the_input, function):
    """function of every element; a copy without one."""
    return np.copy(the_input) if function is None else np.vectorize(function)(the_input)


def assign_each2(input1, input2, function):
    """function of every pair of elements; a copy of the first without one."""
    return np.copy(input1) if function is None else np.vectorize(function)(input1, input2)


def collapse_sum_like(a, shape):
    """`a` summed over the axes along which `shape` was repeated."""
    if len(a.shape) < len(shape):
        raise AssertionError(f"{a.shape} has fewer axes than {tuple(shape)}")
    axes = tuple(i for i in range(a.ndim) if i < a.ndim - len(shape) or shape[i - (a.ndim - len(shape))] != a.shape[i])
    return a.sum(axis=axes).reshape(shape) if axes else a


def np_reduce(dat, axis, keepdims, numpy_reduce_func):
    """A reduction of NumPy over several axes, one after the other."""
    axes = list(range(dat.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    for i in sorted((x % dat.ndim for x in axes), reverse=True):
        dat = numpy_reduce_func(dat, axis=i) if not keepdims else np.expand_dims(numpy_reduce_func(dat, axis=i), i)
    return dat


def same_symbol_structure(sym1, sym2):
    """Whether two graphs have the same operators, joined in the same way."""
    import json
    graphs = [json.loads(s.tojson()) for s in (sym1, sym2)]
    return [[(node["op"], [tuple(entry[:2]) for entry in node["inputs"]]) for node in graph["nodes"]] for graph in graphs[:1]] == \
        [[(node["op"], [tuple(entry[:2]) for entry in node["inputs"]]) for node in graph["nodes"]] for graph in graphs[1:]]


def array_of(value):
    """An NDArray of anything, with its dtype."""
    return value if isinstance(value, nd.NDArray) else nd.array(value, dtype=np.asarray(value).dtype)
