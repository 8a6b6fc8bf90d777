"""Arrays, autograd, mx.np, errors and the small modules."""
import copy
import inspect
import json
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd, sym


def test_arrays_behave_as_mxnets():
    x = nd.array([[1, 2], [3, 4]])
    assert x.shape == (2, 2) and x.dtype == np.float32 and x.context == mx.cpu(0) and x.size == 4 and x.ndim == 2
    assert repr(x) == "\n[[1. 2.]\n [3. 4.]]\n<NDArray 2x2 @cpu(0)>"
    assert nd.array(np.ones(2)).dtype == np.float32 and nd.array(np.ones(2), dtype=np.int32).dtype == np.int32
    assert x.sum().shape == (1,) and x[0, 1].asscalar() == 2 and float(x[1, 0]) == 3 and len(x) == 2
    assert (x > 2).asnumpy().tolist() == [[0, 0], [1, 1]]
    assert [row.asnumpy().tolist() for row in x] == [[1, 2], [3, 4]]
    assert (2 - x).asnumpy().tolist() == [[1, 0], [-1, -2]] and (x ** 2).asnumpy()[1, 1] == 16 and (1 / x).asnumpy()[0, 1] == 0.5
    y = x
    y += 1
    assert x.asnumpy()[0, 0] == 2
    x[:] = 0
    x[1] = [7, 8]
    x[0, 1] = 5
    assert x.asnumpy().tolist() == [[0, 5], [7, 8]]
    assert np.asarray(x).sum() == 20 and (np.ones((2, 2)) * x.asnumpy()).sum() == 20
    assert pickle.loads(pickle.dumps(x)).asnumpy().tolist() == x.asnumpy().tolist()
    assert copy.deepcopy(x).asnumpy().tolist() == x.asnumpy().tolist()
    assert x.reshape(-1).shape == (4,) and x.reshape((0, 1, 2)).shape == (2, 1, 2) and x.T.asnumpy()[0, 1] == 7
    assert x.as_in_context(mx.cpu(1)).context == mx.cpu(1)
    with mx.Context(mx.cpu(2)):
        assert nd.zeros((1,)).context == mx.cpu(2)
    assert nd.zeros((1,)).context == mx.cpu(0)
    out = nd.zeros((2, 2))
    nd.broadcast_add(x, x, out=out)
    assert out.asnumpy()[1, 1] == 16
    with pytest.raises(ValueError):
        bool(x)
    with pytest.raises(mx.MXNetError, match="CPU"):
        nd.zeros((1,), ctx=mx.gpu(0))


def test_arrays_are_made_where_they_are_wanted():
    there = mx.cpu(1)
    for make in (lambda c: nd.zeros((2,), ctx=c), lambda c: nd.ones((2,), c), lambda c: nd.full((2,), 3, ctx=c), lambda c: nd.arange(3, ctx=c),
                 lambda c: nd.linspace(0, 1, 3, ctx=c), lambda c: nd.eye(2, ctx=c), lambda c: nd.array([1], ctx=c), lambda c: nd.random.uniform(shape=(2,), ctx=c),
                 lambda c: nd.random.randint(0, 3, shape=(2,), ctx=c), lambda c: mx.np.zeros((2,), ctx=c), lambda c: mx.np.random.normal(size=(2,), ctx=c)):
        assert make(there).context == there and make(None).context == mx.cpu(0)
        with there:
            assert make(None).context == there and make(mx.cpu(2)).context == mx.cpu(2)


def test_functions_of_old_scripts():
    out = nd.zeros((2, 2))
    assert nd.ones((2, 2), out=out) is out and out.asnumpy().sum() == 4
    filled = nd.fill_element_0index(nd.zeros((2, 3)), nd.array([5, 6]), nd.array([2, 0]))
    assert filled.asnumpy().tolist() == [[0, 0, 5], [6, 0, 0]]
    function = nd.CachedOp(sym.FullyConnected(num_hidden=2, name="fc") + 1)
    weight = nd.ones((2, 3))
    weight.attach_grad()
    with autograd.record():
        y = function(nd.ones((1, 3)), weight, nd.zeros((2,)))
    y.backward()
    assert y.asnumpy().tolist() == [[4, 4]] and weight.grad.asnumpy().tolist() == [[1] * 3] * 2
    function(nd.ones((1, 3)), weight, nd.ones((2,)), out=y)
    assert y.asnumpy().tolist() == [[5, 5]] and [part.shape for part in nd.ones((2, 6)).split_v2(3, axis=1)] == [(2, 2)] * 3


def test_files_round_trip():
    arrays = {"a": nd.array([1, 2]), "b": nd.ones((2, 3), dtype="int32")}
    nd.save("x.params", arrays)
    loaded = nd.load("x.params")
    assert list(loaded) == ["a", "b"] and loaded["b"].dtype == np.int32
    nd.save("list", [nd.ones((2,))])
    assert isinstance(nd.load("list"), list)
    nd.save("x.npz", arrays)
    assert np.load("x.npz")["a"].tolist() == [1, 2]


def test_every_operator_is_there_with_a_page():
    for name, op in mx._core.operator_names():
        assert getattr(nd._internal, name).op_name == op and getattr(sym._internal, name).op_name == op
    assert "num_hidden : int64_t, required" in nd.FullyConnected.__doc__ and "FullyConnected(data" in nd.FullyConnected.__doc__
    assert nd.contrib.box_nms.op_name == "_contrib_box_nms" and nd.linalg.gemm2.op_name == "_linalg_gemm2"


def test_positional_and_keyword_arguments():
    x = nd.array([[3, 1], [2, 4]])
    assert nd.clip(x, 2, 3).asnumpy().tolist() == nd.clip(data=x, a_min=2, a_max=3).asnumpy().tolist()
    assert nd.concat(x, x, dim=1).shape == (2, 4) and nd.concat(*[x, x], dim=0).shape == (4, 2)
    assert nd.sum(x, 1).shape == (2,) and nd.sum(x, axis=(0, 1)).asscalar() == 10
    assert x.astype(np.float64).dtype == np.float64 and x.astype("int8").dtype == np.int8
    assert nd.slice(x, begin=(0, None), end=(1, None)).shape == (1, 2)
    assert [p.shape for p in nd.split(x, num_outputs=2)] == [(2, 1), (2, 1)]


def test_autograd():
    x = nd.array([1, 2, 3])
    x.attach_grad()
    with autograd.record():
        y = (x * x).sum()
    assert autograd.is_recording() is False
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 4, 6]
    with autograd.record():
        z = x ** 3
        first, = autograd.grad(z, x, create_graph=True)
        total = first.sum()
    assert autograd.grad(total, x)[0].asnumpy().tolist() == [6, 12, 18]

    class Sigmoid(autograd.Function):
        def forward(self, x):
            y = 1 / (1 + nd.exp(-x))
            self.save_for_backward(y)
            return y

        def backward(self, dy):
            y, = self.saved_tensors
            return dy * y * (1 - y)
    with autograd.record():
        s = Sigmoid()(x)
    s.backward()
    want = 1 / (1 + np.exp(-np.array([1, 2, 3.0])))
    np.testing.assert_allclose(x.grad.asnumpy(), want * (1 - want), rtol=1e-5)

    class Failing(Sigmoid):
        def backward(self, dy):
            raise KeyError("mine")
    with autograd.record():
        s = Failing()(x)
    with pytest.raises(KeyError, match="mine"):
        s.backward()


def test_numpy_interface():
    np_ = mx.np
    a = np_.array([[1, 2], [3, 4.0]])
    assert isinstance(a, np_.ndarray) and a.sum().shape == () and float(a.mean()) == 2.5 and repr(np_.array([1, 2])) == "array([1., 2.])"
    assert (a > 2).dtype == np.bool_ and a[a > 2].asnumpy().tolist() == [3, 4]
    rng = np.random.RandomState(0)
    x, y = rng.randn(3, 4).astype("float32"), rng.randn(4, 2).astype("float32")
    mx_x, mx_y = np_.array(x), np_.array(y)
    for ours, theirs in [(np_.dot(mx_x, mx_y), x @ y), (mx_x @ mx_y, x @ y), (np_.std(mx_x, axis=1), x.std(axis=1)), (np_.concatenate([mx_x, mx_x], 1), np.concatenate([x, x], 1)),
                         (np_.where(mx_x > 0, mx_x, 0), np.where(x > 0, x, 0)), (np_.argmax(mx_x, 1), x.argmax(1)), (np_.einsum("ij,jk->ik", mx_x, mx_y), x @ y),
                         (np_.tensordot(mx_x, mx_y, 1), x @ y), (mx_x.transpose(1, 0), x.T), (mx_x.reshape(2, -1), x.reshape(2, -1)), (np_.stack([mx_x, mx_x]), np.stack([x, x])),
                         (np_.exp(mx_x), np.exp(x)), (np_.linalg.norm(mx_x), np.linalg.norm(x)), (np_.median(mx_x), np.median(x)), (np_.var(mx_x), x.var()),
                         (mx_x[:, None, 1:3], x[:, None, 1:3]), (np_.tril(mx_x), np.tril(x)), (np_.clip(mx_x, None, 0.5), np.clip(x, None, 0.5))]:
        np.testing.assert_allclose(ours.asnumpy(), theirs, rtol=1e-5, atol=1e-6)
        assert ours.shape == theirs.shape
    mx.npx.set_np()
    net = gluon.nn.Dense(2)
    net.initialize()
    assert isinstance(net(np_.ones((1, 3))), np_.ndarray)
    assert mx.npx.softmax(a).asnumpy().sum() == pytest.approx(2)
    net.hybridize()
    assert isinstance(net(np_.ones((1, 3))), np_.ndarray)


@pytest.mark.parametrize("call, error, parts", [
    (lambda: nd.FullyConnected(nd.ones((2, 3)), nd.ones((4, 5)), num_hidden=4, no_bias=True), ValueError, ["FullyConnected", "(2, 3)", "(4, 5)"]),
    (lambda: nd.Convolution(nd.ones((1, 1, 4, 4)), nd.ones((1, 1, 3, 3)), kernal=(3, 3), num_filter=1, no_bias=True), TypeError, ["kernal", "kernel"]),
    (lambda: nd.Pooling(nd.ones((1, 1, 4, 4)), kernel=(2, 2), pool_type="median"), mx.MXNetError, ["pool_type", "median"]),
    (lambda: nd.relu(np.ones(3)), TypeError, ["mx.nd.array"]),
    (lambda: nd.sofmax, AttributeError, ["did you mean 'softmax'"]),
    (lambda: gluon.nn.Dense(2)(np.ones(3)), ValueError, ["ndarray", "mx.nd.array"]),
    (lambda: nd.relu(), TypeError, ["data", "missing"]),
    (lambda: nd.relu(nd.ones(2), 3, 4), TypeError, ["too many"]),
    (lambda: nd.zeros((2, -1)), mx.MXNetError, ["(2, ?)"]),
    (lambda: nd.ones((2, 3))[5], IndexError, ["5", "axis 0"]),
    (lambda: nd.ones((2, 3)) + "a", TypeError, []),
    (lambda: nd.load("absent.params"), OSError, ["absent.params"]),
    (lambda: sym.load("absent.json"), OSError, ["absent.json"]),
    (lambda: nd.array(["a"]), TypeError, ["array like"]),
    (lambda: gluon.nn.Dense(2)(nd.ones((1, 2))), RuntimeError, ["initialize()"]),
    (lambda: gluon.nn.Dense(2).hybridize(statik=True), TypeError, ["statik"]),
    (lambda: mx.optimizer.create("sgdd"), ValueError, ["sgdd"]),
    (lambda: mx.gpu(0) and nd.ones((1,), ctx=mx.gpu(0)), mx.MXNetError, ["CPU"]),
    (lambda: mx.kv.create("dist_sink"), mx.MXNetError, ["dist_sync"]),
    (lambda: gluon.SymbolBlock.imports("x.json", ["data"]), OSError, ["x.json"]),
    (lambda: nd.ones((2,)).backward(), mx.MXNetError, []),
    (lambda: nd.ones((2, 2)).asscalar(), ValueError, ["scalar"]),
], ids=range(22))
def test_errors_say_what_is_wrong(call, error, parts):
    with pytest.raises(error) as raised:
        call()
    for part in parts:
        assert part in str(raised.value)


def test_errors_of_a_compiled_call_name_the_line():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.dot(x, F.ones((3, 2)))  # the line to find
    net = Net()
    net.hybridize()
    net(nd.ones((2, 3)))
    with pytest.raises(ValueError) as raised:
        net(nd.ones((2, 4)))
    line = next(n for n, text in enumerate(pathlib.Path(__file__).read_text().splitlines(), 1) if "# the line to find" in text)
    assert f"[test_interface.py:{line}]" in str(raised.value)


def test_errors_name_the_block():
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(2, in_units=3))
    net.initialize()
    for hybrid in (False, True):
        net.hybridize(hybrid)
        with pytest.raises(ValueError, match=r"\(in net_dense0, a Dense\)"):
            net(nd.ones((1, 4)))


def test_small_modules(capsys):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(3), gluon.nn.Dense(2))
    net.initialize()
    net.summary(nd.ones((1, 4)))
    assert "Dense-" in capsys.readouterr().out
    data = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
    mx.viz.print_summary(data, {"data": (1, 4)})
    assert "Total params: 15" in capsys.readouterr().out
    assert "digraph" in mx.viz.plot_network(data).source
    mx.profiler.set_config(filename="trace.json")
    mx.profiler.set_state("run")
    with mx.profiler.Task("domain", "work"):
        nd.dot(nd.ones((8, 8)), nd.ones((8, 8)))
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    names = {event["name"] for event in json.loads(pathlib.Path("trace.json").read_text())["traceEvents"]}
    assert {"work", "dot"} <= names
    assert mx.runtime.Features().is_enabled("OPENMP")
    assert mx.lr_scheduler.FactorScheduler(10, 0.5, base_lr=1.0)(11) == 0.5
    record = mx.recordio.MXIndexedRecordIO("x.idx", "x.rec", "w")
    for i in range(3):
        record.write_idx(i, mx.recordio.pack(mx.recordio.IRHeader(0, i, i, 0), bytes([i]) * (i + 1)))
    record.close()
    header, content = mx.recordio.unpack(mx.recordio.MXIndexedRecordIO("x.idx", "x.rec", "r").read_idx(2))
    assert header.label == 2 and content == b"\2\2\2"


def test_command_line():
    def run(*args):
        return subprocess.run([sys.executable, "-m", "gluino", *args], capture_output=True, text=True)
    assert "num_hidden" in run("ops", "FullyConnected").stdout and "\nConvolution\n" in run("ops").stdout
    missing = run("inspect", "absent.params")
    assert missing.returncode == 1 and missing.stderr.startswith("gluino: ") and "absent.params" in missing.stderr
    assert run("nonsense").returncode != 0 and "demo" in run("--help").stdout
    nd.save("x.params", {"arg:w": nd.ones((2, 3))})
    assert "arg:w  (2, 3)  float32" in run("inspect", "x.params").stdout
    sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc").save("fc-symbol.json")
    assert "(5, 3)" in run("inspect", "fc-symbol.json", "--shape", "data=5,4").stdout
    shown = run("demo", "--epochs", "1", "--folder", "shown")
    assert shown.returncode == 0 and "a second process loads it and compares" in shown.stdout


def test_gradients_go_to_marked_arrays():
    x, gradient = nd.array([1, 2]), nd.zeros((2,))
    autograd.mark_variables([x], [gradient], "add")
    for _ in range(2):
        with autograd.record():
            y = (x * x).sum()
        y.backward()
    assert gradient.asnumpy().tolist() == [4, 8] and x.grad.asnumpy().tolist() == [4, 8]
    with pytest.raises(ValueError, match="shape"):
        autograd.mark_variables([x], [nd.zeros((3,))])


def test_warnings_of_blocks():
    class Hiding(gluon.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.layers = {"a": [gluon.nn.Dense(2)]}
    with pytest.warns(UserWarning, match="Hiding.layers"):
        Hiding().collect_params()
    chain = gluon.nn.Sequential()
    chain.add(gluon.nn.Dense(2))
    with pytest.warns(UserWarning, match="HybridSequential"):
        chain.hybridize()


@pytest.mark.parametrize("op, states, attributes", [
    ("sgd_update", 0, "lr wd rescale_grad clip_gradient lazy_update"), ("sgd_mom_update", 1, "lr momentum wd rescale_grad clip_gradient lazy_update"),
    ("mp_sgd_update", 1, "lr wd rescale_grad clip_gradient lazy_update"), ("mp_sgd_mom_update", 2, "lr momentum wd rescale_grad clip_gradient lazy_update"),
    ("nag_mom_update", 1, "lr momentum wd rescale_grad clip_gradient"), ("mp_nag_mom_update", 2, "lr momentum wd rescale_grad clip_gradient"),
    ("signsgd_update", 0, "lr wd rescale_grad clip_gradient"), ("signum_update", 1, "lr momentum wd rescale_grad clip_gradient wd_lh"),
    ("adam_update", 2, "lr beta1 beta2 epsilon wd rescale_grad clip_gradient lazy_update"),
    ("_adamw_update", 3, "lr beta1 beta2 epsilon wd eta clip_gradient"), ("rmsprop_update", 1, "lr gamma1 epsilon wd rescale_grad clip_gradient clip_weights"),
    ("rmspropalex_update", 3, "lr gamma1 gamma2 epsilon wd rescale_grad clip_gradient clip_weights"),
    ("ftrl_update", 2, "lr lamda1 beta wd rescale_grad clip_gradient"), ("ftml_update", 3, "lr beta1 beta2 epsilon t wd rescale_grad clip_grad"),
    ("_sparse_adagrad_update", 1, "lr epsilon wd rescale_grad clip_gradient"),
    ("lamb_update_phase1", 2, "beta1 beta2 epsilon t bias_correction wd rescale_grad clip_gradient"),
])
def test_updates_take_their_attributes_in_mxnets_order(op, states, attributes):
    about = mx._core.describe_operator(op)
    assert " ".join(name for name, *_ in about["fields"]) == attributes and len(about["inputs"]) == 2 + states
    if op == "sgd_mom_update":
        weight, mom = nd.ones((2,)), nd.ones((2,))
        nd.sgd_mom_update(weight, nd.ones((2,)), mom, 0.5, 0.25, 0.125, out=weight)
        np.testing.assert_allclose(weight.asnumpy(), [1 + 0.25 - 0.5 * 1.125] * 2)


def test_a_step_wants_fresh_gradients():
    net = gluon.nn.HybridSequential()
    used, unused = gluon.nn.Dense(2, in_units=2), gluon.nn.Dense(2, in_units=2)
    net.add(used, unused)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    before = [layer.weight.data().asnumpy() for layer in (used, unused)]
    with autograd.record():
        loss = used(nd.ones((1, 2)))
    loss.backward()
    with pytest.raises(UserWarning, match=f"{unused.weight.name}.*has not been updated by backward.*ignore_stale_grad"):
        trainer.step(1)
    assert (used.weight.data().asnumpy() == before[0]).all()
    trainer.step(1, ignore_stale_grad=True)
    after = [layer.weight.data().asnumpy() for layer in (used, unused)]
    assert (after[0] != before[0]).all() and (after[1] == before[1]).all()
    trainer.step(1, ignore_stale_grad=True)  # nothing is fresh any more
    assert (used.weight.data().asnumpy() == after[0]).all()


def test_public_functions_have_pages():
    for module in (mx.gluon.nn, mx.gluon.loss, mx.gluon.rnn, mx.metric, mx.optimizer, mx.init, mx.lr_scheduler, mx.io):
        for name, thing in vars(module).items():
            if not name.startswith("_") and inspect.isclass(thing) and thing.__module__.startswith("gluino"):
                assert thing.__doc__, f"{module.__name__}.{name} has no docstring"


def test_the_code_of_the_documentation_runs():
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text()
    names = {}
    for code in text.split("```python\n")[1:]:
        exec(code.split("```")[0], names)
    assert pathlib.Path("mlp-symbol.json").exists() and isinstance(mx.load_block("mlp.gluino"), gluon.SymbolBlock)
    assert names["f"](nd.ones((1,)), nd.ones((1,))).asscalar() == 2 and names["y"].shape == names["x"].shape
