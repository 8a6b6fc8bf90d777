"""Networks that come back from files: they are trained, cast and saved as the layers they were exported from."""
import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn

DEVICES = [mx.cpu(0), mx.cpu(1)]
MODES = {"eager": None, "hybridized": {}, "verified": {"verify": True}}


def exported(path, *layers, shape=(2, 2, 5, 5)):
    mx.random.seed(1)
    net = nn.HybridSequential()
    net.add(*layers)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(nd.ones(shape))
    net.export(str(path / "net"))
    return net


def with_norm(path):
    return exported(path, nn.Conv2D(4, 3), nn.BatchNorm(), nn.Activation("relu"), nn.Dense(3))


def imported(path, flags=None, ctx=None):
    net = gluon.SymbolBlock.imports(str(path / "net-symbol.json"), ["data"], str(path / "net-0000.params"), ctx=ctx)
    if flags is not None:
        net.hybridize(**flags)
    return net


def images(seed, count=4):
    return nd.array(np.random.RandomState(seed).rand(count, 2, 5, 5))


def trained(net, contexts):
    """Losses of some steps, and what the parameters are then on every device."""
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    seen = []
    for step in range(4):
        parts = gluon.utils.split_and_load(images(step), contexts)
        with autograd.record():
            losses = [(net(part) ** 2).sum() for part in parts]
        autograd.backward(losses)
        seen += [(loss.asscalar(), str(loss.context)) for loss in losses]
        trainer.step(4)
    return seen, [p.data(ctx).asnumpy() for p in net.collect_params().values() for ctx in contexts]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("contexts", [DEVICES, DEVICES[1:]], ids=["both", "second"])
def test_training_on_several_devices(tmp_path, mode, contexts):
    layers = with_norm(tmp_path)
    layers.hybridize(False)
    layers.collect_params().reset_ctx(contexts)
    expected, found = trained(layers, contexts), trained(imported(tmp_path, MODES[mode], contexts), contexts)
    assert [where for _, where in found[0]] == [where for _, where in expected[0]]
    np.testing.assert_allclose([loss for loss, _ in found[0]], [loss for loss, _ in expected[0]], rtol=1e-4)
    for f, e in zip(found[1], expected[1]):
        np.testing.assert_allclose(f, e, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_casting(tmp_path, mode, dtype):
    layers, net = with_norm(tmp_path), imported(tmp_path, MODES[mode])
    layers.hybridize(False)
    x = images(0)
    for norm in (layers[1].running_mean, net.collect_params()[layers[1].running_mean.name]):
        norm.set_data(nd.array([1.0003, -2.0007, 3.0001, 0.5002]))  # numbers that float16 does not have
    for block in (layers, net):
        block(x)
        block.cast(dtype)
    dtypes = [{name: p.dtype for name, p in block.collect_params().items()} for block in (layers, net)]
    assert dtypes[1] == dtypes[0]
    for _ in range(2):
        expected, found = (block(x.astype(dtype)) for block in (layers, net))
        assert found.dtype == expected.dtype
        tolerance = {"float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-6}[dtype]
        np.testing.assert_allclose(found.asnumpy().astype("float64"), expected.asnumpy().astype("float64"), rtol=tolerance, atol=tolerance)
    net.cast("float32")
    assert {p.dtype for p in net.collect_params().values()} == {np.float32}


@pytest.mark.parametrize("ways", ["alone", "inside"])
def test_one_parameter_is_saved_and_loaded(tmp_path, ways):
    exported(tmp_path, nn.Dense(3, use_bias=False), shape=(2, 4))
    net, other = (imported(tmp_path) for _ in range(2))
    weight, = net.collect_params().values()
    other_weight, = other.collect_params().values()
    if ways == "inside":
        net, other = (_around(block) for block in (net, other))
    written = [("save_parameters", "load_parameters"), ("save", "load")]
    if ways == "alone":
        written.append(("save_params", "load_params"))
    for k, (save, load) in enumerate(written):
        weight.set_data(nd.full(weight.shape, k + 1))
        getattr(net, save)(str(tmp_path / save))
        getattr(other, load)(str(tmp_path / save))
        assert (other_weight.data().asnumpy() == k + 1).all()
    names = nd.load(str(tmp_path / "save_parameters"))
    assert isinstance(names, dict) and all(name.endswith("weight") for name in names)


def _around(block):
    net = nn.HybridSequential()
    net.add(block)
    net.hybridize()
    net(nd.ones((1, 4)))
    return net


def test_one_parameter_without_a_name_in_its_file(tmp_path):
    """MXNet writes one parameter under an empty name."""
    exported(tmp_path, nn.Dense(3, use_bias=False), shape=(2, 4))
    nd.save(str(tmp_path / "old"), {"": nd.full((3, 4), 7)})
    net = imported(tmp_path)
    net.load_parameters(str(tmp_path / "old"))
    assert (next(iter(net.collect_params().values())).data().asnumpy() == 7).all()
    nd.save(str(tmp_path / "two"), [nd.ones((3, 4)), nd.ones((3, 4))])
    with pytest.raises(ValueError, match="without names"):
        net.load_parameters(str(tmp_path / "two"))


@pytest.mark.parametrize("names", [["w"], ["w", "w2"], ["net_", "net_a"], ["a_w", "b_w"], ["net0_w", "net0_w_scale"]], ids=str)
def test_no_parameter_is_saved_under_an_empty_name(tmp_path, names):
    def made(value):
        parts = [mx.sym.broadcast_mul(mx.sym.var("data"), mx.sym.var(name, shape=(1,))) for name in names]
        net = gluon.SymbolBlock(mx.sym.add_n(*parts, num_args=len(parts)), [mx.sym.var("data")])
        net.initialize(mx.init.Constant(value))
        net(nd.ones((1,)))
        return net
    made(3).save_parameters(str(tmp_path / "p"))
    assert all(nd.load(str(tmp_path / "p")))
    net = made(5)
    net.load_parameters(str(tmp_path / "p"))
    assert net(nd.ones((1,))).asscalar() == 3 * len(names)
