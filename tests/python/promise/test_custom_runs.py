"""Custom operators keep values between forward and backward: every run has an operator of its own, whoever makes it."""
import gc
import weakref

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd

MADE, MADE_EVER = weakref.WeakSet(), [0]


class Counting(mx.operator.CustomOp):
    """data * (how often this object has run), and a gradient that shows what it has kept."""

    def __init__(self, shape):
        self.shape, self.runs, self.kept = shape, 0, None
        MADE.add(self)
        MADE_EVER[0] += 1

    def forward(self, is_train, req, in_data, out_data, aux):
        self.runs += 1
        self.kept = in_data[0].copy()
        assert self.shape == in_data[0].shape
        self.assign(out_data[0], req[0], in_data[0] * self.runs)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.runs += 10
        self.assign(in_grad[0], req[0], out_grad[0] * self.kept * self.runs)


@mx.operator.register("counting")
class CountingProp(mx.operator.CustomOpProp):
    shape = None

    def infer_shape(self, in_shape):
        self.shape = tuple(in_shape[0])
        return in_shape, [in_shape[0]], []

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Counting(self.shape)


@mx.operator.register("forgetful")
class ForgetfulProp(mx.operator.CustomOpProp):
    """A dropout that draws from NumPy's numbers."""

    def create_operator(self, ctx, in_shapes, in_dtypes):
        class Op(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.mask = nd.array(np.random.rand(*in_data[0].shape) > 0.5)
                self.assign(out_data[0], req[0], in_data[0] * self.mask)

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                self.assign(in_grad[0], req[0], out_grad[0] * self.mask)
        return Op()


def eager():
    return lambda x: nd.Custom(x, op_type="counting") * 2


def hybrid():
    return mx.hybrid(eager())


def reading():
    """Ends a segment of its program at every call."""
    return mx.hybrid(lambda x: nd.Custom(x, op_type="counting") * (2 if x.sum() < 1e6 else 3))


def hybridized():
    net = gluon.nn.HybridLambda(lambda F, x: F.Custom(x, op_type="counting") * 2)
    net.hybridize()
    return net


def static():
    net = hybridized()
    net.hybridize(static_alloc=True, static_shape=True)
    return net


def of_symbol(flags=None):
    net = gluon.SymbolBlock(mx.sym.Custom(mx.sym.var("data"), op_type="counting") * 2, [mx.sym.var("data")])
    if flags is not None:
        net.hybridize(**flags)
    return net


def of_symbol_hybridized():
    return of_symbol({})


def in_a_loop():
    return mx.hybrid(lambda x: nd.contrib.foreach(lambda row, state: (nd.Custom(row, op_type="counting") * 2, state), x.expand_dims(0), [])[0][0])


WAYS = [eager, hybrid, reading, hybridized, static, of_symbol, of_symbol_hybridized, in_a_loop]
many_ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def recorded(f, value, length=2, **flags):
    x = nd.full((length,), value)
    x.attach_grad()
    with autograd.record(**flags):
        y = f(x)
    return x, y


@many_ways
def test_every_run_has_a_new_operator(way):
    f = way()
    for k in range(4):
        assert f(nd.full((2,), k)).asnumpy().tolist() == [2 * k] * 2
    for k in range(4):
        x, y = recorded(f, k)
        assert y.asnumpy().tolist() == [2 * k] * 2
        y.backward()
        assert x.grad.asnumpy().tolist() == [2 * k * 11] * 2


@many_ways
def test_backward_comes_late(way):
    f = way()
    for flags in ({}, {"train_mode": False}):
        calls = [recorded(f, k, **flags) for k in range(100)]
        f(nd.ones((2,)))
        for k in (99, 0, 50, 1):
            x, y = calls[k]
            y.backward()
            assert x.grad.asnumpy().tolist() == [2 * k * 11] * 2, (k, flags)


@many_ways
def test_backward_comes_again(way):
    f, expected = way(), eager()
    for function in (f, expected):
        seen = []
        calls = [recorded(function, k) for k in range(3)]
        for k in (0, 2, 2, 1, 0, 2):
            x, y = calls[k]
            y.backward(retain_graph=True)
            seen.append(x.grad.asnumpy().tolist())
        # A loop runs its body again when it goes back.
        assert way is in_a_loop or seen == [[2 * k * runs] * 2 for k, runs in ((0, 11), (2, 11), (2, 21), (1, 11), (0, 21), (2, 31))]


@many_ways
def test_runs_of_other_shapes_in_between(way):
    f = way()
    calls = [recorded(f, k + 1, length=k % 3 + 1) for k in range(9)]
    for k, (x, y) in enumerate(calls):
        y.backward()
        assert x.grad.asnumpy().tolist() == [2 * (k + 1) * 11] * (k % 3 + 1)


@many_ways
def test_operators_are_freed(way):
    f = way()
    gc.collect()
    MADE.clear()
    for k in range(20):
        recorded(f, k)
        f(nd.ones((2,)))
        recorded(f, k)[1].backward()
    gc.collect()
    assert len(MADE) <= 4


@pytest.mark.parametrize("flags", [None, {}, {"static_alloc": True}], ids=["eager", "hybridized", "static"])
@pytest.mark.parametrize("retain", [False, True])
def test_results_that_are_differentiated_one_by_one(flags, retain):
    """What was drawn in a run belongs to it: it is not made again, whichever result is asked about first."""
    net = gluon.nn.HybridLambda(lambda F, x: (F.Custom(x, op_type="forgetful") * 2, F.Custom(x * 3, op_type="forgetful"), x * 5))
    if flags is not None:
        net.hybridize(**flags)
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0), (1,), (2,)):
        x = nd.ones((64,))
        x.attach_grad()
        with autograd.record():
            results = net(x)
        state = np.random.get_state()[1].tolist(), np.random.get_state()[2]
        for k in order:
            results[k].backward(retain_graph=retain)
            assert x.grad.asnumpy().tolist() == results[k].asnumpy().tolist()
        assert state == (np.random.get_state()[1].tolist(), np.random.get_state()[2])


@pytest.mark.parametrize("body", ["plain", "foreach", "cond", "two"])
def test_gradients_belong_to_the_run(body):
    def forgetful(x):
        return nd.Custom(x, op_type="forgetful")
    functions = {
        "plain": forgetful,
        "foreach": lambda x: nd.contrib.foreach(lambda row, state: (forgetful(row), state), x, [])[0],
        "cond": lambda x: nd.contrib.cond(x.sum() > 0, lambda: forgetful(x), lambda: x * 2),
        "two": lambda x: forgetful(forgetful(x)) * 3}
    for f in (functions[body], mx.hybrid(functions[body])):
        for _ in range(3):
            x = nd.ones((4, 16))
            x.attach_grad()
            with autograd.record():
                y = f(x)
            found, = autograd.grad(y, [x], create_graph=True, retain_graph=True)
            assert found.asnumpy().tolist() == y.asnumpy().tolist()
            y.backward()
            assert x.grad.asnumpy().tolist() == y.asnumpy().tolist()


@pytest.mark.parametrize("train", [True, False])
def test_as_many_runs_as_in_eager_code(train):
    counts = []
    for f in (eager(), hybrid(), reading(), hybridized(), static(), of_symbol_hybridized()):
        drawn = []
        for _ in range(4):
            np.random.seed(3)
            x = nd.ones((2,))
            x.attach_grad()
            before = MADE_EVER[0]
            if train:
                with autograd.record():
                    y = f(x)
                y.backward()
            else:
                f(x)
            drawn.append(MADE_EVER[0] - before)
        counts.append(drawn)
    assert counts == [[1] * 4] * len(counts)
