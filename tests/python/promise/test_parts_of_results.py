"""Where only some results of a call are differentiated, the others add nothing to gradients, also not where theirs would be infinite."""
import itertools
import random

import numpy as np
import pytest
from promise import Forward

import gluino as mx
from gluino import autograd, nd

# Each has gradients somewhere on SPECIAL that are infinite or no numbers, or takes such from what reads it. No two make an equal call: of such
# a program makes one, and what flows back to it is added before it meets its derivative.
OPERATORS = {
    "times two": lambda x: x * 2,
    "sqrt": nd.sqrt,
    "log": nd.log,
    "rsqrt": nd.rsqrt,
    "reciprocal": lambda x: 1 / x,
    "power": lambda x: nd.abs(x) ** 0.5,
    "cbrt": nd.cbrt,
    "arcsin": nd.arcsin,
    "norm": lambda x: nd.norm(x, axis=1, keepdims=True),
    "softmax": nd.softmax,
    "log of softmax": lambda x: nd.log(nd.softmax(x * 100)),
    "squares": lambda x: x * x,
    "product": lambda x: nd.dot(nd.log(x * 2), nd.ones((3, 3))),
    "sum": lambda x: nd.sum(nd.sqrt(x * 2), axis=0),
    "normed": lambda x: nd.LayerNorm(x, nd.ones((3,)), nd.zeros((3,)), eps=0),
    "gathered": lambda x: nd.take(nd.sqrt(x * 3), nd.array([0, 1, 0])),
    "largest": lambda x: nd.max(nd.log(x * 3), axis=1),
    "concat": lambda x: nd.concat(nd.sqrt(x * 4), x, dim=0),
    "transposed": lambda x: nd.dot(nd.sqrt(x * 5).T, x),
    "divided": lambda x: x / (x * 0),
    "mask": lambda x: nd.where(x > 0, nd.sqrt(x * 6), x),
}
SPECIAL = np.array([[0.0, 1.0, 4.0], [-0.0, 0.25, -1.0], [1.0, np.inf, 0.0]], "float32")


def gradients(f, picks, retained):
    x = nd.array(SPECIAL)
    w = nd.array([1.0, 0.0, 2.0])
    x.attach_grad(), w.attach_grad()
    seen = []
    for _ in range(2):
        with autograd.record():
            results = f(x * w)
            heads = [results[i] for i in picks]
        x.grad[:], w.grad[:] = 7, 7
        autograd.backward(heads, retain_graph=retained)
        seen += [x.grad.asnumpy(), w.grad.asnumpy()]
        if retained:
            autograd.backward(list(results))
            seen += [x.grad.asnumpy(), w.grad.asnumpy()]
    return seen


def expect_same(forward, count):
    for picks in [p for n in range(1, count + 1) for p in itertools.combinations(range(count), n)]:
        for retained in (False, True):
            net = Forward(forward)
            want = gradients(net, picks, retained)
            net.hybridize()
            for a, b in zip(gradients(net, picks, retained), want):
                np.testing.assert_allclose(a, b, 1e-4, 1e-5, err_msg=str(picks))


@pytest.mark.parametrize("first", OPERATORS)
def test_what_is_not_differentiated_adds_nothing(first):
    for second in OPERATORS:
        expect_same(lambda _, x: (OPERATORS[first](x), OPERATORS[second](x)), 2)


@pytest.mark.parametrize("shared", OPERATORS)
def test_what_both_go_through_is_gone_through(shared):
    for second in OPERATORS:
        def forward(_, x):
            h = OPERATORS[shared](x)
            return OPERATORS[second](h.reshape((-1, 3)) if h.size % 3 == 0 else h), h * 0.5, x * 3
        expect_same(forward, 3)


@pytest.mark.parametrize("seed", range(40))
def test_random_results(seed):
    """Several results of one tree of operators, of which any may be left out."""
    choose = random.Random(seed)
    plan = [(choose.choice([n for n in OPERATORS if n not in ("sum", "norm", "largest", "concat")]), choose.randrange(k + 1), choose.randrange(k + 1)) for k in range(6)]

    def forward(_, x):
        values = [x]
        for name, a, b in plan:
            values.append(OPERATORS[name](values[a]) + values[b] * 0.5)
        return [values[k] * 2 for k in (-1, -2, -4)]
    expect_same(forward, 3)


def test_an_operator_of_the_caller_that_is_not_asked_is_not_called():
    class Counted(autograd.Function):
        calls = 0

        def forward(self, x):
            return x * 2

        def backward(self, dy):
            Counted.calls += 1
            return dy * np.nan

    def forward(_, x):
        return x * 3, Counted()(x)
    for flags in (None, {}):
        net = Forward(forward)
        if flags is not None:
            net.hybridize()
        for _ in range(3):
            x = nd.ones((3,))
            x.attach_grad()
            with autograd.record():
                y = net(x)[0]
            y.backward()
            assert x.grad.asnumpy().tolist() == [3, 3, 3]


def test_rows_that_nothing_flows_to_are_not_touched():
    """An optimizer that updates the rows of a table that were used must not find others."""
    def used(hybridized):
        net = mx.gluon.nn.HybridSequential()
        table = mx.gluon.nn.Embedding(10, 4, sparse_grad=True)

        class Two(mx.gluon.HybridBlock):
            def __init__(self):
                super().__init__()
                self.table = table

            def hybrid_forward(self, F, a, b):
                return self.table(a), self.table(b) * 2
        net = Two()
        net.initialize(mx.init.One())
        if hybridized:
            net.hybridize()
        rows = []
        for _ in range(3):
            with autograd.record():
                first, _ = net(nd.array([1, 3]), nd.array([5, 0]))
            first.backward()
            gradient = table.weight.grad()
            rows.append((gradient.indices.asnumpy().tolist(), gradient.data.asnumpy().tolist()))
        return rows
    assert used(True) == used(False)
