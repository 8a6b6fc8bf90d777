"""What libraries over MXNet rely on without a place in its documents: private members, and when things are refused."""
import hashlib
import subprocess
import sys

import pytest

import gluino as mx
from gluino import gluon, nd


def test_hashes_of_networks_that_a_library_enters(tmp_path, monkeypatch):
    from gluino.gluon.model_zoo import model_store
    monkeypatch.setattr(model_store, "_model_sha1", dict(model_store._model_sha1))
    content = b"weights"
    model_store._model_sha1.update({"my_net": hashlib.sha1(content).hexdigest(), "damaged": "0" * 40, "absent": "1" * 40})
    assert model_store.short_hash("my_net") == hashlib.sha1(content).hexdigest()[:8] and model_store.short_hash("absent") == "1" * 8
    for name in ("my_net", "damaged", "other"):
        hashed = model_store._model_sha1.get(name, "12345678")[:8]
        (tmp_path / f"{name}-{hashed}.params").write_bytes(content)
    assert model_store.get_model_file("my_net", str(tmp_path)).endswith(f"my_net-{hashlib.sha1(content).hexdigest()[:8]}.params")
    assert model_store.get_model_file("other", str(tmp_path)).endswith("other-12345678.params")
    with pytest.raises(mx.base.FileError, match="damaged"):
        model_store.get_model_file("damaged", str(tmp_path))
    with pytest.raises(mx.base.FileError, match="not downloaded"):
        model_store.get_model_file("absent", str(tmp_path))
    (tmp_path / "absent.params").write_bytes(content)
    assert model_store.get_model_file("absent", str(tmp_path)).endswith("absent.params")
    model_store.purge(str(tmp_path))
    assert not list(tmp_path.iterdir())


AMP = """
from gluino.contrib.amp import amp
from gluino import gluon
assert amp._amp_initialized is False and amp._amp_loss_scale_initialized is False and amp._loss_scaler is None
amp.init("bfloat16")
assert amp._amp_initialized is True and amp._amp_loss_scale_initialized is False
net = gluon.nn.Dense(1, in_units=1)
trainers = [gluon.Trainer(net.collect_params(), "sgd") for _ in range(2)]
for trainer in trainers:
    amp.init_trainer(trainer)
assert amp._amp_loss_scale_initialized is True and amp._loss_scaler is trainers[0]._amp_loss_scaler
"""


def test_amp_says_whether_it_is_on():
    subprocess.run([sys.executable, "-c", AMP], check=True)


@pytest.mark.parametrize("contexts", (1, 2))
@pytest.mark.parametrize("on_store", (None, False))
def test_what_a_trainer_does_before_its_first_step(contexts, on_store, tmp_path):
    net = gluon.nn.Dense(2)
    net.initialize(ctx=[mx.cpu(i) for i in range(contexts)])
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1}, kvstore="device", update_on_kvstore=on_store)
    assert trainer._kv_initialized is False and trainer._params_to_init == list(net.collect_params().values())
    trainer._init_kvstore()
    assert trainer._kv_initialized and trainer._update_on_kvstore is False and trainer._distributed is False
    trainer._init_params()
    assert trainer._params_to_init == [net.weight]  # whose shape is not known
    with mx.autograd.record():
        losses = [net(nd.ones((4, 3), ctx=mx.cpu(i))).sum() for i in range(contexts)]
    mx.autograd.backward(losses)
    trainer.step(4)
    assert trainer._params_to_init == [] and len(trainer._updaters) == contexts
    (tmp_path / "states").write_bytes(trainer._updaters[0].get_states(dump_optimizer=False))
    trainer.load_states(str(tmp_path / "states"))
    trainer._reset_kvstore()
    assert trainer._kv_initialized is False and len(trainer._params_to_init) == 2


def test_steps_of_a_trainer_that_libraries_replace():
    """Horovod's and BytePS's trainers exchange gradients in _allreduce_grads."""
    class Exchanging(gluon.Trainer):
        def _allreduce_grads(self):
            seen.append("exchanged")
            for parameter in self._params:
                parameter.grad()[:] = 0

        def _init_params(self):
            seen.append([parameter.name for parameter in self._params_to_init])
            super()._init_params()
    seen, net = [], gluon.nn.Dense(1, in_units=1, use_bias=False)
    net.initialize(mx.init.One())
    trainer = Exchanging(net.collect_params(), "sgd", {"learning_rate": 1})
    for _ in range(2):
        with mx.autograd.record():
            loss = net(nd.ones((1, 1)))
        loss.backward()
        trainer.step(1)
    assert seen == [[net.weight.name], "exchanged", "exchanged"] and net.weight.data().asscalar() == 1
    trainer.allreduce_grads()
    assert len(seen) == 4


def linear():
    return mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc"), mx.sym.var("label"), name="out")


def test_what_modules_keep_of_their_arguments():
    bucketing = mx.mod.BucketingModule(lambda key: (linear(), ("data",), ("label",)), default_bucket_key=1, fixed_param_names=["fc_bias"])
    assert bucketing._fixed_param_names == ["fc_bias"] and bucketing._state_names == [] and bucketing._params_dirty is False
    assert bucketing._work_load_list is None and bucketing._group2ctxs is None and bucketing._compression_params is None
    assert bucketing._call_sym_gen(1)[1:] == (("data",), ("label",))
    assert mx.mod.BucketingModule(bucketing._sym_gen, default_bucket_key=1)._fixed_param_names == []
    bucketing.bind([("data", (4, 3))], [("label", (4, 1))])
    bucketing._reset_bind()
    assert not bucketing.binded and bucketing._buckets == {} and bucketing._curr_module is None
    module = mx.mod.Module(linear(), label_names=("label",))
    assert module._grad_req is None and module._params_dirty is False and module._update_on_kvstore is False and module._group2ctxs is None
    chain = mx.mod.SequentialModule().add(module, take_labels=True)
    chain.bind([("data", (4, 3))], [("label", (4, 1))])
    assert chain._data_shapes == [("data", (4, 3))] and chain._meta_keys == {"take_labels", "auto_wiring"}
    group = module._exec_group
    assert group.data_arrays[0][0][1] is group.execs[0].arg_dict["data"] and group.label_arrays[0][0][0] == slice(0, 4)


def test_parameters_that_are_put_into_a_module():
    """Libraries make a module of what they have loaded as MXNet's Module.load does."""
    module = mx.mod.Module(linear(), label_names=("label",))
    module._arg_params, module._aux_params, module.params_initialized = {"fc_weight": nd.ones((1, 3)), "fc_bias": nd.ones((1,))}, {}, True
    module.bind([("data", (2, 3))], [("label", (2, 1))])
    module.forward(mx.io.DataBatch([nd.ones((2, 3))], [nd.ones((2, 1))]))
    assert module.get_outputs()[0].asnumpy().tolist() == [[4], [4]]
    module._arg_params = {"fc_weight": nd.zeros((1, 3)), "fc_bias": nd.ones((1,))}
    assert module._arg_params["fc_weight"].asnumpy().tolist() == [[0, 0, 0]]
    module._reset_bind()
    module.bind([("data", (5, 3))], [("label", (5, 1))])
    module.forward(mx.io.DataBatch([nd.ones((5, 3))], [nd.ones((5, 1))]))
    assert module.get_outputs()[0].asnumpy().tolist() == [[1]] * 5


def test_a_loss_module_with_a_gradient_of_its_own():
    class Loss(mx.mod.PythonLossModule):
        def _backward_impl(self):
            self._scores_grad = self._scores - self._labels
    loss = Loss()
    loss.bind([("data", (2, 1))], [("softmax_label", (2, 1))])
    loss.forward(mx.io.DataBatch([nd.ones((2, 1)) * 3], [nd.ones((2, 1))]))
    loss.backward()
    assert loss.get_input_grads()[0].asnumpy().tolist() == [[2], [2]]


def test_functions_of_layers_are_looked_at_by_the_operator():
    """Libraries make blocks with names that are never called; calls refuse them, in every mode."""
    x = nd.ones((1, 2))
    cells = [gluon.rnn.RNNCell(2, activation="nonsense", input_size=2), gluon.rnn.LSTMCell(2, activation="nonsense", input_size=2),
             gluon.rnn.LSTMCell(2, recurrent_activation="nonsense", input_size=2)]
    for block in (gluon.nn.Activation("nonsense"), gluon.nn.Dense(2, activation="nonsense", in_units=2), *cells):
        repr(block)
        block.initialize()
        args = (x,) if block not in cells else (x, [x] * len(block.state_info()))
        for _ in range(2):
            with pytest.raises(mx.base.AttrError, match="nonsense"):
                block(*args)
            block.hybridize()
    gluon.contrib.rnn.Conv2DRNNCell((2, 4, 4), 2, 3, 3, activation="nonsense")
    with pytest.raises(AssertionError, match="nonsense"):
        gluon.nn.MaxPool2D(layout="nonsense")


class Nested(gluon.HybridBlock):
    def hybrid_forward(self, F, x, ys):
        return [x + ys[0], [ys[1] * 2]]


def test_how_inputs_and_outputs_are_nested(tmp_path):
    """gluonts writes it beside an exported network and sets it where the network is loaded."""
    net, x, y, z = Nested(), nd.ones((3,)), nd.array([1, 2, 3]), nd.ones((3,))
    assert net._in_format is None and net._out_format is None and net._cached_graph == () and net._cached_op is None
    net.hybridize()
    for _ in range(2):
        net(x, [z, y])
        assert net._in_format == [0, [0, 0]] and net._out_format == [0, [0]]
    inputs, graph = net._cached_graph
    assert [symbol.name for symbol in inputs] == ["data0", "data1", "data2"] and len(graph.list_outputs()) == 2 and net._cached_op is not None
    net.export(str(tmp_path / "net"))
    for hybridized in (False, True):
        loaded = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), [symbol.name for symbol in inputs])
        loaded.hybridize(hybridized)
        assert [value.asnumpy().tolist() for value in loaded(x, z, y)] == [[2, 2, 2], [2, 4, 6]]
        loaded._in_format, loaded._out_format = net._in_format, net._out_format
        for _ in range(2):
            first, (second,) = loaded(x, [z, y])
            assert first.asnumpy().tolist() == [2, 2, 2] and second.asnumpy().tolist() == [2, 4, 6]
        assert loaded._out_format == [0, [0]] and len(loaded._cached_graph[0]) == 3
    single = gluon.nn.Dense(2, in_units=3)
    single.initialize()
    single.export(str(tmp_path / "single"))
    assert single._in_format == [0] and single._out_format == 0


class Dropped(gluon.Parameter):
    """A parameter that takes over another one's members, as gluon-nlp's WeightDropParameter does."""

    def __init__(self, parameter, rate=0.5):
        self._deferred_init = parameter._deferred_init
        super().__init__(name=parameter.name, grad_req=parameter.grad_req, shape=parameter._shape, dtype=parameter.dtype, lr_mult=parameter.lr_mult,
                         wd_mult=parameter.wd_mult, init=parameter.init, allow_deferred_init=parameter._allow_deferred_init,
                         differentiable=parameter._differentiable)
        self._rate = rate
        for name in ("_var", "_data", "_grad", "_ctx_list", "_ctx_map", "_trainer", "_deferred_init"):
            setattr(self, name, getattr(parameter, name))

    def data(self, ctx=None):
        return nd.Dropout(self._check_and_get(self._data, ctx), self._rate)


@pytest.mark.parametrize("state", ("nothing", "deferred", "values", "trained"))
def test_members_of_a_parameter_are_taken_over(state):
    first = gluon.Parameter("w", shape=(2, 0 if state == "deferred" else 3), allow_deferred_init=True, init=mx.init.One())
    if state != "nothing":
        first.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer([first], "sgd") if state == "trained" else None
    second = Dropped(first, 0.0)
    assert second._trainer is trainer and second._ctx_list == first._ctx_list and second._ctx_map == first._ctx_map
    if state == "nothing":
        second.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    if state == "deferred":
        assert second._deferred_init == first._deferred_init != ()
        second.shape = (2, 3)
        second._finish_deferred_init()
    assert second.list_ctx() == [mx.cpu(0), mx.cpu(1)] and second.data(mx.cpu(1)).asnumpy().tolist() == [[1, 1, 1]] * 2
    with mx.autograd.record():
        loss = (second.data(mx.cpu(1)) * 3).sum()
    loss.backward()
    assert second.grad(mx.cpu(1)).asnumpy().tolist() == [[3, 3, 3]] * 2
    if state in ("values", "trained"):
        assert first.grad(mx.cpu(1)).asnumpy().tolist() == [[3, 3, 3]] * 2 and first.data(mx.cpu(1)) is second._data[1]


def test_gradients_that_are_put_into_a_parameter():
    one, other = (gluon.Parameter(name, shape=(2,), init=mx.init.One()) for name in "ab")
    one.initialize(), other.initialize()
    other._grad = one._grad  # one memory for both
    for parameter, factor in ((one, 2), (other, 5)):
        with mx.autograd.record():
            loss = (parameter.data() * factor).sum()
        loss.backward()
        assert one.grad().asnumpy().tolist() == other.grad().asnumpy().tolist() == [factor] * 2
    one._data, one._grad, one._deferred_init = None, None, ()
    with pytest.raises(RuntimeError, match="not been initialized"):
        one.data()


@pytest.mark.parametrize("hybridized", (False, True))
def test_layers_whose_weight_drops_parts(hybridized):
    layer = gluon.nn.Dense(50, in_units=40, use_bias=False, flatten=False)
    layer.initialize(mx.init.One())
    layer.hybridize(hybridized)
    x = nd.ones((1, 40))
    assert (layer(x).asnumpy() == 40).all()
    dropped = layer._reg_params["weight"] = layer.params._params[layer.weight.name] = Dropped(layer.weight)
    object.__setattr__(layer, "weight", dropped)
    layer.hybridize(hybridized)
    for _ in range(2):
        with mx.autograd.record():
            out = layer(x)
        out.backward()
        assert len(set(out.asnumpy().ravel().tolist())) > 3 and {0, 2} == set(layer.weight.grad().asnumpy().ravel().tolist())
        assert (layer(x).asnumpy() == 40).all()


def test_what_is_in_force_in_this_thread():
    assert mx.Context._default_ctx.value == mx.cpu(0)
    mx.Context._default_ctx.value = mx.cpu(1)
    try:
        assert nd.ones((1,)).context == mx.cpu(1) == mx.current_context()
    finally:
        mx.Context._default_ctx.value = mx.cpu(0)
    before = mx.name.NameManager._current.value
    with mx.name.Prefix("mine_") as manager:
        assert mx.name.NameManager._current.value is manager and manager.get(None, "fc") == "mine_fc0"
        mx.name.NameManager._current.value = mx.name.Prefix("other_")
        assert mx.sym.relu(mx.sym.var("x")).name.startswith("other_")
    assert mx.name.NameManager._current.value is before
    with mx.AttrScope(group="a") as scope:
        assert mx.AttrScope._current.value is scope
    outer = mx.AttrScope._current.value
    mx.AttrScope._current.value = scope
    assert mx.sym.var("x").attr("__group__") == "a"
    mx.AttrScope._current.value = outer
    assert mx.sym.var("x").attr("__group__") is None


def test_arguments_of_layers():
    norm, table, layer = gluon.nn.LayerNorm(axis=1, epsilon=0.5, scale=False), gluon.nn.Embedding(4, 2), gluon.nn.Conv2DTranspose(2, 3)
    assert (norm._axis, norm._epsilon, norm._center, norm._scale) == (1, 0.5, True, False) and layer._op_name == "Deconvolution"
    assert (table._input_dim, table._output_dim) == (4, 2) and gluon.rnn.GRUCell(2, input_size=3)._input_size == 3


@pytest.mark.parametrize("layout", ("NTC", "TNC"))
@pytest.mark.parametrize("package", (nd, mx.sym), ids=("arrays", "symbols"))
def test_functions_that_cells_of_libraries_are_made_of(layout, package):
    from gluino.gluon.rnn.rnn_cell import (_cells_begin_state, _cells_state_info, _format_sequence, _get_begin_state, _mask_sequence_variable_length,
                                           _reverse_sequences)
    cells, time = [gluon.rnn.LSTMCell(4), gluon.rnn.GRUCell(3)], layout.find("T")
    assert [info["shape"] for info in _cells_state_info(cells, 2)] == [(2, 4), (2, 4), (2, 3)]
    assert [state.shape for state in _cells_begin_state(cells, batch_size=2)] == [(2, 4), (2, 4), (2, 3)]
    values = nd.arange(30).reshape((2, 3, 5) if layout == "NTC" else (3, 2, 5))
    arrays = {"x": values, "n": nd.array([1, 2])}

    def numbers(result):
        return (result if package is nd else result.eval(**{name: arrays[name] for name in result.list_inputs()})[0]).asnumpy()
    x, n = (values, arrays["n"]) if package is nd else (mx.sym.var("x"), mx.sym.var("n"))
    steps, axis, F, batch = _format_sequence(3, x, layout, False)
    assert axis == time and F is package and batch == (2 if package is nd else 0) and len(steps) == 3
    whole, _, _, again = _format_sequence(3, steps, layout, True)
    assert again == batch and (numbers(whole) == values.asnumpy()).all()
    turned = _format_sequence(3, x, layout, None, in_layout="TNC" if layout == "NTC" else "NTC")[0]
    assert (numbers(turned) == values.asnumpy().swapaxes(0, 1)).all()
    states = _get_begin_state(cells[0], F, None, steps, batch)
    assert len(states) == 2 and _get_begin_state(cells[0], F, states, steps, batch) is states
    by_time = values.asnumpy().swapaxes(0, time)
    expected = by_time.copy()
    expected[1:, 0], expected[2:, 1] = 0, 0
    assert (numbers(_mask_sequence_variable_length(F, x, 3, n, time, True)).swapaxes(0, time) == expected).all()
    assert (numbers(_mask_sequence_variable_length(F, steps, 3, n, time, False)[1]) == expected[1]).all()
    assert (numbers(_reverse_sequences(steps, 3)[0]) == by_time[2]).all()
    backwards = _reverse_sequences(steps, 3, n)
    assert (numbers(backwards[0]) == [by_time[0, 0], by_time[1, 1]]).all()
