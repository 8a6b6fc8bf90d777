"""The symbolic interface of before Gluon: modules of all kinds, mx.rnn, monitors, FeedForward."""
import json

import numpy as np
import pytest

import gluino as mx
from gluino import nd, sym


def perceptron():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=8, name="fc1")
    net = sym.Activation(net, act_type="relu", name="relu1")
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=3, name="fc2"), name="softmax")


def points(count=48, seed=0):
    rng = np.random.RandomState(seed)
    label = rng.randint(0, 3, count)
    return (rng.normal(0, 0.3, (count, 4)) + np.eye(3, 4)[label]).astype("float32"), label.astype("float32")


def start(symbol, **shapes):
    rng = np.random.RandomState(1)
    shapes = symbol.infer_shape(**shapes)[0]
    return {n: nd.array(rng.normal(0, 0.3, s)) for n, s in zip(symbol.list_arguments(), shapes) if n not in ("data", "softmax_label")}


def trained(module, first, epochs=2):
    x, y = points()
    data = mx.io.NDArrayIter(x, y, 16)
    module.fit(data, num_epoch=epochs, optimizer_params={"learning_rate": 0.5, "momentum": 0.9}, arg_params=first, aux_params={})
    return {name: value.asnumpy() for name, value in module.get_params()[0].items()}


def test_several_contexts_learn_what_one_does():
    first = start(perceptron(), data=(16, 4))
    one = trained(mx.mod.Module(perceptron()), first)
    two = trained(mx.mod.Module(perceptron(), context=[mx.cpu(0), mx.cpu(1)]), first)
    uneven = trained(mx.mod.Module(perceptron(), context=[mx.cpu(0), mx.cpu(1)], work_load_list=[3, 1]), first)
    for name in one:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(uneven[name], one[name], rtol=1e-4, atol=1e-5)


def test_the_batch_axis_follows_the_layout():
    data = sym.Variable("data")  # (time, batch)
    module = mx.mod.Module(sym.sum(data, axis=0), label_names=None, context=[mx.cpu(0), mx.cpu(1)])
    module.bind([mx.io.DataDesc("data", (3, 4), layout="TN")], for_training=False)
    module.init_params()
    values = np.arange(12, dtype="float32").reshape(3, 4)
    module.forward(mx.io.DataBatch([nd.array(values)]))
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), values.sum(0))
    assert [part.shape for part in module.get_outputs(merge_multi_context=False)[0]] == [(2,), (2,)]


def test_score_counts_all_rows_and_asks_update_metric():
    x, y = points(20)
    module = mx.mod.Module(perceptron())
    data = mx.io.NDArrayIter(x, y, 16)
    module.bind(data.provide_data, data.provide_label)
    module.init_params()
    metric = mx.metric.Accuracy()
    module.score(data, metric)
    assert metric.num_inst == 32  # the filled rows of the last batch too, as MXNet counts

    class Bare:  # a batch that knows no pad
        def __init__(self, data, label):
            self.data, self.label = data, label

    class Batches(list):
        def reset(self):
            pass
    metric.reset()
    module.score(Batches([Bare([nd.array(x[:16])], [nd.array(y[:16])])]), metric)
    assert metric.num_inst == 16


def test_sequential_and_python_modules_are_the_whole():
    first = start(perceptron(), data=(16, 4))
    whole = trained(mx.mod.Module(perceptron()), first)
    lower = sym.Activation(sym.FullyConnected(sym.Variable("data"), num_hidden=8, name="fc1"), act_type="relu")
    upper = sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc2"), name="softmax")
    chain = mx.mod.SequentialModule().add(mx.mod.Module(lower, label_names=None)).add(mx.mod.Module(upper), take_labels=True, auto_wiring=True)
    for name, value in trained(chain, first).items():
        np.testing.assert_allclose(value, whole[name], rtol=1e-4, atol=1e-5)

    def gradient(scores, labels):
        return nd.softmax(scores) - nd.one_hot(labels, depth=3)
    scores = sym.FullyConnected(lower, num_hidden=3, name="fc2")
    chain = mx.mod.SequentialModule().add(mx.mod.Module(scores, label_names=None)).add(
        mx.mod.PythonLossModule(grad_func=gradient), take_labels=True, auto_wiring=True)
    for name, value in trained(chain, first).items():
        np.testing.assert_allclose(value, whole[name], rtol=1e-4, atol=1e-5)


def test_feed_forward_and_variance_reduction_learn(tmp_path):
    x, y = points(96)
    model = mx.model.FeedForward.create(perceptron(), x, y, num_epoch=20, learning_rate=0.5, numpy_batch_size=16)
    assert (model.predict(x).argmax(1) == y).mean() > 0.9 and model.score(mx.io.NDArrayIter(x, y, 16)) > 0.9
    model.save(str(tmp_path / "model"))
    again = mx.model.FeedForward.load(str(tmp_path / "model"), 20)
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    from gluino.contrib.svrg_optimization import SVRGModule
    module = SVRGModule(perceptron(), update_freq=2)
    data = mx.io.NDArrayIter(x, y, 16)
    module.fit(data, num_epoch=20, optimizer_params={"learning_rate": 0.5})
    assert module.score(data, "acc")[0][1] > 0.9


def test_states_of_a_module_are_carried():
    state, data = sym.Variable("state"), sym.Variable("data")
    module = mx.mod.Module(sym.Group([data + state, sym.BlockGrad(state + 1)]), label_names=None, state_names=["state"])
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params()
    module.set_states(value=2)
    module.forward(mx.io.DataBatch([nd.ones((2, 3))]))
    assert (module.get_outputs()[0].asnumpy() == 3).all()
    module.set_states(states=module.get_outputs()[1:])
    module.forward(mx.io.DataBatch([nd.ones((2, 3))]))
    assert (module.get_outputs()[0].asnumpy() == 4).all() and (module.get_states()[0].asnumpy() == 3).all()


def test_monitors_see_inside():
    module = mx.mod.Module(perceptron())
    module.bind([("data", (4, 4))], [("softmax_label", (4,))])
    module.init_params()
    monitor = mx.mon.Monitor(1, stat_func=lambda x: x.max(), pattern=".*(relu1|fc1).*", sort=True)
    module.install_monitor(monitor)
    monitor.tic()
    module.forward(mx.io.DataBatch([nd.ones((4, 4))], [nd.zeros((4,))]), is_train=True)
    names = [name for _, name, _ in monitor.toc()]
    assert names == ["fc1_bias", "fc1_output", "fc1_weight", "relu1_output"]


# ---- mx.rnn

def run(outputs, **inputs):
    """Values of a symbol whose weights are ramps by their names."""
    group = sym.Group(outputs) if isinstance(outputs, list) else outputs
    shapes, _, _ = group.infer_shape(**{name: value.shape for name, value in inputs.items()})
    args = {name: nd.array(np.sin(np.arange(np.prod(shape)) + len(name)).reshape(shape) * 0.3) if name not in inputs else nd.array(inputs[name])
            for name, shape in zip(group.list_arguments(), shapes)}
    return [out.asnumpy() for out in group.eval(**args)], args


@pytest.mark.parametrize("mode", ["rnn_tanh", "rnn_relu", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_fused_cells_are_unfused_ones(mode, bidirectional):
    x = np.random.RandomState(0).normal(size=(2, 5, 3)).astype("float32")
    fused = mx.rnn.FusedRNNCell(4, num_layers=2, mode=mode, bidirectional=bidirectional, prefix="r_")
    merged, _ = fused.unroll(5, sym.Variable("data"), layout="NTC", merge_outputs=True)
    (expected,), args = run(merged, data=x)
    stack = fused.unfuse()
    separate, _ = stack.unroll(5, sym.Variable("data"), layout="NTC", merge_outputs=True)
    weights = stack.pack_weights(fused.unpack_weights({"r_parameters": args["r_parameters"]}))
    (found,) = separate.eval(data=nd.array(x), **weights)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5, atol=1e-6)
    packed = fused.pack_weights(stack.unpack_weights(weights))
    np.testing.assert_array_equal(packed["r_parameters"].asnumpy(), args["r_parameters"].asnumpy())


def test_cells_start_from_zeros_of_the_batch():
    x = np.ones((3, 2, 4), "float32")
    for cell in (mx.rnn.LSTMCell(5, prefix="a_"), mx.rnn.ResidualCell(mx.rnn.GRUCell(4, prefix="b_")), mx.rnn.ZoneoutCell(mx.rnn.RNNCell(5, prefix="c_"), 0.5, 0.5),
                 mx.rnn.BidirectionalCell(mx.rnn.LSTMCell(5, prefix="d_"), mx.rnn.LSTMCell(5, prefix="e_"))):
        given, _ = cell.unroll(2, sym.Variable("data"), begin_state=cell.begin_state(), merge_outputs=True)
        own, _ = cell.unroll(2, sym.Variable("data"), merge_outputs=True)
        assert given.list_arguments() == own.list_arguments()
        np.testing.assert_array_equal(run(given, data=x)[0][0], run(own, data=x)[0][0])


def test_convolutional_cells_keep_extents():
    for kind in (mx.rnn.ConvRNNCell, mx.rnn.ConvLSTMCell, mx.rnn.ConvGRUCell):
        cell = kind(input_shape=(1, 3, 6, 7), num_hidden=5)
        outputs, _ = cell.unroll(2, [sym.Variable("a"), sym.Variable("b")])
        values, _ = run(outputs, a=np.ones((2, 3, 6, 7), "float32"), b=np.ones((2, 3, 6, 7), "float32"))
        assert [v.shape for v in values] == [(2, 5, 6, 7)] * 2


def test_a_language_model_in_buckets(tmp_path):
    rng = np.random.RandomState(0)
    sentences = [[(start + i) % 7 for i in range(length)] for start, length in zip(rng.randint(0, 7, 300), rng.choice([4, 6], 300))]
    words, vocab = mx.rnn.encode_sentences([[f"w{n}" for n in s] for s in sentences], invalid_label=0, start_label=1)
    data = mx.rnn.BucketSentenceIter(words, 10, buckets=[4, 6], invalid_label=0)
    stack = mx.rnn.FusedRNNCell(16, mode="lstm", prefix="lstm_")

    def sym_gen(length):
        embedded = sym.Embedding(sym.Variable("data"), input_dim=len(vocab) + 1, output_dim=8, name="embed")
        outputs, _ = stack.unroll(length, embedded, layout="NTC", merge_outputs=True)
        scores = sym.FullyConnected(sym.reshape(outputs, shape=(-1, 16)), num_hidden=len(vocab) + 1, name="pred")
        label = sym.reshape(sym.Variable("softmax_label"), shape=(-1,))
        return sym.SoftmaxOutput(scores, label, name="softmax", use_ignore=True, ignore_label=0), ["data"], ["softmax_label"]
    module = mx.mod.BucketingModule(sym_gen, default_bucket_key=data.default_bucket_key)
    perplexity = mx.metric.Perplexity(0)
    module.fit(data, eval_metric=perplexity, num_epoch=4, optimizer="adam", optimizer_params={"learning_rate": 0.02}, initializer=mx.init.Xavier(),
               epoch_end_callback=mx.rnn.do_rnn_checkpoint(stack, str(tmp_path / "lm"), 4))
    assert module.score(data, perplexity)[0][1] < 1.5
    _, args, _ = mx.rnn.load_rnn_checkpoint(stack, str(tmp_path / "lm"), 4)
    np.testing.assert_array_equal(args["lstm_parameters"].asnumpy(), module.get_params()[0]["lstm_parameters"].asnumpy())


def test_python_operators_of_the_oldest_kind():
    class Softmax(mx.operator.NumpyOp):
        def __init__(self):
            super().__init__(False)

        def list_arguments(self):
            return ["data", "label"]

        def infer_shape(self, in_shape):
            return [in_shape[0], (in_shape[0][0],)], [in_shape[0]]

        def forward(self, in_data, out_data):
            e = np.exp(in_data[0] - in_data[0].max(axis=1, keepdims=True))
            out_data[0][:] = e / e.sum(axis=1, keepdims=True)

        def backward(self, out_grad, in_data, out_data, in_grad):
            in_grad[0][:] = out_data[0]
            in_grad[0][np.arange(len(in_data[1])), in_data[1].astype(int)] -= 1
    made = Softmax()(data=sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc"), name="softmax")
    assert made.list_arguments() == ["data", "fc_weight", "fc_bias", "softmax_label"]
    x, y = points()
    module = mx.mod.Module(made)
    data = mx.io.NDArrayIter(x, y, 16)
    module.fit(data, num_epoch=5, optimizer_params={"learning_rate": 0.5})
    assert module.score(data, "acc")[0][1] > 0.9


def test_outputs_are_there_after_bind_and_stay_the_same_arrays():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    bound = net.simple_bind(ctx=mx.cpu(), data=(4, 3))
    held = bound.outputs[0]
    assert held.shape == (4, 2) and not held.asnumpy().any()
    bound.arg_dict["data"][:] = 1
    for weight in (2, 5):
        bound.arg_dict["fc_weight"][:] = weight
        assert bound.forward(is_train=weight == 5)[0] is held
        np.testing.assert_array_equal(held.asnumpy(), np.full((4, 2), 3 * weight))
    bound.backward(mx.nd.ones((4, 2)))
    np.testing.assert_array_equal(bound.grad_dict["fc_bias"].asnumpy(), [4, 4])
    assert bound.reshape(data=(2, 3)).outputs[0].shape == (2, 2)


def test_a_compiled_block_knows_how_its_inputs_are_nested():
    class Sum(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, states):
            return x + states[0] + states[1]

    net = Sum()
    assert net._in_format is None
    net.hybridize()
    net(mx.nd.ones((2,)), [mx.nd.ones((2,)), mx.nd.ones((2,))])
    assert net._in_format == [0, [0, 0]]


@pytest.mark.parametrize("function, shapes", [
    (lambda F, a: F.linalg.norm(a), [(3, 4)]), (lambda F, a: F.linalg.norm(a, axis=1, keepdims=True), [(3, 4)]),
    (lambda F, a: F.linalg.norm(a, ord="nuc", axis=(0, 1)), [(3, 3)]), (lambda F, a: F.linalg.norm(a, ord=3, axis=0), [(3, 4)]),
    (lambda F, a: F.linalg.det(a), [(2, 3, 3)]), (lambda F, a: F.linalg.slogdet(a)[1], [(2, 3, 3)]), (lambda F, a: F.linalg.pinv(a), [(3, 2)]),
    (lambda F, a, b: F.linalg.solve(a, b), [(3, 3), (3, 2)]), (lambda F, a: F.linalg.tensorinv(a, ind=2), [(2, 3, 6)]),
    (lambda F, a, b: F.linalg.tensorsolve(a, b), [(2, 3, 6), (2, 3)]), (lambda F, a: F.flip(a), [(2, 3)]), (lambda F, a, b: a @ b, [(2, 3), (3, 4)]),
    (lambda F, a: F.median(a, axis=0), [(5, 2)]), (lambda F, a: F.delete(a, 1, axis=1), [(2, 3)]), (lambda F, a: F.insert(a, 1, 7.0, axis=0), [(2, 3)]),
    (lambda F, a: F.delete(a, slice(0, 2)), [(2, 3)]), (lambda F, a: F.unique(F.sign(a)), [(4, 3)]), (lambda F, a: F.histogram(a, 4, (-2.0, 2.0))[0], [(20,)]),
    (lambda F, a: F.bincount(F.abs(a).astype("int32")), [(9,)]), (lambda F, a: F.bitwise_xor(a.astype("int32"), 5), [(4,)]),
    (lambda F, a: F.lcm(6, a.astype("int32")), [(4,)]), (lambda F, a: F.invert(a.astype("int32")), [(4,)]), (lambda F, a: F.flatnonzero(a), [(2, 2)]),
    (lambda F, a: F.linalg.det(a), [(3, 3)]), (lambda F, a: F.linalg.slogdet(a)[0], [(3, 3)]), (lambda F, a: F.linalg.slogdet(a)[1], [(2, 2)]),
    (lambda F, a, b: F.kron(a, b), [(2, 3), (3, 2)]), (lambda F, a, b: F.kron(a, b), [(2,), (3, 2)]), (lambda F, a, b: F.cross(a, b), [(4, 3), (4, 3)]),
    (lambda F, a, b: F.cross(a, b), [(2,), (2,)]), (lambda F, a, b: F.cross(a, b, axis=0), [(3, 4), (3, 4)]), (lambda F, a, b: F.cross(a, b), [(4, 2), (3,)]),
    (lambda F, a: F.linalg.qr(a)[0], [(4, 3)]), (lambda F, a: F.linalg.qr(a)[1], [(3, 4)]), (lambda F, a: F.linalg.qr(a)[1], [(2, 3, 3)]),
    (lambda F, a, b: F.linalg.multi_dot([a, b, a]), [(2, 3), (3, 2)]), (lambda F, a: F.linalg.matrix_power(a, 3), [(3, 3)]),
    (lambda F, a: F.linalg.matrix_power(a, -2), [(3, 3)]), (lambda F, a: F.linalg.cond(a), [(3, 3)]), (lambda F, a: F.sinc(a), [(2, 3)]),
    (lambda F, a: F.nanstd(a, axis=1), [(2, 3)]), (lambda F, a: F.nanvar(a, ddof=1), [(2, 3)]), (lambda F, a: F.diagonal(a), [(3, 3)]),
    (lambda F, a: F.take_along_axis(a, F.argsort(a, axis=1), 1), [(2, 3)])])
def test_functions_of_symbols_without_a_shape(function, shapes):
    values = [mx.np.array(np.random.RandomState(i).randn(*shape) + 0.1, dtype="float32") for i, shape in enumerate(shapes)]
    symbols = [mx.sym.var(f"x{i}").as_np_ndarray() for i in range(len(shapes))]
    expected = function(mx.np, *values)
    with mx.np_shape():
        found = function(mx.sym.np, *symbols).eval(**{f"x{i}": value.as_nd_ndarray() for i, value in enumerate(values)})[0]
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)
    assert found.shape == expected.shape


HEADS = {"of a label": lambda label, loss: label * 2, "blocked label": lambda label, loss: mx.sym.BlockGrad(label * 2),
         "blocked weight": lambda label, loss: mx.sym.BlockGrad(loss.get_internals()["fc_weight"]), "an argument": lambda label, loss: label,
         "indices": lambda label, loss: mx.sym.argmax(loss, axis=1), "a blocked sum": lambda label, loss: mx.sym.BlockGrad(loss) + label}


@pytest.mark.parametrize("with_gradients", (False, True))
@pytest.mark.parametrize("name", HEADS)
def test_outputs_that_depend_on_nothing_learnt(name, with_gradients):
    data, label = mx.sym.var("data"), mx.sym.var("label")
    loss = mx.sym.square(mx.sym.FullyConnected(data, num_hidden=1, name="fc") - label)
    requests = {"data": "null", "label": "null", "fc_weight": "write", "fc_bias": "add"}
    seen = []
    for outputs in (mx.sym.Group([loss]), mx.sym.Group([loss, HEADS[name](label, loss)]), mx.sym.Group([HEADS[name](label, loss), loss])):
        bound = outputs.simple_bind(mx.cpu(), data=(2, 3), label=(2, 1), grad_req=requests)
        bound.arg_dict["fc_weight"][:], bound.arg_dict["data"][:] = 1, 1
        for _ in range(2):
            bound.forward(is_train=True)
            bound.backward([mx.nd.ones(out.shape) * 2 for out in bound.outputs] if with_gradients else None)
        seen.append([bound.grad_dict[key].asnumpy().tolist() for key in ("fc_weight", "fc_bias")])
    assert seen[0] == seen[1] == seen[2] and seen[0][1][0] != 0
    with pytest.raises(mx.MXNetError, match="gradients were given"):
        bound.backward([mx.nd.ones((2, 1))])


def test_where_no_output_depends_on_what_is_learnt():
    bound = mx.sym.BlockGrad(mx.sym.var("a") * 2).bind(mx.cpu(), {"a": mx.nd.ones((2,))}, {"a": mx.nd.ones((2,)) * 5})
    bound.forward(is_train=True)
    bound.backward()
    assert bound.grad_dict["a"].asnumpy().tolist() == [0, 0]


@pytest.mark.parametrize("contexts", (1, 2))
def test_a_module_with_an_output_of_its_label(contexts):
    label = mx.sym.var("label")
    module = mx.mod.Module(mx.sym.Group([mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1), label), label * 2]),
                           label_names=("label",), context=[mx.cpu(i) for i in range(contexts)])
    module.fit(mx.io.NDArrayIter(mx.nd.ones((4, 3)), mx.nd.ones((4, 1)), 4, label_name="label"), num_epoch=30, eval_metric=mx.metric.Loss(),
               optimizer_params={"learning_rate": 0.1})
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), 1, atol=0.2)
    assert module.get_outputs()[1].asnumpy().tolist() == [[2]] * 4


def attributes(symbol):
    return {node["name"]: node.get("attrs", {}) for node in json.loads(symbol.tojson())["nodes"] if node["op"] != "null"}


def test_files_say_what_was_given():
    x = mx.sym.var("x")
    pool = mx.sym.Pooling(x, kernel=(4, 4), pool_type="sum", name="pool")
    assert attributes(mx.sym.SoftmaxOutput(pool, name="out")) == {"pool": {"kernel": "(4, 4)", "pool_type": "sum"}, "out": {}}
    given = mx.sym.Pooling(x, kernel=(2, 2), pool_type="max", pooling_convention="valid", global_pool=False, name="pool")
    wanted = {"kernel": "(2, 2)", "pool_type": "max", "pooling_convention": "valid", "global_pool": "False"}
    assert attributes(given)["pool"] == wanted == given.attr_dict()["pool"] and given.attr("pool_type") == "max"
    assert attributes(mx.sym.load_json(given.tojson()))["pool"] == wanted
    assert attributes(mx.sym.load_json(mx.sym.Group([given, x]).tojson())[0] * 2)["pool"] == wanted
    # MXNet has no default for these.
    assert attributes(mx.sym.Activation(x, act_type="relu", name="a"))["a"] == {"act_type": "relu"}
    assert attributes(mx.sym.UpSampling(x, scale=2, sample_type="nearest", name="u"))["u"] == {"scale": "2", "sample_type": "nearest", "num_args": "1"}


def test_layers_say_how_they_pool(tmp_path):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.MaxPool2D(2), mx.gluon.nn.LeakyReLU(0.1))
    for hybridized in (False, True):
        if hybridized:
            net.hybridize()
            net(mx.nd.ones((1, 1, 4, 4)))
        net.export(str(tmp_path / "net"))
        found = attributes(mx.sym.load(str(tmp_path / "net-symbol.json"))).values()
        assert {"max", "valid", "leaky"} <= {value for attrs in found for value in attrs.values()}
