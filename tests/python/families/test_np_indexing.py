"""mx.np arrays under NumPy's indices: what they give, what is written through them, and gradients; truth values among them."""
import random

import numpy as np
import pytest

import gluino as mx

KINDS = ["number", "slice", "new axis", "ellipsis", "list", "array", "mask", "masked axes", "truth", "0-d truth", "0-d number"]


def drawn(rng, kind, shape, axis):
    """(index of mx.np, of NumPy, how many axes it takes)"""
    n = shape[axis] if axis < len(shape) else 1
    places = [rng.randrange(-n, n) for _ in range(2)]
    if kind == "number":
        return places[0], places[0], 1
    if kind == "slice":
        part = slice(*(rng.choice([None, *range(-n - 1, n + 2)]) for _ in range(2)), rng.choice([None, 1, 2, -1, -2]))
        return part, part, 1
    if kind in ("new axis", "ellipsis", "truth"):
        one = {"new axis": None, "ellipsis": Ellipsis, "truth": rng.random() < 0.5}[kind]
        return one, one, 0
    if kind == "list":
        return places, places, 1
    if kind == "array":
        places = np.array(places).reshape(rng.choice([(2,), (1, 2), (2, 1)]))
        return mx.np.array(places, dtype=rng.choice(["int32", "int64"])), places, 1
    if kind == "0-d truth":
        truth = np.array(rng.random() < 0.5)
        return mx.np.array(truth, dtype="bool"), truth, 0
    if kind == "0-d number":
        return mx.np.array(places[0], dtype="int64"), np.array(places[0]), 1
    over = shape[axis:axis + (2 if kind == "masked axes" else 1)] or (1,)
    mask = np.array([rng.random() < 0.5 for _ in range(int(np.prod(over)))]).reshape(over)
    return mx.np.array(mask, dtype="bool"), mask, mask.ndim


def cases(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        shape, axis, ours, theirs = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rng.choice([0, 1, 2, 3, 4]))), 0, [], []
        for _ in range(rng.choice([1, 1, 2, 3])):
            a, b, taken = drawn(rng, rng.choice(KINDS), shape, axis)
            ours.append(a)
            theirs.append(b)
            axis += taken
        yield shape, (tuple(ours), tuple(theirs)) if len(ours) > 1 or rng.random() < 0.3 else (ours[0], theirs[0])


@pytest.mark.parametrize("seed", range(4))
def test_indices_are_numpys(seed):
    for shape, (ours, theirs) in cases(seed, 250):
        x = np.arange(int(np.prod(shape)), dtype="float32").reshape(shape)
        try:
            wanted = x[theirs]
        except IndexError:
            with pytest.raises((IndexError, mx.base.MXNetError)):
                mx.np.array(x)[ours]
            continue
        leaf = mx.np.array(x)
        leaf.attach_grad()
        with mx.autograd.record():
            found = leaf[ours]
            total = (found * 2).sum()
        total.backward()
        slopes, case = np.zeros_like(x), f"{shape} {theirs}"
        np.add.at(slopes, theirs, 2)
        np.testing.assert_array_equal(found.asnumpy(), wanted, case)
        np.testing.assert_array_equal(leaf.grad.asnumpy(), slopes, case)
        for value in (7.0, -np.arange(wanted.size, dtype="float32").reshape(wanted.shape)):
            written, after = mx.np.array(x), x.copy()
            after[theirs] = value
            written[ours] = value if isinstance(value, float) else mx.np.array(value)
            np.testing.assert_array_equal(written.asnumpy(), after, case)


@pytest.mark.parametrize("function", [
    lambda x: x[2:1].sum(), lambda x: x[2:1].sum(axis=0), lambda x: x[2:1].mean(axis=1), lambda x: x[2:1].prod(), lambda x: x[2:1].reshape(4, 0),
    lambda x: x[2:1].max(axis=1), lambda x: x[2:1].max(initial=1.0), lambda x: x[[], [], None].sum(axis=-1), lambda x: x[False], lambda x: x[False, 0].sum()])
def test_results_of_no_elements_are_on_the_tape(function):
    x = mx.np.ones((3, 4))
    x.attach_grad()
    with mx.autograd.record():
        y = function(x)
    y.backward()
    assert (x.grad.asnumpy() == 0).all()
    block = type("Function", (mx.gluon.HybridBlock,), {"forward": lambda self, x: function(x)})()
    block.hybridize()
    for _ in range(2):
        np.testing.assert_array_equal(block(x).asnumpy(), y.asnumpy())
