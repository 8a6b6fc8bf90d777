"""Blocks that change themselves or their class, and functions that look at modes and contexts."""
import copy
import pickle

import numpy as np
import pytest
from promise import both, plain
from promise_programs import calls, expect_same, rows

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


@program
def replace_child():

    class N(gluon.HybridBlock):

        def __init__(s):
            super().__init__()
            s.a = gluon.nn.Dense(3, weight_initializer="ones")

        def forward(s, x):
            return s.a(x) * s.k if hasattr(s, "k") else s.a(x)

    def drive(f):
        r = [plain(f(rows()))]
        f.k = 2
        r.append(plain(f(rows())))
        f.a = gluon.nn.Dense(2, weight_initializer="zeros")
        f.a.initialize()
        r.append(plain(f(rows())))
        del f.k
        r.append(plain(f(rows())))
        return r
    return (N(), drive)


@program
def setattr_dynamic():

    class N(gluon.HybridBlock):

        def __init__(s):
            super().__init__()
            s.n = 0

        def forward(s, x):
            setattr(s, "n", s.n + 1)
            return x * s.n
    return (N(), calls)


@program
def dict_attr_counter():

    class N(gluon.HybridBlock):

        def __init__(s):
            super().__init__()
            s.c = {"n": 0}

        def forward(s, x):
            s.c["n"] += 1
            return x * s.c["n"]
    return (N(), calls)


@program
def returns_attr():

    class N(gluon.HybridBlock):

        def __init__(s):
            super().__init__()
            s.last = None

        def forward(s, x):
            o = x if s.last is None else x + s.last
            s.last = o
            return (o, s.last is o)
    return (N(), calls)


@program
def dunder_dict():

    class N(gluon.HybridBlock):

        def __init__(s):
            super().__init__()
            s.n = 0

        def forward(s, x):
            s.__dict__["n"] += 1
            return x * s.__dict__["n"]
    return (N(), calls)


@program
def class_attr_self():

    class N(gluon.HybridBlock):
        n = 0

        def forward(s, x):
            type(s).n += 1
            return x * s.n
    return (N(), calls)


@program
def class_attr_class():

    class N(gluon.HybridBlock):
        n = 0

        def forward(s, x):
            s.__class__.n += 1
            return x * s.n
    return (N(), calls)


@program
def inherited_attr():

    class B(gluon.HybridBlock):
        k = 2

    class N(B):

        def forward(s, x):
            return x * s.k

    def drive(f):
        r = []
        for k in range(4):
            B.k = k
            r.append(plain(f(rows())))
        return r
    return (N(), drive)


@program
def method_replaced_on_block_class():

    class N(gluon.HybridBlock):

        def scale(s):
            return 2

        def forward(s, x):
            return x * s.scale()

    def drive(f):
        r = [plain(f(rows()))]
        N.scale = lambda s: 3
        r.append(plain(f(rows())))
        N.forward = lambda s, x: x * 11
        r.append(plain(f(rows())))
        return r
    return (N(), drive)


@program
def set_data_inside():

    class N(gluon.HybridBlock):

        def __init__(s):
            super().__init__()
            s.w = s.params.get("w", shape=(3,), init="ones")

        def forward(s, x):
            w = s.w.data()
            s.w.set_data(w * 2)
            return x * s.w.data()
    return (N(), calls)


@program
def nested_hybrids():
    inner = mx.hybrid(lambda x, k: x * k)
    return (lambda x: inner(x, 2) + inner(x, 3), calls)


@program
def hook_inside():

    class N(gluon.HybridBlock):

        def __init__(s):
            super().__init__()
            s.d = gluon.nn.Dense(2, weight_initializer="ones")
            s.seen = []

        def forward(s, x):
            return s.d(x)
    n = N()
    calls = []
    n.d.register_forward_hook(lambda b, i, o: calls.append(o.shape))

    def drive(f):
        r = [plain(f(rows(k))) for k in range(3)]
        return (r, len(calls))
    return (n, drive)


@program
def training_flag():

    def f(x):
        return nd.Dropout(x, p=0.5) if autograd.is_training() else x * 2

    def drive(f):
        r = []
        for k in range(4):
            with autograd.train_mode() if k % 2 else autograd.predict_mode():
                r.append(plain(f(rows())))
        return r
    return (f, drive)


@program
def recording_flag():

    def f(x):
        return x * 3 if autograd.is_recording() else x * 2

    def drive(f):
        r = []
        for k in range(4):
            if k % 2:
                with autograd.record():
                    r.append(plain(f(rows())))
            else:
                r.append(plain(f(rows())))
        return r
    return (f, drive)


@program
def np_shape_mode():

    def f(x):
        return x * (2 if mx.util.is_np_array() else 3)

    def drive(f):
        r = [plain(f(rows()))]
        with mx.util.np_array(True):
            r.append(plain(f(rows())))
        r.append(plain(f(rows())))
        return r
    return (f, drive)


@program
def current_context():

    def f(x):
        return x * (1 + mx.current_context().device_id)

    def drive(f):
        r = [plain(f(rows()))]
        with mx.Context(mx.cpu(1)):
            r.append(plain(f(rows())))
        return r
    return (f, drive)


@program
def attach_grad_req():
    w = nd.ones((3,))
    w.attach_grad()

    def drive(f):
        r = []
        for k in range(4):
            if k == 2:
                w.attach_grad("add")
            with autograd.record():
                y = f(rows())
            y.backward()
            r.append(plain(w.grad))
        return r
    return (lambda x: x * w, drive)


@program
def seeds_inside():

    def f(x):
        mx.random.seed(5)
        return x + nd.random.uniform(shape=(2, 3))
    return (f, calls)


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_modes_do_the_same(name):
    expect_same(PROGRAMS[name])


@pytest.mark.parametrize("change", [lambda c: c.popitem(), lambda c: c.pop("0"), lambda c: c.move_to_end("0"), lambda c: c.__delitem__("1"), lambda c: c.clear(),
                                    lambda c: c.update({"1": nn.Activation("sigmoid")})], ids=["popitem", "pop", "move_to_end", "del", "clear", "update"])
def test_children_that_are_taken_out_or_put_elsewhere(change):
    def make():
        net = nn.HybridSequential()
        net.add(nn.HybridLambda(lambda F, x: x * 2), nn.Activation("tanh"))
        return net

    def drive(net):
        seen = [net(nd.arange(3))]
        change(net._children)
        return [*seen, net(nd.arange(3))]
    both(make, drive)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["deepcopy", "pickle"])
def test_a_copy_of_a_trained_network_learns_by_itself(copied):
    def train(net, steps, first=0):
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
        seen = []
        for step in range(steps):
            with autograd.record():
                loss = (net(rows(first + step)) ** 2).sum()
            loss.backward()
            trainer.step(4)
            seen.append(round(loss.asscalar(), 4))
        return seen

    def life(hybridized):
        mx.random.seed(3)
        net = nn.HybridSequential()
        net.add(nn.Dense(4, in_units=3, activation="relu"), nn.BatchNorm(in_channels=4), nn.Dense(2, in_units=4))
        net.initialize(mx.init.Xavier())
        if hybridized:
            net.hybridize()
        seen = [train(net, 2)]
        other = copied(net)
        return seen + [train(other, 2), train(net, 2), train(other, 1, 5), train(net, 1, 5)]
    eager = life(False)
    np.testing.assert_allclose(sum(life(True), []), sum(eager, []), rtol=1e-3)
    assert eager[1] == eager[2]  # neither has moved the other
