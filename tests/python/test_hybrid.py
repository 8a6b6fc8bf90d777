"""hybridize() in Python: what MXNet could not trace, strict mode, structures, export, hooks, @mx.hybrid, one-file models."""
import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn


def block(function):
    """A hybrid block with this hybrid_forward."""
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x, *args):
            return function(F, x, *args)
    return Net()


CANNOT_BE_TRACED_BY_MXNET = {
    "shape": lambda F, x: x.reshape((x.shape[0] * x.shape[1],)),
    "index": lambda F, x: x[0] + x[:, 1:2].sum() + x[..., -1].sum(),
    "broadcast": lambda F, x: x + F.ones((1, 3)) - x.mean(axis=0),
    "compare": lambda F, x: x > F.zeros((2, 1)),
    "in place": lambda F, x: _increase(x * 1),
    "assignment": lambda F, x: _assign(x * 1),
    "array": lambda F, x: x * F.array([1, 2, 3]),
    "mx.nd.array": lambda F, x: nd.relu(x) * nd.array([1, 2, 3]),
    "if": lambda F, x: x * 2 if x.sum() > 0 else x * 3,
    "for": lambda F, x: sum((row * i for i, row in enumerate(x)), x[0]),
    "while": lambda F, x: _double(x),
    "asnumpy": lambda F, x: x * float(np.abs(x.asnumpy()).max()),
    "asscalar": lambda F, x: x / x.norm().asscalar(),
}


def _increase(x):
    x += 1
    x *= 2
    x -= 3
    x /= 4
    return x


def _assign(x):
    x[:, 0] = 5
    x[1] = x[0] + 1
    return x


def _double(x):
    while x.abs().sum() < 100:
        x = x * 2
    return x


@pytest.mark.parametrize("name", CANNOT_BE_TRACED_BY_MXNET)
def test_what_mxnet_cannot_hybridize(name):
    net = block(CANNOT_BE_TRACED_BY_MXNET[name])
    values = [nd.array([[1, -2, 3], [4, 5, -6]]), nd.array([[-1, -2, -3], [-4, 5, -6]]), nd.array([[1, 2, 3], [4, 5, 6]])]
    want = [net(x).asnumpy() for x in values]
    net.hybridize()
    for _ in range(2):
        for x, w in zip(values, want):
            np.testing.assert_allclose(net(x).asnumpy(), w, rtol=1e-6)


@pytest.mark.parametrize("function, error, message", [
    (lambda F, x: x.reshape((x.shape[0],)), AttributeError, "'Symbol' object has no attribute 'shape'"),
    (lambda F, x: x.asnumpy(), AttributeError, "'Symbol' object has no attribute 'asnumpy'"),
    (_increase, NotImplementedError, "in-place"),
    (lambda F, x: x + F.ones((1, 3)), mx.MXNetError, "shape"),
    (lambda F, x: x * F.array([1.0]), AttributeError, "array"),
    (lambda F, x: x * 2 if x.sum() > 0 else x, NotImplementedError, "truth"),
    (lambda F, x: _assign(x), TypeError, "item assignment"),
], ids=["shape", "asnumpy", "+=", "+", "array", "if", "[]="])
def test_strict_gives_the_errors_of_the_documents(function, error, message):
    net = block(lambda F, x: function(F, x) if function is not _increase else _increase(x))
    net.hybridize(strict=True)
    with pytest.raises(error, match=message.replace("[", r"\[")):
        net(nd.ones((2, 3)))


def test_strict_runs_what_mxnet_runs():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.BatchNorm(), nn.Dense(2))
    net.initialize()
    x = nd.random.normal(shape=(5, 3))
    net.hybridize(strict=True)
    got = net(x).asnumpy()
    net.hybridize(False)
    np.testing.assert_allclose(net(x).asnumpy(), got, rtol=1e-5, atol=1e-6)


def test_a_new_batch_size_needs_no_new_trace_and_a_read_extent_does():
    free = block(lambda F, x: F.relu(x) * 2)
    free.hybridize()
    reading = block(lambda F, x: x * x.shape[0])
    reading.hybridize()
    for size in (2, 3, 2, 3):
        free(nd.ones((size, 4)))
        assert (reading(nd.ones((size, 4))).asnumpy() == size).all()
    assert free.stats()["traces"] == 1 and reading.stats()["traces"] == 2


def test_arguments_and_results_keep_their_structure():
    net = block(lambda F, x, pair, scale=None: (x * (scale or 1), [pair[0] + pair[1], {"sum": x.sum()}]))
    x = nd.ones((2,))
    for hybrid in (False, True):
        net.hybridize(hybrid)
        for scale, want in ((None, 1), (3, 3), (4, 4)):
            first, (second, named) = net(x, (x, x * 2), scale)
            assert first.asnumpy()[0] == want and second.asnumpy()[0] == 3 and named["sum"].asscalar() == 2


def test_recording_gives_the_same_gradients():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(3, 3, activation="relu"), nn.BatchNorm(), nn.Flatten(), nn.Dense(2))
    net.initialize(mx.init.Xavier())
    x = nd.random.normal(shape=(4, 2, 6, 6))
    net(x)

    def gradients():
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        return {name: p.grad().asnumpy() for name, p in net.collect_params().items() if p.grad_req != "null"}
    want = gradients()
    net.hybridize()
    for name, got in gradients().items():
        np.testing.assert_allclose(got, want[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_caches_follow_parameters():
    net = nn.Dense(2, in_units=3, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize()
    x = nd.ones((1, 3))
    assert net(x).asnumpy()[0, 0] == 3
    net.weight.set_data(nd.ones((2, 3)) * 2)
    assert net(x).asnumpy()[0, 0] == 6 and net.stats()["traces"] == 1
    net.initialize(mx.init.Constant(5), force_reinit=True)
    assert net(x).asnumpy()[0, 0] == 15
    net.cast("float64")
    assert net(x.astype("float64")).dtype == np.float64


def test_forward_of_mxnet_2_and_deferred_shapes():
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(3)
            self.scale = self.params.get("scale", shape=(3,), init="ones")

        def forward(self, x):
            return self.dense(x) * self.scale.data()
    net = Net()
    net.initialize()
    net.hybridize()
    assert net(nd.ones((2, 5))).shape == (2, 3) and net.dense.weight.shape == (3, 5)


def test_hooks_run_at_every_call():
    net, seen = nn.Dense(2, in_units=2), []
    net.initialize()
    net.hybridize()
    handle = net.register_forward_hook(lambda b, i, o: seen.append(o.shape))
    net(nd.ones((1, 2)))
    net(nd.ones((3, 2)))
    handle.detach()
    net(nd.ones((1, 2)))
    assert seen == [(1, 2), (3, 2)]


def test_names_are_gluons():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    net.initialize()
    net.hybridize()
    net(nd.ones((1, 3)))
    net.export("m")
    symbol = mx.sym.load("m-symbol.json")
    assert symbol.list_arguments() == ["data", "net_dense0_weight", "net_dense0_bias", "net_dense1_weight", "net_dense1_bias"]
    assert symbol.list_outputs() == ["net_dense1_fwd_output"]
    assert "net_dense0_relu_fwd_output" in symbol.get_internals().list_outputs()
    assert net(mx.sym.var("data")).list_outputs() == symbol.list_outputs()


def test_one_file_models():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3), nn.BatchNorm(), nn.Dense(3))
    net.initialize()
    net.hybridize()
    x = nd.random.normal(shape=(2, 1, 5, 5))
    want = net(x).asnumpy()
    net.save("net.gluino")
    loaded = mx.load_block("net.gluino")
    np.testing.assert_allclose(loaded(x).asnumpy(), want, rtol=1e-5, atol=1e-6)
    with pytest.raises(OSError):
        mx.load_block("absent.gluino")


def test_hybrid_function():
    @mx.hybrid
    def f(a, b, scale=1.0):
        if a.sum() > 0:
            return (a * b + 1) * scale
        return a - b
    a, b = nd.array([1, 2]), nd.array([3, 4])
    for _ in range(3):
        assert f(a, b).asnumpy().tolist() == [4, 9]
        assert f(a, b, scale=2.0).asnumpy().tolist() == [8, 18]
        assert f(-a, b).asnumpy().tolist() == [-4, -6]
    assert f.stats()["traces"] == 3 and f.stats()["calls"] == 9


def test_errors_in_a_trace_are_the_users_own_and_leave_the_block_usable():
    class Mine(Exception):
        pass
    state = {"fail": True}

    def function(F, x):
        if state["fail"]:
            raise Mine("from the user")
        return x + 1
    net = block(function)
    net.hybridize()
    with pytest.raises(Mine, match="from the user"):
        net(nd.ones((2,)))
    assert not mx._core.is_tracing()
    state["fail"] = False
    assert net(nd.ones((2,))).asnumpy().tolist() == [2, 2]


def test_control_flow_operators():
    def loop(F, x):
        out, state = F.contrib.foreach(lambda row, s: (row + s, row + s), x, F.zeros((3,)))
        return out, state
    net = block(loop)
    x = nd.array([[1, 2, 3], [4, 5, 6]])
    want = [o.asnumpy() for o in net(x)]
    net.hybridize()
    for got, w in zip(net(x), want):
        np.testing.assert_array_equal(got.asnumpy(), w)
    assert want[1].tolist() == [5, 7, 9]
    out, values = mx.nd.contrib.while_loop(lambda i, s: i < 4, lambda i, s: (s + i, [i + 1, s + i]), [nd.array([0]), nd.array([0])], max_iterations=10)
    assert values[1].asscalar() == 6
    assert mx.nd.contrib.cond(nd.array([1]), lambda: nd.array([2]), lambda: nd.array([3])).asscalar() == 2


def test_concurrent_of_the_exercise():
    net = gluon.contrib.nn.HybridConcurrent(axis=1)
    net.add(nn.Dense(2), nn.Dense(3), gluon.contrib.nn.Identity())
    net.initialize()
    x = nd.ones((1, 4))
    want = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_array_equal(net(x).asnumpy(), want)
    assert want.shape == (1, 9)
    with pytest.raises(ValueError, match="must also be HybridBlock"):
        net.add(nn.Sequential())


def test_static_shape_is_a_hint():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, activation="relu"), nn.Dense(2))
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True, data_indices=(0,), param_indices=(1,))
    for rows in (4, 4, 3):  # the last batch of an epoch is often smaller
        x = nd.ones((rows, 5))
        with autograd.record():
            y = net(x)
        y.backward()
        assert y.shape == (rows, 2)


@pytest.mark.parametrize("flags, told", [({"nonsense": 1}, "no option is named 'nonsense'; there are .*max_plans"), ({"verify": "yes"}, "verify cannot be 'yes'"),
                                         ({"max_plans": 2.5}, "max_plans cannot be 2.5")])
def test_a_wrong_option_is_named(flags, told):
    with pytest.raises(TypeError, match=told):
        mx.hybrid(lambda x: x, **flags)(nd.ones((1,)))
    net = nn.Dense(2)
    net.initialize()
    with pytest.raises(TypeError, match=told.replace(".*max_plans", ".*")):
        net.hybridize(**flags)
        net(nd.ones((1, 2)))
