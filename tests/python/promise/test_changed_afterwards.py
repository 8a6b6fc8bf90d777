"""What a gradient needs, changed before it is asked for."""
import numpy as np
import pytest
from promise import Forward, both

import gluino as mx
from gluino import autograd, gluon, nd


@pytest.mark.parametrize("kept", ["saved", "attribute", "result", "nothing", "passed on"])
@pytest.mark.parametrize("change", ["memory", "recorded", "none"])
def test_what_a_function_keeps_for_its_gradient_is_what_it_was(kept, change):
    """Eager code may have lost it, which is an error; a program may have it still. Nobody uses another."""
    class Cube(autograd.Function):
        def forward(self, x):
            if kept == "saved":
                self.save_for_backward(x)
            elif kept == "attribute":
                self.what = [x]
            if kept == "passed on":
                return x
            self.result = x * x * x
            return self.result if kept == "result" else x * x * x

        def backward(self, dy):
            if kept == "saved":
                return dy * self.saved_tensors[0] * 3
            if kept == "attribute":
                return dy * self.what[0] * 3
            return dy * self.result if kept == "result" else dy * 2

    def forward(self, x):
        y = x * 1
        z = Cube()(y)
        changed = z if kept == "result" else y
        if change == "memory":
            with autograd.pause():
                changed[0:2] *= 0.5
        elif change == "recorded":
            changed *= 0.5
        return z * 1

    seen = []
    for flags in (None, {}, {}, {"verify": True}):
        net = Forward(forward)
        if flags is not None:
            net.hybridize(**flags)
        for _ in range(3):
            x = nd.array([1.0, 2, 3])
            x.attach_grad()
            with autograd.record():
                y = net(x)
            try:
                y.backward()
                seen.append((y.asnumpy().tolist(), x.grad.asnumpy().tolist()))
            except mx.MXNetError as error:
                assert "a user's Function keeps was changed in place" in str(error)
                seen.append((y.asnumpy().tolist(), None))
    values = {str(s[0]) for s in seen}
    gradients = {str(s[1]) for s in seen if s[1] is not None}
    assert len(values) == 1 and len(gradients) <= 1
    lost = change == "memory" and kept in ("saved", "attribute")
    assert all((s[1] is None) == lost for s in seen[:3])


@pytest.mark.parametrize("loop", ["foreach", "while_loop", "cond"])
@pytest.mark.parametrize("reads", ["before", "after", "never"])
def test_what_a_loop_was_given_may_change_after_it(loop, reads):
    """Its steps have kept what their gradients need."""
    def forward(self, x):
        if loop == "foreach":
            y = nd.contrib.foreach(lambda row, s: (row + self.state, s * 0.5 + row), x, x[0] * 1)[0]
        elif loop == "while_loop":
            y = nd.contrib.while_loop(lambda i, s: i < 2, lambda i, s: (s + self.state, (i + 1, s * 2)), (x.sum() * 0, x * 1), max_iterations=2)[0][0]
        else:
            y = nd.contrib.cond(x.sum() > 2, lambda: x + self.state, lambda: x * 2)
        if reads == "before" and x.sum() > 100:
            return x
        self.state += 0.125
        x[0] = 3
        if reads == "after" and x.sum() > 100:
            return x
        return y * self.state

    def drive(net):
        seen = []
        for rows in (3, 2, 3, 3, 4, 5, 6, 3):
            source = nd.ones((rows, 4))
            source.attach_grad()
            with autograd.record():
                y = net(source * 1)
            y.backward()
            seen += [y, source.grad, net.state * 1]
        return seen
    both(lambda: Forward(forward, state=nd.ones((4,))), drive)


class Normalised(gluon.HybridBlock):
    """Spectral normalisation: the vector of the power iteration is stored under pause() in forward, which has read it."""

    def __init__(self, also_weight=False):
        super().__init__()
        self._also_weight = also_weight
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(3, 3), init=mx.init.Normal(1))
            self.u = self.params.get("u", shape=(1, 3), init=mx.init.Normal(1), grad_req="null")

    def forward(self, x):
        w, u = self.weight.data(x.context), self.u.data(x.context)
        v = nd.L2Normalization(nd.dot(u, w))
        following = nd.L2Normalization(nd.dot(v, w.T))
        sigma = (nd.dot(following, w) * v).sum()
        with autograd.pause():
            self.u.set_data(following)
            if self._also_weight:
                self.weight.set_data(w * 0.5)
        return nd.FullyConnected(x, w / sigma, no_bias=True, num_hidden=3)


def around(call):
    """A network over the layer whose own forward is Python."""
    class Around(gluon.Block):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return call(self.layer, x)
    return Around


USES = {"once": lambda layer, x: layer(x), "twice": lambda layer, x: layer(x) + layer(x * 2), "read before": lambda layer, x: layer.u.data(x.context) * x + layer(x),
        "read behind": lambda layer, x: layer(x) * layer.u.data(x.context), "read between": lambda layer, x: layer(x) * (layer.u.data(x.context) * x) + layer(x * 3),
        "without recording": lambda layer, x: without_recording(layer, x) + layer(x)}


def without_recording(layer, x):
    with autograd.pause():
        return layer(x)


@pytest.mark.parametrize("contexts", (1, 2))
@pytest.mark.parametrize("also_weight", (False, True))
@pytest.mark.parametrize("use", USES)
def test_parameters_that_forward_stores_under_pause(use, also_weight, contexts):
    """What was recorded keeps the values that it has read; everybody else sees the new ones."""
    def life(hybridized, backward):
        np.random.seed(3)
        mx.random.seed(3)
        layer = Normalised(also_weight)
        net = around(USES[use])(layer)
        places = [mx.cpu(i) for i in range(contexts)]
        net.initialize(ctx=places)
        layer.hybridize(hybridized)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        seen, held = [], [layer.u.data(place) for place in places]
        views = [view for array in held for view in (array[0], array.reshape((3,)), array.detach())]
        inputs = [nd.array(np.random.randn(2, 3), ctx=place) for place in places]
        for x in inputs:
            x.attach_grad()
        for _ in range(4):
            with autograd.record():
                losses = [(net(x) ** 2).sum() for x in inputs]
            backward(losses, inputs, seen)
            trainer.step(2, ignore_stale_grad=True)
            seen += [x.grad.asnumpy() for x in inputs]
            seen += [array.asnumpy() for p in (layer.weight, layer.u) for array in p.list_data()]
            for k, array in enumerate(held):
                assert layer.u.list_data()[k] is array
                for view in views[3 * k:3 * k + 3]:
                    np.testing.assert_array_equal(view.asnumpy().ravel(), array.asnumpy().ravel())
        return seen

    def all_at_once(losses, inputs, seen):
        autograd.backward(losses)

    def one_by_one(losses, inputs, seen):
        for loss, x in zip(losses, inputs):
            seen += [g.asnumpy() for g in autograd.grad(loss, [x], retain_graph=True)]
            loss.backward()

    def again(losses, inputs, seen):
        for loss, x in zip(losses, inputs):
            with autograd.record():
                first, = autograd.grad(loss, [x], create_graph=True)
                penalty = (first ** 2).sum()
            penalty.backward()
    for backward in (all_at_once, one_by_one, again):
        for expected, found in zip(life(False, backward), life(True, backward)):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_what_forward_has_read():
    """By hand: the value from before is what the product's gradient needs."""
    class Scaled(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.scale = self.params.get("scale", shape=(1,), init=mx.init.Constant(3), grad_req="null")

        def forward(self, x):
            scale = self.scale.data()
            y = x * scale
            with autograd.pause():
                self.scale.set_data(scale + 1)
            return y
    for hybridized in (False, True):
        net = Scaled()
        net.initialize()
        net.hybridize(hybridized)
        x = nd.ones((2,))
        x.attach_grad()
        for expected in (3, 4, 5):
            with autograd.record():
                y = net(x)
            assert net.scale.data().asscalar() == expected + 1
            y.backward()
            assert x.grad.asnumpy().tolist() == [expected] * 2
        net.scale.set_data(nd.zeros((1,)))  # not while recording: in place
        assert net(x).asnumpy().tolist() == [0, 0] and net.scale.data().asscalar() == 1


def test_values_stored_after_recording_are_changes():
    """set_data() outside of a recording is an update in place, which backward tells of."""
    weight = gluon.Parameter("w", shape=(2,), init=mx.init.One())
    weight.initialize()
    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = x * weight.data()
    weight.set_data(nd.zeros((2,)))
    with pytest.raises(mx.MXNetError, match="changed in place"):
        y.backward()
