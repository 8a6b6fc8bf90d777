"""A program is for every extent that user code has not looked at: traced with one, it must be right for the next. Each expression is called with
arrays of several shapes in every order, so that each of them is the one that is traced."""
import itertools

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, nd

SHAPES = [(2, 1, 3), (2, 4, 3), (1, 2, 3), (3, 3, 1)]
BOUNDS = [None, 0, 1, 2, -1, -2, 3]


def filled(kind, shape):
    return kind(np.arange(1, 1 + np.prod(shape)).reshape(shape).astype("f"))


def outcome(f, x):
    """What a call gives: its results and the gradient, or the kind of its error."""
    x.attach_grad()
    try:
        with autograd.record():
            y = f(x)
        y.backward()
        return [f(x).asnumpy(), y.asnumpy(), x.grad.asnumpy(), x.asnumpy()]
    except (IndexError, ValueError, mx.base.MXNetError) as error:
        return [type(error).__name__]


def compare(name, f, kind, shapes=SHAPES):
    for order in itertools.permutations(shapes, 3):
        hybridized = mx.hybrid(f)
        for shape in order:
            eager, got = outcome(f, filled(kind, shape)), outcome(hybridized, filled(kind, shape))
            assert len(eager) == len(got), (name, order, shape, eager, got)
            for a, b in zip(eager, got):
                np.testing.assert_array_equal(a, b, err_msg=f"{name}, traced in the order {order}, of shape {shape}")


@pytest.fixture(params=["nd", "np"])
def kind(request):
    return nd.array if request.param == "nd" else mx.np.array


@pytest.mark.parametrize("step", [None, 2, -1, -2])
@pytest.mark.parametrize("axis", [0, 1])
def test_slices(kind, axis, step):
    for begin, end in itertools.product(BOUNDS, BOUNDS):
        key = (slice(None),) * axis + (slice(begin, end, step),)
        compare(f"x[{key}]", lambda x: x[key] * 2, kind, SHAPES[:3])


KEYS = [0, -1, -2, (slice(None), -1), (slice(None), 0), (Ellipsis, -1), (Ellipsis, 0), (-1, -1), (0, slice(-2, None)), (slice(-1, None), 0),
        (slice(None), None), (None, -1), (slice(None), -1, None), (Ellipsis, None, 0), (slice(None), slice(-1, None), 0),
        [0, -1], (slice(None), [0, -1]), ([-1, 0], 0), (slice(None), [0, -1], [0, -1]), (0, [-1]), (slice(-1, None), [0, -1])]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_keys(kind, key):
    compare(f"x[{key}]", lambda x: x[key] * 2, kind)


@pytest.mark.parametrize("key", [k for k in KEYS if k is not None], ids=str)
def test_parts_that_are_written(kind, key):
    def f(x):
        y = x * 1
        y[key] = 7
        return y * 2
    compare(f"x[{key}] = 7", f, kind)


@pytest.mark.parametrize("key", [0, -1, slice(0, 2), slice(-1, None), (0, slice(0, 1)), (slice(None), slice(0, 1)), (slice(None), 0)], ids=str)
def test_parts_that_are_views(kind, key):
    """Which parts share the memory of their base depends on extents; a write to one is seen there in every mode or in none."""
    def f(x):
        y = x * 1
        part = y[key]
        part += 5
        return y * 2

    for order in itertools.permutations(SHAPES, 3):
        hybridized = mx.hybrid(f)
        for shape in order:
            np.testing.assert_array_equal(hybridized(filled(kind, shape)).asnumpy(), f(filled(kind, shape)).asnumpy(), err_msg=str((order, shape)))


def test_gradients_that_are_taken_inside():
    def by_backward(x):
        x = x * 1
        x.attach_grad()
        with autograd.record():
            y = x + 0
        y.backward()
        return x.grad

    def by_grad(x):
        x = x * 1
        x.attach_grad()
        with autograd.record():
            y = x.sum(axis=1)
        return autograd.grad(y, [x])[0]

    for f in (by_backward, by_grad):
        for order in itertools.permutations(SHAPES, 3):
            hybridized = mx.hybrid(f)
            for shape in order:
                np.testing.assert_array_equal(hybridized(filled(nd.array, shape)).asnumpy(), np.ones(shape), err_msg=str((order, shape)))
