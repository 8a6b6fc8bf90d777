"""hybridize() never changes an answer: what user code writes, its modes and gradients, and the order of things."""
import gc
import threading

import numpy as np
import pytest
from promise import Forward, both, plain

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn


# ---- what is written

def count(self, x):
    self.calls += 1
    return x + self.calls


def test_a_counter_counts():
    def drive(net):
        return [net(nd.zeros((1,))) for _ in range(8)] + [net.calls]
    assert both(lambda: Forward(count, calls=0), drive)[1][-1] == ("int", 8)
    net = Forward(count, calls=0)
    net.hybridize()
    with pytest.warns(UserWarning, match="'calls'"):
        drive(net)


def test_an_array_kept_in_an_attribute_is_the_last_one():
    def keep(self, x):
        self.last = x.mean()
        self.shape = x.shape
        return x * 2

    def drive(net):
        return [(net(nd.array(v)), net.last, net.shape) for v in ([1, 2], [3, 4], [5, 6], [7, 8, 9])]
    both(lambda: Forward(keep), drive)
    net = Forward(keep)
    net.hybridize()
    drive(net)
    assert isinstance(net.last, nd.NDArray) and not isinstance(net.last, mx.sym.Symbol)
    assert net.stats()["calls"] == 4 and net.stats()["traces"] < 4


def test_recurrent_state_in_attributes():
    def step(self, x):
        if self.h is None:
            self.h = [x * 0, x * 0 + 1]
        self.h = [self.h[0] * 0.5 + x, self.h[1] * 2]
        return self.h[0] + self.h[1]

    def drive(net):
        out = [net(nd.array([i, 1.0])) for i in range(5)]
        net.h = None
        return out + [net(nd.array([9.0, 1.0])), net.h]
    both(lambda: Forward(step, h=None), drive)
    net = Forward(step, h=None)
    net.hybridize()
    drive(net)
    assert net.stats()["traces"] <= 3


def test_state_updated_while_recording_trains():
    def step(self, x):
        with autograd.pause():
            self.average = self.average * 0.9 + x.mean() * 0.1
        return x * self.weight.data() / (self.average + 1)

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = self.params.get("weight", shape=(2,), init="ones")
            self.average = nd.ones((1,))

        forward = step

    def drive(net):
        net.initialize()
        out = []
        for i in range(4):
            with autograd.record():
                y = net(nd.array([i, 2.0]))
            y.backward()
            out += [y, net.weight.data().grad.copy(), net.average]
        return out
    both(Net, drive)


def test_a_list_in_an_attribute_grows():
    def remember(self, x):
        self.seen.append(x.sum())
        return x

    def drive(net):
        for i in range(3):
            net(nd.array([i]))
        return net.seen
    both(lambda: Forward(remember, seen=[]), drive)


def test_a_list_made_by_the_code_itself_grows():
    def remember(self, x):
        if self.seen is None:
            self.seen = []
        self.seen.append(x.sum())
        return x + len(self.seen)

    def drive(net):
        return [net(nd.array([i])) for i in range(4)] + net.seen
    both(lambda: Forward(remember, seen=None), drive)


def test_a_trace_that_is_given_up_leaves_random_numbers_and_parameters_as_they_were():
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.history, self.layer = [], nn.Dense(3)

        def hybrid_forward(self, F, x):
            x = F.Dropout(x, p=0.5)
            if x.sum() > 2:  # only on one way, which is met later
                self.history.append(1)
            return F.Dropout(self.layer(x), p=0.5)

    def drive(net):
        mx.random.seed(5)
        net.initialize(mx.init.Normal(1))
        out = []
        for i in range(-2, 4):
            with autograd.record():
                out.append(np.round(net(nd.ones((2, 4)) * i).asnumpy(), 4).tolist())
        return [out, net.history, nd.random.uniform(shape=(2,))]
    both(Net, drive)


def test_a_global_and_a_variable_of_a_closure_are_written():
    total = 0

    def f(x):
        nonlocal total
        total += 1
        return x + total
    compiled = mx.hybrid(f)
    with pytest.warns(UserWarning, match="operator by operator"):
        assert [compiled(nd.zeros((1,))).asscalar() for _ in range(4)] == [1, 2, 3, 4]
    assert total == 4


def test_an_attribute_that_is_only_written_is_written_at_every_call():
    def mark(self, x):
        self.done = True
        return x

    def drive(net):
        out = []
        for _ in range(3):
            net.done = False
            net(nd.ones((1,)))
            out.append(net.done)
        return out
    assert both(lambda: Forward(mark, done=False), drive) == ("list", [("bool", True)] * 3)


# ---- forward, hooks, modes

def test_a_forward_around_hybrid_forward_runs_at_every_call():
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x, *args):
            self.calls += 1
            return super().forward(x * 2, *args) + 1

        def hybrid_forward(self, F, x):
            return F.relu(x) * 3

    def drive(net):
        return [net(nd.array([1, -1])) for _ in range(3)] + [net.calls]
    both(Net, drive)
    net = Net()
    net.hybridize()
    drive(net)
    assert net.stats()["calls"] == 3 and net.stats()["traces"] == 1

    class Around(Net):
        def forward(self, x):
            return super().forward(x) * 10
    both(Around, drive)


def test_hooks_of_inner_blocks_run_at_every_call():
    def drive(net):
        seen = []
        x = nd.array([1.0, 2.0])
        net(x)
        handle = net.inner.register_forward_hook(lambda block, inputs, out: seen.append((inputs[0].asnumpy().tolist(), out.asnumpy().tolist())))
        net(x), net(x * 2)
        handle.detach()
        out = net(x)
        before = net.register_forward_pre_hook(lambda block, inputs: seen.append("before"))
        net(x), net(x)
        before.detach()
        return [out, seen]
    both(lambda: Forward(lambda self, x: self.inner(x) + 1, inner=Forward(lambda self, x: x * 2)), drive)


def test_modes_inside():
    def forward(self, x):
        with autograd.pause():
            a = x * 3
        with autograd.train_mode():
            b = nd.Dropout(x, p=0.5) if not isinstance(x, mx.sym.Symbol) else mx.sym.Dropout(x, p=0.5)
        return a + x * 2 + b * 0 + (100 if autograd.is_training() else 0) + (1000 if autograd.is_recording() else 0)

    def drive(net):
        x, out = nd.array([1.0, 2.0]), []
        x.attach_grad()
        for scope in (autograd.record, autograd.predict_mode, lambda: autograd.record(False), autograd.train_mode, autograd.record):
            with scope():
                y = net(x)
            if y.grad is None and scope is autograd.record:
                y.backward()
                out.append(x.grad.copy())
            out.append(y)
        return out
    both(lambda: Forward(forward), drive)


def test_record_and_grad_inside():
    def forward(self, x):
        x = x * 1
        x.attach_grad()
        with autograd.record():
            y = (x * x * x).sum()
        y.backward()
        return x.grad * 2

    def drive(net):
        return [net(nd.array(v)) for v in ([1.0, 2.0], [3.0, 4.0])]
    both(lambda: Forward(forward), drive)

    def penalty(self, x):
        with autograd.record():
            y = (x ** 3).sum()
            g = autograd.grad(y, x, create_graph=True)[0]
        return g * 1

    def drive_grad(net):
        out = []
        for v in ([1.0, 2.0], [3.0, 4.0]):
            x = nd.array(v)
            x.attach_grad()
            with autograd.record():
                z = net(x).sum()
            z.backward()
            out += [z, x.grad]
        return out
    both(lambda: Forward(penalty), drive_grad)


class Cube(autograd.Function):
    """With a gradient that is not the cube's."""

    def forward(self, x):
        self.save_for_backward(x)
        self.factor = x * 2
        return x * x * x

    def backward(self, dy):
        x, = self.saved_tensors
        return dy * x + self.factor


def test_functions_with_gradients_of_their_own():
    def drive(net):
        out = []
        for v in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]):
            x = nd.array(v)
            x.attach_grad()
            with autograd.record():
                y = net(x)
            y.backward()
            out += [y, x.grad]
        return out
    both(lambda: Forward(lambda self, x: Cube()(x * 2) + x), drive)


# ---- state, aliases, order

def test_deferred_shapes_with_dropout_draw_as_eager_code_does():
    def make():
        net = nn.HybridSequential()
        net.add(nn.Dense(8), nn.Dropout(0.5), nn.Dense(4), nn.Dropout(0.5), nn.BatchNorm(), nn.Dense(2))
        return net

    def drive(net):
        mx.random.seed(7)
        net.initialize(mx.init.Normal(1))
        out = []
        for _ in range(3):
            with autograd.record():
                out.append(net(nd.ones((3, 5))))
        return [np.round(o.asnumpy(), 4).tolist() for o in out] + [net[0].weight.data(), net[5].weight.data(), mx.nd.random.uniform(shape=(2,))]
    both(make, drive)


def test_in_place_changes_of_aliased_arguments():
    def f(x, y):
        x += 1
        y *= 2
        return x + y

    def run(g):
        a, b = nd.array([1.0, 2.0]), nd.array([[1.0, 2.0], [3.0, 4.0]])
        out = [g(a, a), a, g(a, nd.array([3.0, 4.0])), a, g(b[0], b[1]), b, g(b[0], b[0]), b]
        return [plain(o) for o in out]
    compiled = mx.hybrid(f)
    assert run(compiled) == run(f)
    assert run(compiled) == run(f)


def test_an_array_that_is_given_and_known_is_updated():
    known = nd.ones((2,))

    def f(x):
        nonlocal known
        known += x
        return x * 2 + known

    def run(g):
        nonlocal known
        known, out = nd.ones((2,)), []
        for x in (nd.array([1.0, 2.0]), known, known, nd.array([3.0, 4.0])):
            out += [plain(g(x)), plain(known)]
        return out
    assert run(mx.hybrid(f)) == run(f)


def test_state_that_a_second_gradient_does_not_need_may_have_been_released():
    def step(self, x):
        self.h = self.h * 0.5 + x
        return x * x * x

    def drive(net):
        out = []
        for i in range(3):
            x = nd.array([i + 1.0])
            x.attach_grad()
            with autograd.record():
                g = autograd.grad(net(x), [x], create_graph=True)[0]
            g.backward()
            out += [g, x.grad.copy(), net.h]
        return out
    both(lambda: Forward(step, h=nd.zeros((1,))), drive)


def test_interleaved_calls_changed_grad_req_and_casts():
    def make():
        net = nn.HybridSequential()
        net.add(nn.Dense(3, in_units=2), nn.Dense(1, in_units=3))
        return net

    def drive(net):
        net.initialize(mx.init.One())
        out = []
        xs = [nd.array([[i, 1.0]]) for i in range(3)]
        with autograd.record():
            ys = [net(x) for x in xs]
        for y in ys:
            y.backward()
            out.append(net[0].weight.grad().copy())
        for req in ("null", "add", "write"):
            net[0].weight.grad_req = req
            for _ in range(2):
                with autograd.record():
                    y = net(xs[1])
                y.backward()
            out += [y] + ([net[0].weight.grad().copy()] if req != "null" else [])
        net.cast("float64")
        out.append(net(xs[2].astype("float64")))
        net.cast("float32")
        out.append(net(xs[2]))
        return out
    both(make, drive)


def test_a_cache_and_its_block_may_die_on_another_thread():
    for _ in range(5):
        net = Forward(lambda self, x: (x * 2, {"a": "b"}))
        net.hybridize()
        holder = [net]
        del net
        holder[0](nd.ones((2,)))

        def drop():
            holder.clear()
            gc.collect()
        thread = threading.Thread(target=drop)
        thread.start()
        thread.join()
    assert not holder


def test_an_error_says_once_where_it_happened():
    def make():
        return Forward(lambda self, x: self.inner(x), inner=Forward(lambda self, x: x.reshape((7,))))
    texts = []
    for hybrid in (False, True):
        net = make()
        if hybrid:
            net.hybridize()
        with pytest.raises(mx.MXNetError) as caught:
            net(nd.ones((2,)))
        texts.append(str(caught.value))
        assert texts[-1].count(", a Forward)") == 1

    def fail(self, x):
        raise mx.MXNetError("a message (in brackets)")
    net = Forward(fail)
    with pytest.raises(mx.MXNetError, match=r"in brackets\) \(in forward"):
        net(nd.ones((1,)))
