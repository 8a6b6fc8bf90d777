"""What libraries on top of MXNet do, and what was refused or silently wrong."""
import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd, sym


def test_names_that_libraries_import():
    """Private or not: a missing one ends the import of a whole library."""
    names = """gluon.data.dataloader._MultiWorkerIter gluon.data.dataloader._as_in_context gluon.data.dataloader.ForkingPickler
        gluon.loss._apply_weighting gluon.loss._reshape_like gluon.utils._get_repo_url gluon.utils._get_repo_file_url gluon.utils.replace_file
        registry.get_create_func gluon.model_zoo.model_store.get_model_file contrib.amp.amp.init base.NDArrayHandle base._as_list base.mx_real_t
        nd.contrib.multi_adamw_update nd.contrib.multi_mp_adamw_update gluon.block._flatten gluon.tensor_types metric.ndarray image.image._get_interp_method
        image.ImageDetIter nd.random.uniform_like sym.random.normal_like gluon.contrib.cnn.DeformableConvolution operator.NumpyOp test_utils.download
        test_utils.get_cifar10 test_utils.get_zip_data test_utils.get_mnist_ubyte contrib.svrg_optimization.SVRGModule contrib.ndarray.foreach
        contrib.io.DataLoaderIter contrib.autograd.grad mod.SequentialModule mod.PythonLossModule mod.executor_group library.load set_np_shape np_shape
        np_array metric.EvalMetric.get_global""".split()
    for name in names:
        found = mx
        for part in name.split("."):
            found = getattr(found, part)
    parameter = gluon.Parameter("weight", shape=(2, 0), allow_deferred_init=True)
    parameter.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert parameter._deferred_init and parameter._ctx_list is None and parameter._trainer is None
    parameter.shape = (2, 3)
    parameter._finish_deferred_init()
    assert parameter._ctx_list == [mx.cpu(0), mx.cpu(1)] and parameter._ctx_map[1] == [0, 1] and not parameter._deferred_init
    assert parameter._check_and_get(parameter._data, list) is parameter._data
    assert parameter._check_and_get(parameter._data, mx.cpu(1)).context == mx.cpu(1)
    with pytest.raises(TypeError, match="Trainer"):
        mx.contrib.amp.init_trainer(None)
    trainer = gluon.Trainer([parameter], "sgd")
    assert parameter._trainer is trainer and trainer._kvstore is None and trainer.learning_rate == 0.01
    loader = gluon.data.DataLoader(gluon.data.SimpleDataset([1, 2, 3]), 2)
    assert loader._pin_memory is False


def test_a_pool_of_workers_of_another_library():
    from multiprocessing.pool import ThreadPool
    from gluino.gluon.data import dataloader
    sampler = gluon.data.BatchSampler(gluon.data.SequentialSampler(5), 2)
    batches = list(dataloader._MultiWorkerIter(ThreadPool(2), lambda items: items, sampler, worker_fn=dataloader._thread_worker_fn, prefetch=2,
                                               dataset=[10, 11, 12, 13, 14]))
    assert batches == [[10, 11], [12, 13], [14]]
    ahead = gluon.data.DataLoader(gluon.data.SimpleDataset(list(range(5))), 2, num_workers=1, thread_pool=True, auto_reload=True)
    for _ in range(2):
        assert [b.asnumpy().tolist() for b in ahead] == [[0, 1], [2, 3], [4]]
    ahead.clean()


def test_columns_that_come_twice_are_added():
    matrix = nd.sparse.csr_matrix(([1.0, 2.0, 3.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    assert nd.dot(matrix, nd.ones((2, 1))).asnumpy().tolist() == [[3], [3]] and matrix.indices.asnumpy().tolist() == [0, 1]


class Recurrent(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.cell, self.layer = gluon.rnn.ZoneoutCell(gluon.rnn.LSTMCell(3), 0.0, 0.2), gluon.rnn.LSTM(3)

    def hybrid_forward(self, F, x):
        out, _ = self.cell(x, self.cell.begin_state(func=F.zeros, batch_size=0))
        steps, _ = self.layer(F.expand_dims(x, 0), self.layer.begin_state(func=F.zeros, batch_size=0))
        return out + steps[0]


def test_a_batch_of_0_is_that_of_the_input():
    net = Recurrent()
    net.initialize()
    net.hybridize()
    for batch in (2, 3):
        assert net(nd.ones((batch, 4))).shape == (batch, 3)


def test_calls_that_mxnet_takes():
    assert nd.broadcast_mul(nd.ones((2,)), nd.ones((2,)), axis=1).shape == (2,) and nd.zeros_like(nd.ones((2,)), dtype="int8").shape == (2,)
    assert nd.arange(6).reshape((2, 2)).asnumpy().tolist() == [[0, 1], [2, 3]]
    x = nd.arange(6)
    x.attach_grad()
    with autograd.record(), pytest.raises(ValueError, match="cannot become"):
        (x * 2).reshape((2, 2))
    assert nd.FullyConnected(nd.ones((2, 3)), nd.ones((4, 3)), None, num_hidden=4, no_bias=True).shape == (2, 4)
    assert sym.FullyConnected(sym.var("x"), sym.var("w"), None, num_hidden=4, no_bias=True).list_arguments() == ["x", "w"]
    for name, expected in (("floor", [4, 9]), ("ceil", [4, 9]), ("rint", [4, 9]), ("sqrt", [2, 3]), ("exp", [54, 8103])):
        out = getattr(nd, name)(nd.array([4, 9], dtype="int32"))
        assert out.dtype == np.int32 and out.asnumpy().tolist() == expected
    assert mx.np.sqrt(mx.np.array([4, 9], dtype="int32")).dtype == np.float32
    first = autograd.grad  # gives a list, also for one variable
    y = nd.array([2.0])
    y.attach_grad()
    with autograd.record():
        z = y * y
    assert [g.asscalar() for g in first(z, y)] == [4]


def test_errors_where_mxnet_raises():
    for call in (lambda: nd.random.normal(0, -1, shape=(2,)), lambda: nd.random.uniform(2, 1, shape=(2,)), lambda: nd.random.gamma(-1, 1, shape=(2,)),
                 lambda: nd.random.negative_binomial(1, 2, shape=(2,)), lambda: nd.moveaxis(nd.ones((2, 3, 4)), (0, 0), (1, 2))):
        with pytest.raises((mx.MXNetError, ValueError)):
            call()


def test_pretrained_networks_are_looked_for_where_mxnet_kept_them(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    with pytest.raises(OSError, match="squeezenet1.1-XXXXXXXX.params"):
        gluon.model_zoo.vision.squeezenet1_1(pretrained=True)
    net = gluon.model_zoo.vision.get_model("squeezenet1.1", classes=10)
    net.initialize()
    x = nd.random.uniform(shape=(1, 3, 224, 224))
    expected = net(x)
    (tmp_path / "models").mkdir()
    net.save_parameters(str(tmp_path / "models" / "squeezenet1.1-0123abcd.params"))
    again = gluon.model_zoo.vision.get_model("squeezenet1.1", classes=10, pretrained=True)
    np.testing.assert_array_equal(again(x).asnumpy(), expected.asnumpy())
    assert gluon.model_zoo.vision.get_resnet(1, 18, classes=4) and gluon.model_zoo.vision.mobilenet_v2_0_25(classes=4)
    with pytest.raises(FileNotFoundError, match="nothing is downloaded"):
        gluon.data.vision.MNIST()


def test_statistics_of_generators():
    from gluino.test_utils import chi_square_check, gen_buckets_probs_with_ppf, mean_check, var_check, verify_generator
    from gluino.test_utils.statistics import chi_square_tail
    for x, freedom, expected in ((3.841459, 1, 0.05), (18.307038, 10, 0.05), (2.0, 4, 0.7357589), (150.0, 100, 0.0009039)):
        assert abs(chi_square_tail(x, freedom) - expected) < 1e-5
    buckets, probs = gen_buckets_probs_with_ppf(lambda q: q, 5)

    def draw(count):
        return nd.random.uniform(shape=(count,))
    verify_generator(draw, buckets, probs, nsamples=20000)
    assert mean_check(draw, 0.5, (1 / 12) ** 0.5, 20000)
    assert chi_square_check(lambda count: nd.random.uniform(shape=(count,)) ** 2, buckets, probs, 20000)[0] < 1e-6
    assert var_check(lambda count: nd.random.normal(shape=(count,)), 1.0, 20000)


def test_a_graph_that_names_its_initialisers():
    """Libraries attach initialisers to layers of symbols; whoever initialises the block decides, as with any other parameter."""
    out = sym.Convolution(sym.var("data"), kernel=(1, 1), num_filter=2, name="conv", attr={"__init__": mx.init.Xavier(factor_type="out")})
    block = gluon.SymbolBlock(out, sym.var("data"))
    block.initialize(mx.init.Constant(2))
    assert block(nd.ones((1, 3, 1, 1))).asnumpy().ravel().tolist() == [8, 8]


def test_a_label_that_nobody_gives(tmp_path):
    out = sym.SoftmaxOutput(sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc"), name="softmax")
    out.save(str(tmp_path / "m-symbol.json"))
    nd.save(str(tmp_path / "m-0000.params"), {"arg:fc_weight": nd.ones((3, 4)), "arg:fc_bias": nd.zeros((3,))})
    block = gluon.SymbolBlock.imports(str(tmp_path / "m-symbol.json"), "data", str(tmp_path / "m-0000.params"))
    for hybridized in (False, True):
        block.hybridize(hybridized)
        for batch in (2, 5, 1, 5):
            assert block(nd.ones((batch, 4))).asnumpy().tolist() == pytest.approx(np.full((batch, 3), 1 / 3))
    block.save(str(tmp_path / "one"))
    assert mx.load_block(str(tmp_path / "one"))(nd.ones((7, 4))).shape == (7, 3)
    block.export(str(tmp_path / "again"))
    assert gluon.SymbolBlock.imports(str(tmp_path / "again-symbol.json"), "data", str(tmp_path / "again-0000.params"))(nd.ones((7, 4))).shape == (7, 3)


def test_names_that_numpy_has_dropped():
    pytest.importorskip("mxnet", reason="python/compat is not on the path")
    assert np.dtype(np.float) == np.float64 and np.dtype(np.bool) == np.bool_ and np.dtype(np.int) == np.dtype(int)


class Tracker(gluon.HybridBlock):
    """Keeps what it has computed, as networks do that are looked into."""

    def __init__(self):
        super().__init__()
        self.layer, self.last, self.steps = gluon.nn.Dense(2), None, []

    def hybrid_forward(self, F, x):
        self.steps = [self.layer(x)]
        self.steps.append(self.steps[-1] * 2)
        self.last = self.steps[-1] + 1
        return self.last


def test_attributes_that_a_network_fills_are_no_outputs_of_its_file(tmp_path):
    net, x = Tracker(), nd.ones((3, 4))
    net.initialize()
    net.hybridize()
    expected = [net(x), net(x)][1].asnumpy()
    np.testing.assert_array_equal(net.last.asnumpy(), expected)
    net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_array_equal(again(x).asnumpy(), expected)
    net.save(str(tmp_path / "one"))
    np.testing.assert_array_equal(mx.load_block(str(tmp_path / "one"))(x).asnumpy(), expected)


def test_arrays_of_both_kinds_at_once():
    old, new = nd.ones((2,)), mx.np.ones((2,))

    def added_to(x, y):
        x += y
    for call in (lambda: old + new, lambda: new * old, lambda: new == old, lambda: added_to(new, old), lambda: added_to(old, new),
                 lambda: mx.np.concatenate([new, old]), lambda: mx.np.dot(new, old), lambda: mx.np.maximum(old, new),
                 lambda: mx.np.exp(old), lambda: mx.np.sum(old), lambda: mx.npx.relu(old),
                 lambda: nd.broadcast_add(old, new), lambda: nd.concat(new, old, dim=0), lambda: nd.dot(old, new),
                 mx.hybrid(lambda x=old, y=new: x + y)):
        with pytest.raises(TypeError, match="as_np_ndarray"):
            call()
    assert (old.as_np_ndarray() + new).asnumpy().tolist() == [2, 2] and mx.np.sum(old.as_np_ndarray()).item() == 2


class Thermostat:
    """A rate of a library's own, which is no number."""

    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize("base", (mx.optimizer.SGD, mx.optimizer.Adam, mx.optimizer.RMSProp, mx.optimizer.AdaGrad))
def test_rates_that_only_their_optimizer_understands(base):
    class Own(base):
        def __init__(self, rate):
            base.__init__(self, learning_rate=0.1)
            self.lr = Thermostat(rate)

        def _get_lr(self, index):
            return self.lr.value / 2
    weights = []
    for optimizer in (Own(0.5), base(learning_rate=0.25)):
        weight = nd.array([1.0, 2.0])
        mx.optimizer.get_updater(optimizer)(0, nd.array([0.5, -0.25]), weight)
        weights.append(weight.asnumpy())
    np.testing.assert_array_equal(*weights)
    with pytest.raises(TypeError):
        base(learning_rate=Thermostat(0.5))


def test_private_names_of_parameters_and_trainers():
    layer = gluon.nn.Dense(2, in_units=3)
    layer.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    layer.weight.list_data()[1][:] = layer.weight.list_data()[0].as_in_context(mx.cpu(1)) + 2
    np.testing.assert_allclose(layer.weight._reduce().asnumpy(), layer.weight.data(mx.cpu(0)).asnumpy() + 1, rtol=1e-6)
    assert layer.weight._reduce().context == mx.cpu(0)
    layer.weight._load_init(nd.ones((2, 3)), mx.cpu(1))
    assert layer.weight.list_ctx() == [mx.cpu(1)] and layer.weight.data().asnumpy().sum() == 6
    with pytest.raises(AssertionError, match="shape incompatible"):
        layer.weight._load_init(nd.ones((3, 2)), mx.cpu())
    layer.weight._init_impl(nd.zeros((2, 3)), [mx.cpu(0), mx.cpu(1)])
    assert layer.weight.list_ctx() == [mx.cpu(0), mx.cpu(1)] and layer.weight.grad(mx.cpu(0)).shape == (2, 3)
    trainer = gluon.Trainer(layer.collect_params(), "sgd")
    if not trainer._kv_initialized:
        trainer._init_kvstore()
    assert trainer._param2idx == {p.name: i for i, p in enumerate(trainer._params)}
    trainer._allreduce_grads()


def test_a_parameter_that_starts_from_an_array_of_numpy():
    class Scale(gluon.HybridBlock):
        def __init__(self, scales):
            super().__init__()
            with self.name_scope():
                self.scales = self.params.get("scales", shape=scales.shape, init=mx.init.Constant(scales), differentiable=False)
                self.layer = gluon.nn.Dense(2)

        def hybrid_forward(self, F, x, scales):
            return self.layer(F.broadcast_mul(x, scales))
    for scales in (np.array([1.0, 2.0, 3.0], "float32"), nd.array([1, 2, 3])):
        net = Scale(scales)
        net.initialize()
        net.hybridize()
        assert net(nd.ones((4, 3))).shape == (4, 2) and net.scales.data().asnumpy().tolist() == [1, 2, 3]
    assert mx.init.Constant(np.float32(2)).dumps() == '["constant", {"value": 2.0}]'


def small_network():
    return sym.SoftmaxOutput(sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc"), name="softmax")


def test_a_loaded_module_has_its_parameters_before_it_is_bound(tmp_path):
    module = mx.mod.Module(small_network())
    assert module._arg_params is None and module._kvstore is None
    module.bind([("data", (4, 3))], [("softmax_label", (4,))])
    module.init_params(mx.init.One())
    assert module._arg_params["fc_weight"].asnumpy().tolist() == [[1, 1, 1]] * 2 and module._aux_params == {}
    module.save_checkpoint(str(tmp_path / "m"), 1)
    loaded = mx.mod.Module.load(str(tmp_path / "m"), 1)
    assert loaded.params_initialized and not loaded.binded and set(loaded._arg_params) == {"fc_weight", "fc_bias"}
    loaded.bind([("data", (2, 3))], for_training=False)
    assert loaded.get_params()[0]["fc_weight"].asnumpy().sum() == 6


@pytest.mark.parametrize("kvstore, contexts", (("local", 1), ("local", 2), (None, 2)))
def test_modules_made_of_the_parts_of_mxnet_s(kvstore, contexts):
    """Libraries write modules of their own over the functions that MXNet's Module is made of."""
    from gluino.model import _create_kvstore, _initialize_kvstore, _update_params, _update_params_on_kvstore
    from gluino.module.base_module import _as_list, _check_input_names, _parse_data_desc
    with pytest.raises(ValueError, match="did you mean|Did you mean"):
        _check_input_names(small_network(), ["dta"], "data", True)
    with pytest.warns(UserWarning, match="softmax_lbl"):
        _check_input_names(small_network(), ["softmax_lbl"], "label", False)
    data, label = _parse_data_desc(["data"], ["softmax_label"], [("data", (4, 3))], None)
    assert data[0].name == "data" and label is None and _as_list(3) == [3]
    with pytest.raises(ValueError, match="data_shapes"):
        _parse_data_desc(["data"], [], [("other", (4, 3))], None)
    names, values = ["a", "b"], {"a": nd.ones((2,)), "b": nd.ones((3,))}
    weights = [[values[name].copyto(mx.cpu(i)) for i in range(contexts)] for name in names]
    grads = [[nd.ones(values[name].shape, ctx=mx.cpu(i)) * (i + 1) for i in range(contexts)] for name in names]
    store, on_store = _create_kvstore(kvstore, contexts, values)
    assert (store is None) == (kvstore is None or contexts == 1) and on_store == (store is not None)
    optimizer = mx.optimizer.SGD(learning_rate=0.5)
    if store is not None:
        _initialize_kvstore(store, weights, values, names, on_store)
        store.set_optimizer(optimizer)
        _update_params_on_kvstore(weights, grads, store, names)
    else:
        _update_params(weights, grads, mx.optimizer.get_updater(optimizer), contexts)
    total = sum(range(1, contexts + 1))
    for copies in weights:
        for i, copy in enumerate(copies):
            assert (copy.asnumpy() == 1 - 0.5 * (total if store is not None else i + 1)).all()


WAYS_TO_WRITE = {"all": lambda to, value: to.__setitem__(slice(None), value), "ellipsis": lambda to, value: to.__setitem__(Ellipsis, value),
                 "rows": lambda to, value: to.__setitem__(slice(0, 2), value), "copyto": lambda to, value: value.copyto(to),
                 "out": lambda to, value: nd.identity(value, out=to), "sum": lambda to, value: nd.add_n(value, nd.zeros_like(value), out=to)}


@pytest.mark.parametrize("how", WAYS_TO_WRITE)
@pytest.mark.parametrize("source", ("leaf", "recorded"))
def test_what_is_written_is_a_copy_of_a_weight(how, source):
    """A target network or the best weights so far must not become the weights that go on learning."""
    weight = nd.ones((2, 3))
    weight.attach_grad()
    with autograd.record():
        value = weight if source == "leaf" else weight * 1
    kept = nd.zeros((2, 3))
    WAYS_TO_WRITE[how](kept, value)
    assert (kept.asnumpy() == 1).all()
    value[:] = 5
    assert (kept.asnumpy() == 1).all()
    kept += 1
    assert (value.asnumpy() == 5).all() and (weight.asnumpy() == (5 if source == "leaf" else 1)).all()
    assert kept.grad is None


def test_a_sum_leaves_its_terms_alone():
    terms = [nd.ones((2,)) * i for i in (1, 2, 3)]
    terms[0].attach_grad()
    for _ in range(2):
        assert nd.add_n(*terms).asnumpy().tolist() == [6, 6]
    assert terms[0].asnumpy().tolist() == [1, 1]


@pytest.mark.parametrize("hybridized", (False, True))
def test_a_target_network_stays_behind(hybridized):
    online, target = gluon.nn.Dense(2, in_units=3), gluon.nn.Dense(2, in_units=3)
    for net in (online, target):
        net.initialize(mx.init.Normal(1))
        net.hybridize(hybridized)
    for mine, theirs in zip(target.collect_params().values(), online.collect_params().values()):
        mine.set_data(theirs.data())
    x = nd.ones((4, 3))
    before = target(x).asnumpy()
    np.testing.assert_array_equal(before, online(x).asnumpy())
    trainer = gluon.Trainer(online.collect_params(), "sgd", {"learning_rate": 0.1})
    with autograd.record():
        loss = (online(x) ** 2).sum()
    loss.backward()
    trainer.step(1)
    np.testing.assert_array_equal(target(x).asnumpy(), before)
    assert not np.allclose(online(x).asnumpy(), before) and (target.weight.grad().asnumpy() == 0).all()


def test_data_sets_that_libraries_derive(tmp_path):
    class Squares(gluon.data.dataset._DownloadedDataset):
        def _get_data(self):
            self._data, self._label = nd.arange(4).reshape((4, 1)) ** 2, np.arange(4, dtype="int32")
    plain, halved = Squares(str(tmp_path / "new" / "folder"), None), Squares(str(tmp_path), lambda x, y: (x / 2, y))
    assert len(plain) == 4 and plain[3][0].asnumpy().tolist() == [9] and halved[2][0].asnumpy().tolist() == [2] and halved[2][1] == 2
    assert (tmp_path / "new" / "folder").is_dir()
    batch, labels = next(iter(gluon.data.DataLoader(plain, 4)))
    assert batch.shape == (4, 1) and labels.asnumpy().tolist() == [0, 1, 2, 3]


def test_every_operator_in_the_list_has_a_function():
    """Tools walk over the list and call what it names."""
    @mx.operator.register("listed_for_tools")
    class Listed(mx.operator.CustomOpProp):
        pass
    names = mx.operator.get_all_registered_operators()
    assert "Convolution" in names and [n for n in names if not hasattr(nd, n) and not hasattr(nd._internal, n)] == []
