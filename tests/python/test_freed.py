"""Networks free their memory when they are dropped, without the garbage collector."""
import copy
import gc
import weakref

import pytest

import gluino as mx
import layer_samples
from gluino import _core, autograd, gluon, nd
from gluino.gluon import nn


@pytest.fixture(autouse=True)
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_every_class_has_a_sample():
    assert not layer_samples.all_classes() - set(layer_samples.SAMPLES) - layer_samples.BASES


def _everything_of(block):
    blocks = [block]
    for b in blocks:
        blocks.extend(b._children.values())
    params = list(block.collect_params().values())
    return [weakref.ref(thing) for thing in [*blocks, *params, *(array for p in params if p._data for array in p._data)]]


def _train(block, inputs, steps=2):
    params = block.collect_params()
    trainer = gluon.Trainer(params, "adam") if len(params) else None
    for _ in range(steps):
        for x in inputs:
            x.attach_grad()
        with autograd.record():
            out = layer_samples.run(block, inputs)
            out = out[0] if isinstance(out, (list, tuple)) else out
        out.backward()
        if trainer is not None:
            trainer.step(1, ignore_stale_grad=True)


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("name", sorted(layer_samples.SAMPLES))
def test_layer(name, hybridized):
    make, inputs = layer_samples.SAMPLES[name]
    block, inputs = make(), inputs()
    block.initialize()
    if hybridized:
        block.hybridize()
    layer_samples.run(block, inputs)
    _train(block, inputs)
    left = _everything_of(block)
    del block
    assert not [ref() for ref in left if ref() is not None]


class _State(gluon.HybridBlock):
    """Attributes that compiled code reads and writes, a closure, and a list."""

    def __init__(self):
        super().__init__()
        self.dense, self.last, self.table = nn.Dense(3), None, [1.0, 2.0]
        self.scaled = lambda x, factor=2.0: x * factor

    def forward(self, x):
        y = self.scaled(self.dense(x)) * self.table[0]
        self.last = y
        return y if float(x.sum().asscalar()) > 1e9 else y + 1


@pytest.mark.parametrize("strict", [False, True])
def test_attributes_of_compiled_blocks(strict):
    net = nn.HybridSequential() if strict else _State()
    if strict:
        net.add(nn.Dense(3))
    net.initialize()
    net.hybridize(strict=strict)
    x = nd.ones((2, 4))
    for _ in range(3):
        with autograd.record():
            y = net(x)
        y.backward()
    left = _everything_of(net)
    del net
    assert not [ref() for ref in left if ref() is not None]
    assert y.shape == (2, 3)


@pytest.mark.parametrize("hybridized", [False, True])
def test_results_outlive_their_network(hybridized):
    net = nn.Dense(1, in_units=2)
    net.initialize(mx.init.One())
    if hybridized:
        net.hybridize()
    x = nd.array([[1.0, 2.0]])
    x.attach_grad()
    with autograd.record():
        y = net(x) ** 2
        del net
        slope = autograd.grad(y, x, create_graph=True)[0]
    slope.backward()
    assert slope.asnumpy().tolist() == [[6.0, 6.0]] and x.grad.asnumpy().tolist() == [[4.0, 4.0]]


def _bytes_in_use():
    return _core.memory_stats(0)["live"]


@pytest.mark.parametrize("hybridized", [False, True])
def test_zoo_networks_one_after_the_other(hybridized):
    from gluino.gluon.model_zoo import vision
    x, used = nd.ones((2, 3, 64, 64)), []
    for _ in range(3):
        net = vision.mobilenet0_25(classes=10)
        net.initialize()
        if hybridized:
            net.hybridize()
        _train(net, [x])
        del net
        x.grad[:] = 0
        used.append(_bytes_in_use())
    assert used[0] == used[1] == used[2]


def test_copies_compile_their_own():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.hybridize()
    x = nd.ones((1, 3))
    expected = net(x).asnumpy()
    shallow, deep = copy.copy(net), copy.deepcopy(net)
    assert shallow._cache is None and deep._cache is None
    deep.weight.set_data(nd.zeros((2, 3)))
    assert (shallow(x).asnumpy() == expected).all() and (deep(x).asnumpy() == 0).all() and (net(x).asnumpy() == expected).all()


@pytest.mark.parametrize("kind", ["trainer", "module", "executor", "updater"])
def test_users_of_arrays(kind):
    net = nn.Dense(2, in_units=3)
    net.initialize()
    symbol = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"), name="softmax")
    if kind == "trainer":
        thing = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    elif kind == "updater":
        thing = mx.optimizer.get_updater(mx.optimizer.create("adam"))
        thing(0, nd.ones((2, 3)), net.weight.data())
    elif kind == "executor":
        thing = symbol.simple_bind(data=(4, 3))
        thing.forward(is_train=True)
        thing.backward()
    else:
        thing = mx.mod.Module(symbol)
        thing.bind([("data", (4, 3))], [("softmax_label", (4,))])
        thing.init_params()
        thing.init_optimizer()
        thing.forward_backward(mx.io.DataBatch([nd.ones((4, 3))], [nd.ones((4,))]))
        thing.update()
    gone = weakref.ref(thing)
    del thing
    assert gone() is None


def test_scope_of_a_block_that_nobody_holds():
    with nn.HybridSequential(prefix="made_").name_scope():
        assert nn.Dense(1).prefix == "made_dense0_"
    net = nn.HybridSequential(prefix="kept_")
    with net.name_scope():
        first = nn.Dense(1)
    with net.name_scope():
        second = nn.Dense(1)
    assert [first.prefix, second.prefix] == ["kept_dense0_", "kept_dense1_"]
