"""Arrays that a forward makes itself, of numbers of its own or of values it has read: each call has new ones, whatever becomes of them."""
import numpy as onp
import pytest
from promise import both

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn

MADE = {
    "of numbers": lambda x: nd.array([1.0, 2.0, 3.0]),
    "of NumPy's": lambda x: nd.array(onp.arange(3, dtype="float32") + 0.5),
    "of extents": lambda x: nd.array([x.shape[0], 2.0, x.shape[1]]),
    "of a value": lambda x: nd.array([float(x[0, 0].asscalar()), 0.0, 1.0]),
    "of all values": lambda x: nd.array(x.asnumpy()[0] * 2),
    "by an operator": lambda x: nd.ones((3,)),
    "full": lambda x: nd.full((3,), float(x.shape[0])),
    "by mask": lambda x: nd.contrib.boolean_mask(x[0], nd.array([1, 1, 1])),
    "a part": lambda x: nd.array([[5.0, 1.0, 2.0, 3.0]])[0, 1:4],
    "a row": lambda x: nd.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])[1],
    "reshaped": lambda x: nd.array([[1.0, 2.0, 3.0]]).reshape((3,)),
    "of mx.np": lambda x: mx.np.array([1.0, 2.0, 3.0]).as_nd_ndarray(),
}


def add(v, x):
    v += x[0]


def double(v, x):
    v *= 2


def put_a_number(v, x):
    v[0] = 7


def put_a_value(v, x):
    v[1:] = x[0, 1:] * 2


def put_all(v, x):
    v[:] = x[0]


def put_a_list(v, x):
    v[:] = [4, 5, 6]


def put_where(v, x):
    v[nd.array([0, 2])] = x[0, 0]


def put_out(v, x):
    nd.broadcast_add(v, x[0], out=v)


def under_pause(v, x):
    with autograd.pause():
        v += x[1]


def twice(v, x):
    v += 1
    v *= x[0]
    v[2] = v[0]


def through_a_view(v, x):
    row = v[0:2]
    row += x[0, 0:2]
    v *= 2
    row[0] = 9


def after_a_reader(v, x):
    w = v * 2
    v += w
    w += v


def after_a_look(v, x):
    if v.sum().asscalar() > 3:
        v += x[0]
    v -= 1


def in_a_loop(v, x):
    for k in range(3):
        v += k * x[0]


def not_at_all(v, x):
    pass


CHANGES = [add, double, put_a_number, put_a_value, put_all, put_a_list, put_where, put_out, under_pause, twice, through_a_view, after_a_reader, after_a_look, in_a_loop, not_at_all]


class Net(gluon.HybridBlock):
    def __init__(self, make, change, end):
        super().__init__()
        self.make, self.change, self.end = make, change, end

    def forward(self, x):
        v = self.make(x)
        first = x + v
        self.change(v, x)
        if self.end == "kept":
            self.kept = v
        if self.end == "kept, seen otherwise":
            self.kept = v.reshape((1, 3))
        if self.end == "both":
            return first, x * v, v, v
        if self.end == "view":
            return first, v[0:2], v
        if self.end == "seen otherwise":
            return first, v.reshape((3, 1))
        return first + v * x


@pytest.mark.parametrize("end", ["used", "both", "view", "seen otherwise", "kept", "kept, seen otherwise"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("made", MADE)
def test_each_call_has_new_ones(made, change, end):
    def drive(net):
        seen = []
        for call in range(6):
            rows = [2, 2, 3, 2, 3, 2][call]
            x = nd.array(onp.arange(rows * 3).reshape(rows, 3) * 0.25 + 0.5 * (call % 3))
            x.attach_grad()
            if call % 2 or call > 3:
                with autograd.record():
                    results = net(x)
            else:
                results = net(x)
            results = results if isinstance(results, tuple) else (results,)
            seen += [r * 1 for r in results]
            if call % 2 or call > 3:
                results[0].backward()
                seen.append(x.grad * 1)
            if end.startswith("kept"):
                results = (*results, net.kept)
                seen.append(net.kept * 1)
            for r in results:
                with autograd.pause():
                    r[:] = 50  # what a later call has is not this one
            seen += [r * 1 for r in results]
        return seen
    both(lambda: Net(MADE[made], change, end), drive)


class Initialised(gluon.HybridBlock):
    """Its parameters are initialised while it is traced, and it looks at them."""
    def __init__(self, look):
        super().__init__()
        self.layer, self.look = nn.Dense(2), look

    def forward(self, x):
        y = self.layer(x)
        return y * self.look(self.layer.weight.data())


@pytest.mark.parametrize("look", [
    lambda w: float(w.asnumpy()[0, 0]), lambda w: w[0, 0].asscalar(), lambda w: 2 if w.sum() > 0 else 3, lambda w: w.norm().asscalar(), lambda w: nd.array(w.asnumpy()).sum(),
    lambda w: float(onp.asarray(w).max()), lambda w: w.asnumpy().tolist()[0][0]], ids=range(7))
def test_parameters_that_were_initialised_by_the_first_call_are_read_at_every_call(look):
    def drive(net):
        net.initialize(mx.init.Uniform(1))
        seen = []
        for call in range(5):
            seen.append(net(nd.array([[1.0, 2.0], [3.0, 4.0]][:1 + call % 2])))
            net.layer.weight.set_data(net.layer.weight.data() * -1.5)
        return seen
    both(lambda: Initialised(look), drive)


@pytest.mark.parametrize("use", [
    lambda v, x: x + float(v.asnumpy()[0]), lambda v, x: x + v, lambda v, x: x + v if v[0] > 3 else x - v, lambda v, x: x * v.asnumpy().sum()], ids=range(4))
@pytest.mark.parametrize("update", [False, True])
def test_what_the_first_call_made_and_kept_is_an_array_from_outside_later(use, update):
    class Lazy(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.v = None

        def forward(self, x):
            if self.v is None:
                self.v = nd.array([1.0, 2.0])
            if update:
                self.v += 1
            return use(self.v, x)

    def drive(net):
        seen = []
        for call in range(6):
            seen += [net(nd.ones((1 + call % 2, 2))), net.v * 1]
            net.v[:] = call
        return seen
    both(Lazy, drive)
