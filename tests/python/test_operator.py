"""Operators written in Python: mx.operator.CustomOp under its names in mx.nd and mx.sym, eager, hybridized, exported, bound."""
import gc
import json
import pathlib
import threading
import weakref

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd, sym


class Softmax(mx.operator.CustomOp):
    """A loss: its gradient does not ask for one of the output."""

    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1, keepdims=True))
        self.assign(out_data[0], req[0], mx.nd.array(y / y.sum(axis=1, keepdims=True)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        label = in_data[1].asnumpy().ravel().astype(int)
        y = out_data[0].asnumpy()
        y[np.arange(label.shape[0]), label] -= 1.0
        self.assign(in_grad[0], req[0], mx.nd.array(y))


@mx.operator.register("softmax_of_numpy")
class SoftmaxProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        assert isinstance(ctx, mx.Context)
        return Softmax()


class ScaledSquare(mx.operator.CustomOp):
    """Keeps what backward needs on itself, counts its calls in a state."""
    made = 0

    def __init__(self, scale):
        ScaledSquare.made += 1
        self.scale, self.kept = scale, None

    def forward(self, is_train, req, in_data, out_data, aux):
        self.kept = in_data[0]
        self.assign(out_data[0], req[0], in_data[0] * in_data[0] * self.scale)
        self.assign(out_data[1], req[1], in_data[0] + 1)
        aux[0][:] += 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        assert (self.kept == in_data[0]).asnumpy().all()
        self.assign(in_grad[0], req[0], 2 * self.scale * self.kept * out_grad[0] + out_grad[1])


@mx.operator.register("scaled_square")
class ScaledSquareProp(mx.operator.CustomOpProp):
    def __init__(self, scale="1"):
        super().__init__()
        assert isinstance(scale, str)
        self.scale = float(scale)

    def list_outputs(self):
        return ["square", "next"]

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]] * 2, [(1,)]

    def create_operator(self, ctx, shapes, dtypes):
        return ScaledSquare(self.scale)


def test_a_call_on_arrays_has_its_gradient():
    x, label = nd.array([[1, 2, 3], [3, 2, 1]]), nd.array([2, 1])
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, label, op_type="softmax_of_numpy")
    y.backward()
    want = nd.softmax(x).asnumpy()
    np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-5)
    want[[0, 1], [2, 1]] -= 1
    np.testing.assert_allclose(x.grad.asnumpy(), want, rtol=1e-5)
    assert nd.Custom(data=x, label=label, op_type="softmax_of_numpy").shape == (2, 3)


class Net(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.dense = gluon.nn.Dense(3, in_units=2)
            self.count = self.params.get("count", shape=(1,), init="zeros", grad_req="null")

    def hybrid_forward(self, F, x, count):
        square, following = F.Custom(self.dense(x), count, scale=0.5, op_type="scaled_square", name="mine")
        return square + following


def gradients(net, x):
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    return y.asnumpy(), x.grad.asnumpy(), net.dense.weight.grad().asnumpy()


def test_a_block_with_it_is_hybridized_exported_and_imported():
    net = Net()
    net.initialize(mx.init.Normal(1))
    x = nd.random.normal(shape=(4, 2))
    eager = gradients(net, x)
    net.hybridize()
    for _ in range(2):
        for ours, theirs in zip(gradients(net, x), eager):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert net.count.data().asscalar() == 3
    net.export("mine")
    node = next(n for n in json.loads(pathlib.Path("mine-symbol.json").read_text())["nodes"] if n["op"] == "Custom")
    assert node["attrs"] == {"op_type": "scaled_square", "scale": "0.5"} and node["name"].endswith("mine")
    loaded = gluon.SymbolBlock.imports("mine-symbol.json", ["data"], "mine-0000.params")
    np.testing.assert_allclose(loaded(x).asnumpy(), eager[0], rtol=1e-5)


@pytest.mark.parametrize("hybrid", [False, True])
def test_calls_before_a_backward_do_not_share_what_they_keep(hybrid):
    net = Net()
    net.initialize(mx.init.Normal(1))
    if hybrid:
        net.hybridize()
    inputs = [nd.random.normal(shape=(4, 2)) for _ in range(3)]
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        outputs = [net(x) for x in inputs]
    for y in reversed(outputs):
        y.backward()
    for x in inputs:
        assert np.abs(x.grad.asnumpy()).sum() > 0


@pytest.mark.parametrize("hybrid", [False, True])
def test_an_operator_is_made_for_every_run(hybrid):
    net = Net()
    net.initialize(mx.init.Normal(1))
    if hybrid:
        net.hybridize()
    x = nd.random.normal(shape=(4, 2))
    gradients(net, x)
    before = ScaledSquare.made
    for _ in range(5):
        gradients(net, x)
    assert ScaledSquare.made == before + 5


def test_a_symbol_makes_its_variables_and_is_bound():
    net = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
    net = sym.Custom(data=net, name="softmax", op_type="softmax_of_numpy")
    assert net.list_arguments() == ["data", "fc_weight", "fc_bias", "softmax_label"] and net.list_outputs() == ["softmax_output"]
    arguments, outputs, _ = net.infer_shape(data=(5, 4))
    assert arguments[-1] == (5,) and outputs == [(5, 3)]
    square = sym.Custom(sym.var("x"), op_type="scaled_square", name="sq")
    assert square.list_outputs() == ["sq_square", "sq_next"] and square.list_auxiliary_states() == ["sq_count"]
    assert sym.load_json(net.tojson()).list_arguments() == net.list_arguments()
    executor = net.simple_bind(mx.cpu(), data=(5, 4))
    executor.arg_dict["data"][:] = nd.random.normal(shape=(5, 4))
    executor.arg_dict["fc_weight"][:] = nd.random.normal(shape=(3, 4))
    executor.forward(is_train=True)
    executor.backward()
    assert np.abs(executor.grad_dict["fc_weight"].asnumpy()).sum() > 0


def test_a_module_learns_with_it():
    rng = np.random.RandomState(0)
    x = rng.randn(200, 4).astype("float32")
    y = (x[:, 0] > x[:, 1]).astype("float32")
    net = sym.Custom(sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc"), name="softmax", op_type="softmax_of_numpy")
    module = mx.mod.Module(net, label_names=["softmax_label"])
    data = mx.io.NDArrayIter(x, y, 20, shuffle=True)
    module.fit(data, num_epoch=8, optimizer_params={"learning_rate": 0.5}, initializer=mx.init.Xavier())
    assert module.score(data, "acc")[0][1] > 0.9


def test_errors():
    with pytest.raises(mx.MXNetError, match="no operator is registered as 'absent'"):
        nd.Custom(nd.ones((1,)), op_type="absent")
    with pytest.raises(TypeError, match="'label' of 'softmax_of_numpy' is missing"):
        nd.Custom(nd.ones((1, 2)), op_type="softmax_of_numpy")
    with pytest.raises(TypeError, match="no input named 'other'"):
        nd.Custom(nd.ones((1, 2)), nd.ones((1,)), other=nd.ones((1,)), op_type="softmax_of_numpy")

    class Failing(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            if in_data[0].shape[0] > 1:
                raise KeyError("forward of mine")
            self.assign(out_data[0], req[0], in_data[0])

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            raise KeyError("backward of mine")

    @mx.operator.register("failing")
    class FailingProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Failing()

    for function in (lambda x: nd.Custom(x, op_type="failing"), mx.hybrid(lambda x: nd.Custom(x, op_type="failing"))):
        with pytest.raises(KeyError, match="forward of mine"):
            function(nd.ones((2,)))
        x = nd.ones((1,))
        x.attach_grad()
        with autograd.record():
            y = function(x)
        with pytest.raises(KeyError, match="backward of mine"):
            y.backward()


def test_threads_run_it_at_the_same_time():
    net = Net()
    net.initialize(mx.init.Normal(1))
    net.hybridize()
    x = nd.random.normal(shape=(4, 2))
    want = net(x).asnumpy()
    wrong = []

    def work():
        for _ in range(20):
            if not np.allclose(net(x).asnumpy(), want, rtol=1e-5):
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arrays_of_numpy_mode():
    class Twice(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            assert isinstance(in_data[0], mx.np.ndarray)
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * 2)

    @mx.operator.register("twice")
    class TwiceProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Twice()
    mx.npx.set_np()
    x = mx.np.ones((3,))
    x.attach_grad()
    with autograd.record():
        y = mx.npx.custom(x, op_type="twice")
    y.backward()
    assert isinstance(y, mx.np.ndarray) and x.grad.asnumpy().tolist() == [2, 2, 2]


def test_operators_go_with_what_used_them():
    alive = []

    class Kept(mx.operator.CustomOp):
        def __init__(self):
            alive.append(weakref.ref(self))

        def forward(self, is_train, req, in_data, out_data, aux):
            self.kept = in_data[0]
            self.assign(out_data[0], req[0], in_data[0])

    @mx.operator.register("kept")
    class KeptProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Kept()

    def use():
        x = nd.ones((2,))
        x.attach_grad()
        functions = [lambda x: nd.Custom(x, op_type="kept"), mx.hybrid(lambda x: nd.Custom(x, op_type="kept"))]
        for function in functions:
            for _ in range(3):
                with autograd.record():
                    y = function(x)
            y.backward()
        sym.Custom(sym.var("x"), op_type="kept").eval(x=x)
    use()
    gc.collect()
    assert len(alive) >= 4 and not any(ref() for ref in alive)
