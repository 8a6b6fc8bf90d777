"""Symbols, and the blocks and modules made of them."""
import pathlib

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd, sym


def test_symbols():
    data = sym.var("data", shape=(2, 3))
    with mx.AttrScope(ctx_group="one"):
        net = sym.FullyConnected(data, num_hidden=4, name="fc")
    assert net.attr("__ctx_group__") == "one"
    net = sym.Activation(net, act_type="relu")
    assert net.name == "activation0" or net.name.startswith("activation")
    assert net.infer_shape()[1] == [(2, 4)] and net.infer_shape_partial()[0][1] == (4, 3)
    assert sym.load_json(net.tojson()).list_arguments() == net.list_arguments()
    group = sym.Group([net, data])
    assert len(group) == 2 and group[1].name == "data" and [s.name for s in group][1] == "data"
    values = {name: nd.ones(shape) for name, shape in zip(net.list_arguments(), net.infer_shape()[0])}
    assert net.eval(**values)[0].asnumpy()[0, 0] == 4
    grads = {name: nd.zeros(value.shape) for name, value in values.items()}
    executor = net.bind(mx.cpu(), values, grads)
    executor.forward(is_train=True)
    executor.backward(nd.ones((2, 4)))
    assert grads["fc_bias"].asnumpy().tolist() == [2] * 4
    mx.test_utils.check_numeric_gradient(sym.tanh(sym.var("x") * 2), [np.random.randn(2, 3)])
    with pytest.raises(TypeError):
        nd.relu(data)
    with pytest.raises(TypeError):
        sym.relu(nd.ones((1,)))


def test_a_block_of_internals_shares_parameters():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(4, activation="relu"), gluon.nn.Dense(2))
    net.initialize()
    x = nd.ones((1, 3))
    net(x)
    internals = net(sym.var("data")).get_internals()
    features = gluon.SymbolBlock([internals[f"{net[0].name}_relu_fwd_output"], internals[-1]], [sym.var("data")], params=net.collect_params())
    assert features(x)[0].shape == (1, 4)
    net[0].weight.set_data(net[0].weight.data() * 2)
    assert (features(x)[1].asnumpy() == net(x).asnumpy()).all()


def test_blocks_of_graphs_save_and_load_without_the_prefix_of_their_origin():
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                body = gluon.nn.HybridSequential()
                with body.name_scope():
                    body.add(gluon.nn.Dense(3, in_units=2), gluon.nn.Dense(2, in_units=3))
                data = sym.var("data")
                self.body = gluon.SymbolBlock(body(data), data, params=body.collect_params())

        def hybrid_forward(self, F, x):
            return self.body(x)
    first, second = Net(), Net()
    first.initialize()
    first.save_parameters("x.params")
    second.load_parameters("x.params")
    assert (first(nd.ones((1, 2))).asnumpy() == second(nd.ones((1, 2))).asnumpy()).all()
    assert second.collect_params().keys() != first.collect_params().keys()
    with mx.name.NameManager() as names:
        with names:
            pass
        assert mx.name.current() is names
    assert mx.name.current() is not names


def test_types_of_parameters():
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    net.cast("float64")
    net.hybridize()
    net(nd.ones((1, 3), dtype="float64"))
    net.export("wide")
    block = gluon.SymbolBlock(sym.load("wide-symbol.json"), sym.var("data", dtype="float64"))
    block.collect_params().load("wide-0000.params")
    assert block(nd.ones((1, 3), dtype="float64")).dtype == np.float64
    whole = gluon.Parameter("whole", shape=(2,), dtype="int8", init="ones")
    whole.initialize()
    assert whole.data().dtype == np.int8 and whole.data().grad is None
    whole._load(nd.array([1.5, 2]), None, cast_dtype=True, dtype_source="saved")
    assert whole.data().asnumpy().tolist() == [1.5, 2] and whole.dtype == np.float32
    with pytest.raises(AssertionError, match="stype"):
        gluon.Parameter("w", shape=(2,), stype="dense")


def test_a_loaded_module_predicts_after_bind():
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    mx.model.save_checkpoint("m", 0, net, {"fc_weight": nd.ones((2, 3)), "fc_bias": nd.zeros((2,))}, {})
    module = mx.mod.Module.load("m", 0, label_names=None)
    module.bind([("data", (1, 3))], for_training=False)
    module.forward(mx.io.DataBatch([nd.ones((1, 3))]), is_train=False)
    assert module.get_outputs()[0].asnumpy().tolist() == [[3, 3]]


def test_modules_take_types_and_parameters():
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    module = mx.mod.Module(net, label_names=None)
    module.bind([mx.io.DataDesc("data", (1, 3), np.float64)])
    module.init_params()
    values = {"fc_weight": nd.ones((2, 3), dtype="float64"), "fc_bias": nd.zeros((2,), dtype="float64")}
    module.set_params(values, {})
    module.set_params({"fc_bias": values["fc_bias"] + 1}, {}, allow_missing=True)
    module.forward(mx.io.DataBatch([nd.ones((1, 3), dtype="float64")]))
    assert module.get_outputs()[0].asnumpy().tolist() == [[4, 4]] and module.get_outputs()[0].dtype == np.float64
    with pytest.raises(RuntimeError, match="fc_weight"):
        module.set_params({"fc_bias": values["fc_bias"]}, {})
    with pytest.raises(ValueError, match="other"):
        module.set_params({"other": values["fc_bias"]}, {}, allow_missing=True)
    plain = mx.mod.Module(sym.relu(sym.var("data")), label_names=None)
    plain.bind([("data", (1, 3))])
    plain.init_params()
    plain.forward(mx.io.DataBatch([nd.ones((1, 3))]))
    plain.backward([nd.ones((1, 3))])  # nothing to learn


def test_symbols_as_values_of_a_graph():
    data = sym.var("data")
    parts = sym.SliceChannel(data, num_outputs=3, name="slice")
    assert parts.get_children().list_outputs() == ["data"]
    assert sym.Concat(*parts).get_children().list_outputs() == ["slice_output0", "slice_output1", "slice_output2"]
    with pytest.raises(mx.base.NotImplementedForSymbol):
        bool(data)
    assert data.broadcast_to((2, 3)).eval(data=nd.ones((1, 3)))[0].shape == (2, 3)
    outer = sym.FullyConnected(name="fc", num_hidden=2)
    assert outer(fc_data=data, name="composed").list_arguments() == ["data", "fc_weight", "fc_bias"]
    chosen = sym.batch_take(sym.var("x"), sym.var("i")).simple_bind(mx.cpu(), x=(2, 3), i=(2,), type_dict={"i": np.int32})
    chosen.forward(is_train=True)
    chosen.backward(nd.ones((2,)))
    layer = sym.FullyConnected(data, num_hidden=1, no_bias=True, name="fc")
    penalty = sym.sum(sym.abs(layer.get_internals()["fc_weight"])) + sym.sum(layer)
    assert penalty.simple_bind(mx.cpu(), data=(5, 13)).arg_dict["fc_weight"].shape == (1, 13)
    assert chosen.grad_dict["i"] is None and chosen.grad_dict["x"].asnumpy().tolist() == [[1, 0, 0]] * 2


def test_attributes_of_nodes():
    with mx.AttrScope(group="4"):
        data = sym.var("data", attr={"group": "1", "force_mirroring": "True"}, lr_mult=1)
        other = sym.var("other")
    assert data.attr("group") == "1" and other.attr("group") == "4"
    assert data.attr("lr_mult") == data.attr("__lr_mult__") == "1" and data.attr("__force_mirroring__") == "True"
    net = sym.Convolution(data, kernel=(1, 1), num_filter=1, name="conv", attr={"__mood__": "so so", "wd_mult": "x"}, lr_mult=2)
    about = net.attr_dict()
    assert about["conv"]["__wd_mult__"] == "x" and about["conv"]["lr_mult"] == "2" and about["conv_weight"]["__mood__"] == "so so"
    assert sym.load_json(net.tojson()).attr("__lr_mult__") == "2"
    assert nd.sparse.exp is nd.exp and sym.sparse.dot is sym.dot


def test_a_recorded_computation_as_a_symbol():
    x, w = nd.array([[1, 2]]), nd.array([[3, 4], [5, 6]])
    x.attach_grad()
    with autograd.record():
        y = nd.tanh(nd.dot(x, w) * 2 + x)
    symbol = autograd.get_symbol(y)
    assert len(symbol.list_arguments()) == 2 and all(name.startswith("var") for name in symbol.list_arguments())
    values = {name: x if value == (1, 2) else w for name, value in zip(symbol.list_arguments(), [(1, 2), (2, 2)])}
    np.testing.assert_allclose(symbol.eval(**values)[0].asnumpy(), y.asnumpy())
    assert "tanh" in sym.load_json(symbol.tojson()).tojson()
    with pytest.raises(mx.MXNetError, match="not recorded"):
        autograd.get_symbol(w)


def test_errors_of_a_bound_symbol_name_the_line_of_the_operator():
    data = sym.var("data")
    hidden = sym.FullyConnected(data, num_hidden=4, name="fc")
    wrong = sym.dot(hidden, sym.var("w"))  # the operator's line
    line = next(n for n, text in enumerate(pathlib.Path(__file__).read_text().splitlines(), 1) if "# the operator's line" in text)
    with pytest.raises(ValueError, match=f"made at test_symbols.py:{line}"):
        wrong.simple_bind(mx.cpu(), data=(2, 3), w=(5, 5))
    with pytest.raises(ValueError, match=f"made at test_symbols.py:{line}"):
        wrong.eval(data=nd.ones((2, 3)), fc_weight=nd.ones((4, 3)), fc_bias=nd.ones((4,)), w=nd.ones((5, 5)))
    added = data + sym.var("other")
    with pytest.raises(ValueError, match="made at test_symbols.py"):
        added.infer_shape(data=(2, 3), other=(4, 5))
    block = gluon.SymbolBlock(wrong, [data, sym.var("w")])
    block.initialize()
    with pytest.raises(ValueError, match=f"made at test_symbols.py:{line}"):
        block(nd.ones((2, 3)), nd.ones((5, 5)))
    assert "made at" not in wrong.tojson()


@pytest.mark.parametrize("dtype", ("float32", "float64", "int32", "bool"))
@pytest.mark.parametrize("name", "sum prod mean max min all any argmax argmin std var ptp nansum nanmean nanmax nanmin cumprod".split())
def test_reductions_of_graphs_are_numpys(name, dtype):
    """Where no axis is left there is none, also when the axis was named; dtypes are those of mx.np."""
    drawn = np.random.RandomState(0).randint(0, 3, 6).astype(dtype)
    for shape in ((6,), (2, 3), (1, 2, 3)):
        value = mx.np.array(drawn.reshape(shape), dtype=dtype)
        takes_keepdims = name not in ("argmax", "argmin", "cumprod")
        axes = [None, 0, -1] + ([tuple(range(len(shape)))] if takes_keepdims else [])
        for axis in axes:
            for keepdims in (False, True) if takes_keepdims else (None,):
                options = {"axis": axis, **({} if keepdims is None else {"keepdims": keepdims})}
                wanted = getattr(mx.np, name)(value, **options)
                symbol = getattr(sym.np, name)(sym.var("x").as_np_ndarray(), **options)
                for graph in (symbol, sym.load_json(symbol.tojson()).as_np_ndarray()):
                    found = graph.bind(mx.cpu(), {"x": value}).forward()[0]
                    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), (shape, options)
                    np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=1e-5)


def test_reductions_of_graphs_begin_with_a_number_and_refuse_nothing():
    x, value = sym.var("x").as_np_ndarray(), mx.np.array([[1.0, 2.0], [3.0, 4.0]])
    empty = mx.np.zeros((0, 2))
    for made, given, wanted in ((sym.np.sum(x, initial=5), value, 15), (sym.np.prod(x, initial=2, axis=0), value, [6, 16]), (sym.np.max(x, initial=9), value, 9),
                                (sym.np.min(x, axis=1, initial=2), value, [1, 2]), (sym.np.sum(x, axis=()), value, value), (sym.np.sum(x), empty, 0),
                                (sym.np.prod(x, axis=0), empty, [1, 1]), (sym.np.max(x, axis=1), empty, np.zeros(0)), (sym.np.max(x, initial=3), empty, 3)):
        found = made.bind(mx.cpu(), {"x": given}).forward()[0].asnumpy()
        wanted = wanted.asnumpy() if hasattr(wanted, "asnumpy") else np.array(wanted)
        assert found.shape == wanted.shape and (found == wanted).all()
    with pytest.raises(mx.base.MXNetError):
        sym.np.max(x, axis=0).bind(mx.cpu(), {"x": empty}).forward()
    for name in ("out", "where"):
        with pytest.raises(NotImplementedError):
            sym.np.sum(x, **{name: value})


def test_what_is_not_chosen_does_not_count():
    """A number beside a tensor that has infinities and NaN where the other one is taken."""
    x, value = sym.var("x").as_np_ndarray(), mx.np.array([np.inf, np.nan, 1.0, -np.inf])
    value.attach_grad()
    for choose in (lambda F, x: F.where(x == 1, x, 0.0), lambda F, x: F.where(x != 1, -np.inf, x), lambda F, x: F.where(x == 1, x, -np.inf)):
        wanted = choose(mx.np, value).asnumpy()
        executor = choose(sym.np, x).bind(mx.cpu(), {"x": value}, {"x": mx.np.zeros(4)})
        np.testing.assert_array_equal(executor.forward(is_train=True)[0].asnumpy(), wanted)
        executor.backward(mx.np.array([np.inf, 2.0, 3.0, np.nan]))
        assert executor.grad_dict["x"].asnumpy().tolist() == [0, 0, 3, 0]
    whole = sym.np.where(x > 1, x, 7).bind(mx.cpu(), {"x": mx.np.array([1, 2, 3], dtype="int32")}).forward()[0]
    assert whole.tolist() == [7, 2, 3] and whole.dtype == np.int32


def test_outputs_are_found_by_name_or_number():
    inside = sym.FullyConnected(sym.var("x"), num_hidden=2, name="fc").get_internals()
    assert inside["fc_output"].name == "fc" and inside[0].name == "x"
    with pytest.raises(ValueError, match="matches name"):
        inside["other"]
    with pytest.raises(ValueError, match="multiple"):
        sym.Group([sym.var("x"), sym.var("x")])["x"]
    with pytest.raises(IndexError):
        inside[9]


@pytest.mark.parametrize("dtype", ("int32", "uint8", "bool", "float64"))
def test_whole_numbers_of_graphs_are_divided_as_real_ones(dtype):
    value, x = mx.np.array(np.array([1, 1, 1] if dtype == "bool" else [1, 2, 3]), dtype=dtype), sym.var("x").as_np_ndarray()
    doubled = (lambda x: x) if dtype == "bool" else (lambda x: x * 2)  # which a graph, without dtypes yet, does not take for whole numbers
    for divide in (lambda F, x: F.true_divide(x, 2), lambda F, x: F.true_divide(3, x), lambda F, x: F.divide(x, doubled(x))):
        wanted, found = divide(mx.np, value), divide(sym.np, x).bind(mx.cpu(), {"x": value}).forward()[0]
        assert found.dtype == wanted.dtype and np.allclose(found.asnumpy(), wanted.asnumpy())
