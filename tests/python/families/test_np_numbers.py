"""mx.np's elementwise functions and reductions of truth values, whole numbers beside fractions and arrays without axes, against NumPy."""
import numpy as np
import pytest

import gluino as mx

TRUTHS, OTHERS = np.array([True, False, True]), np.array([True, True, False])
WHOLE, REAL = np.array([3, -4, 5], "int32"), np.array([1.5, -2.0, 0.25], "float32")


def compare(name, *args, **kwargs):
    lifted = [mx.np.array(x, dtype=x.dtype) if isinstance(x, np.ndarray) else x for x in args]
    found, wanted = getattr(mx.np, name)(*lifted, **kwargs), getattr(np, name)(*args, **kwargs)
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found.asnumpy().astype("float64"), np.asarray(wanted, "float64"), rtol=1e-3 if wanted.dtype == np.float16 else 1e-5)
    assert (found.dtype == np.bool_) == (wanted.dtype == np.bool_)
    return found


@pytest.mark.parametrize("name", "mod remainder power floor_divide fmod maximum minimum fmax fmin logaddexp divide add multiply arctan2 copysign".split())
def test_truth_values_are_numbers(name):
    with np.errstate(all="ignore"):
        by = np.array([True, True, True]) if name in ("mod", "remainder", "floor_divide", "fmod", "divide") else OTHERS
        compare(name, TRUTHS, by)
        compare(name, TRUTHS, np.abs(WHOLE) if name == "power" else WHOLE)
        compare(name, REAL, by)
        compare(name, TRUTHS, 2)
        compare(name, TRUTHS, 2.5)


def test_operators_of_truth_values_and_numbers():
    x = mx.np.array(TRUTHS)
    for found, wanted in ((x + 2, TRUTHS + 2), (2 - x, 2 - TRUTHS), (x * 3, TRUTHS * 3), (x + True, TRUTHS + True), (x * 0.5, TRUTHS * 0.5), (x == 2, TRUTHS == 2),
                          (x < 2, TRUTHS < 2), (x == 0, TRUTHS == 0), (x == True, TRUTHS), (x != 1, TRUTHS != 1), (2 > x, 2 > TRUTHS)):  # noqa: E712
        np.testing.assert_allclose(found.asnumpy().astype("float64"), wanted.astype("float64"))
        assert (found.dtype == np.bool_) == (wanted.dtype == np.bool_)


@pytest.mark.parametrize("name", "abs absolute square isinf isfinite isnan".split())
def test_functions_of_truth_values(name):
    compare(name, TRUTHS)


@pytest.mark.parametrize("name", ["arctan2", "copysign", "heaviside", "hypot", "maximum", "fmod", "power", "multiply"])
def test_fractions_beside_whole_numbers_stay_fractions(name):
    compare(name, np.abs(WHOLE), 2.5)
    if name != "heaviside":
        compare(name, 2.5, WHOLE)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any", "argmax", "argmin", "mean", "var"])
def test_arrays_without_axes_have_a_first_and_a_last_one(name):
    x = np.array(2.5, "float32")
    for axis in (0, -1, None):
        if name in ("mean", "var") and axis is not None:
            with pytest.raises(ValueError):
                getattr(mx.np, name)(mx.np.array(x), axis=axis)
        else:
            compare(name, x, axis=axis)
            if not (name.startswith("arg") and axis is None):
                compare(name, x, axis=axis, keepdims=True)


def test_means_of_a_whole_dtype_are_cut_off():
    for values in (REAL, WHOLE, TRUTHS):
        assert compare("mean", values, dtype="int32").dtype == np.int32
    found = mx.np.mean(mx.np.array([[1, 2], [4, 4]], dtype="int64"), axis=0, dtype="int64")
    assert found.asnumpy().tolist() == [2, 3] and found.dtype == np.int64


def test_products_of_those_that_are_numbers():
    x = np.array([[1.0, np.nan, 3.0], [2.0, 2.0, np.nan]], "float32")
    for axis in (None, 0, 1, (0, 1), ()):
        for keepdims in (False, True):
            if axis != ():
                compare("nanprod", x, axis=axis, keepdims=keepdims)


def test_elements_are_repeated_by_numbers_of_their_own():
    x = np.arange(6, dtype="float32").reshape(2, 3)
    for counts, axis in (([1, 2, 0], 1), (np.array([2, 1]), 0), ([2], 1), ([1, 0, 2, 1, 1, 3], None), (2, 1), (np.int64(2), None)):
        np.testing.assert_array_equal(mx.np.repeat(mx.np.array(x), counts, axis=axis).asnumpy(), np.repeat(x, counts, axis=axis))
    y = mx.np.array(x)
    y.attach_grad()
    with mx.autograd.record():
        z = mx.np.repeat(y, [1, 2, 0], axis=1)
    z.backward()
    assert y.grad.asnumpy().tolist() == [[1, 2, 0]] * 2
    with pytest.raises(ValueError):
        mx.np.repeat(y, [1, 2], axis=1)


def test_products_over_no_elements():
    for a, b, axes in (((3, 0), (0, 2), 1), ((0, 3), (3, 2), 1), ((2, 3), (3, 0), 1), ((2, 0, 3), (0, 3, 4), 2), ((0,), (2,), 0)):
        a, b = np.ones(a, "float32"), np.ones(b, "float32")
        found = mx.np.tensordot(mx.np.array(a), mx.np.array(b), axes)
        np.testing.assert_array_equal(found.asnumpy(), np.tensordot(a, b, axes))
    assert mx.np.size(mx.np.ones((2, 3)), 1) == 3
