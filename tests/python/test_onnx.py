"""ONNX files through Python: networks out and back, MXNet's names, files that are damaged."""
import os
import random

import numpy as np
import pytest

import mxnet as mx


@pytest.fixture(scope="module", autouse=True)
def _format():
    """Skips, with what to install, where libgluino_onnx is not built."""
    try:
        mx.onnx.import_model("absent.onnx")
    except Exception as error:  # noqa: BLE001
        if "libgluino_onnx" in str(error):
            pytest.skip(str(error))


def _checked(path):
    """Has onnx.checker look at the file, where there is one."""
    try:
        import onnx
    except ImportError:
        return
    onnx.checker.check_model(path, full_check=True)


def _round_trip(sym, params, inputs, tmp_path, rtol=1e-4, atol=1e-5):
    """The symbol's answers to inputs by name, which the file gives too, eager and hybridized."""
    path = str(tmp_path / "model.onnx")
    values = {n[4:] if n.startswith(("arg:", "aux:")) else n: v for n, v in params.items()}
    names = [n for n in sym.list_inputs() if n not in values and not n.endswith("label")]
    mx.onnx.export_model(sym, params, [inputs[n].shape for n in names], [inputs[n].dtype for n in names], path)
    _checked(path)
    arrays = {n: mx.nd.array(inputs[n], dtype=inputs[n].dtype) for n in names}
    shapes = {n: a.shape for n, a in {**values, **arrays}.items() if n in sym.list_inputs()}
    bound = sym.simple_bind(mx.cpu(), grad_req="null", **shapes)
    bound.copy_params_from({n: v for n, v in values.items() if n in sym.list_arguments()},
                           {n: v for n, v in values.items() if n in sym.list_auxiliary_states()})
    expected = bound.forward(is_train=False, **arrays)
    back = mx.onnx.import_model(path)
    for hybrid in (False, True):
        back.hybridize(hybrid)
        got = back(*[arrays[n] for n in back.input_names])
        got = got if isinstance(got, (list, tuple)) else [got]
        for g, e in zip(got, expected):
            np.testing.assert_allclose(g.asnumpy(), e.asnumpy(), rtol=rtol, atol=atol)
    return [e.asnumpy() for e in expected]


ZOO = ["alexnet", "densenet121", "inceptionv3", "mobilenet0.25", "mobilenetv2_0.25", "resnet18_v1", "resnet18_v2", "squeezenet1.0", "vgg11",
       "vgg11_bn", "resnet50_v1", "resnet50_v2"]


@pytest.mark.parametrize("name", ZOO)
def test_zoo(name, tmp_path):
    net = mx.gluon.model_zoo.vision.get_model(name, classes=10)
    net.initialize(mx.init.Xavier())
    size = 299 if name == "inceptionv3" else 224 if name in ("alexnet", "vgg11", "vgg11_bn", "densenet121", "squeezenet1.0") else 64
    x = np.random.RandomState(0).uniform(-1, 1, (1, 3, size, size)).astype("float32")
    net.hybridize()
    net(mx.nd.array(x))
    files = net.export(str(tmp_path / "net"))
    _round_trip(mx.sym.load(files[0]), mx.nd.load(files[1]), {"data": x}, tmp_path)


def _recorded_round_trip(sym, params, recorded, tmp_path):
    """The model as ONNX and back gives the answers that MXNet gave."""
    known = {n[4:] if n.startswith(("arg:", "aux:")) else n for n in params}
    names = [n for n in sym.list_inputs() if n not in known and not n.endswith("label")]
    inputs = {n: recorded[f"in:{n}"] if f"in:{n}" in recorded.files else recorded[f"in{i}"] for i, n in enumerate(names)}
    for i, answer in enumerate(_round_trip(sym, params, inputs, tmp_path)):
        np.testing.assert_allclose(answer, recorded[f"out{i}"], rtol=1e-3, atol=1e-4)


def test_golden_models(shared, tmp_path):
    folder = shared / "golden" / "models"
    for path in sorted(folder.glob("*-symbol.json")):
        name = path.name[:-len("-symbol.json")]
        _recorded_round_trip(mx.sym.load(str(path)), mx.nd.load(str(folder / f"{name}-0001.params")), np.load(folder / f"{name}-io.npz"), tmp_path)


def test_real_models(shared, tmp_path):
    """Models of public repositories, with the answers that were recorded."""
    done = 0
    for recorded in sorted((shared / "models").glob("*/*-io.npz")):
        stem = str(recorded)[:-len("-io.npz")]
        params = sorted(recorded.parent.glob(os.path.basename(stem) + "-0*.params"))
        _recorded_round_trip(mx.sym.load(stem + "-symbol.json"), mx.nd.load(str(params[-1])), np.load(recorded), tmp_path)
        done += 1
    assert done == 14


def test_mxnet_names(tmp_path):
    x = mx.sym.var("data")
    y = mx.sym.Activation(mx.sym.FullyConnected(x, num_hidden=3, name="fc"), act_type="tanh")
    params = {"fc_weight": mx.nd.random.normal(shape=(3, 4)), "fc_bias": mx.nd.zeros(3)}
    path = mx.contrib.onnx.export_model(y, params, [(2, 4)], np.float32, str(tmp_path / "a.onnx"))
    assert path == str(tmp_path / "a.onnx")
    assert mx.contrib.onnx.get_model_metadata(path) == {"input_tensor_data": [("data", (2, 4))], "output_tensor_data": [(y.list_outputs()[0], (2, 3))]}
    sym, args, auxs = mx.contrib.onnx.import_model(path)
    assert sym.list_arguments()[0] == "data" and not auxs
    data = mx.nd.random.normal(shape=(2, 4))
    bound = sym.bind(mx.cpu(), {"data": data, **args})
    net = mx.contrib.onnx.import_to_gluon(path)
    np.testing.assert_allclose(bound.forward()[0].asnumpy(), net(data).asnumpy(), rtol=1e-5)
    assert "FullyConnected" in mx.onnx.get_operator_support()


def test_free_extents(tmp_path):
    y = mx.sym.Flatten(mx.sym.Convolution(mx.sym.var("data"), kernel=(3, 3), num_filter=2, name="conv"))
    params = {"conv_weight": mx.nd.random.normal(shape=(2, 1, 3, 3)), "conv_bias": mx.nd.zeros(2)}
    path = mx.onnx.export_model(y, params, [(1, 1, 8, 8)], onnx_file_path=str(tmp_path / "free.onnx"), dynamic=True,
                                dynamic_input_shapes=[("N", 1, 8, 8)])
    net = mx.onnx.import_model(path)
    assert net._program.inputs()[0][2] == ("N", 1, 8, 8)
    net.hybridize()
    for batch in (1, 4, 3):
        assert net(mx.nd.zeros((batch, 1, 8, 8))).shape == (batch, 72)


def test_free_pictures(tmp_path):
    """Free height and width: shapes are found at a size that the network can have."""
    x = mx.sym.Convolution(mx.sym.var("data"), kernel=(7, 7), stride=(4, 4), num_filter=2, name="conv")
    y = mx.sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pool_type="max")
    params = {"conv_weight": mx.nd.random.normal(shape=(2, 1, 7, 7)), "conv_bias": mx.nd.zeros(2)}
    path = mx.onnx.export_model(y, params, [(1, 1, 64, 64)], onnx_file_path=str(tmp_path / "free.onnx"), dynamic=True,
                                dynamic_input_shapes=[("N", 1, "H", "W")])
    _checked(path)
    net = mx.onnx.import_model(path)
    assert net._program.outputs()[0][2][1] == 2 and not any(isinstance(net._program.outputs()[0][2][i], int) for i in (0, 2, 3))
    for shape in ((1, 1, 64, 64), (2, 1, 31, 48)):
        assert net(mx.nd.zeros(shape)).shape == y.infer_shape(data=shape)[1][0]


def _dense(tmp_path, name, **options):
    y = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=64, name="fc")
    params = {"fc_weight": mx.nd.random.normal(shape=(64, 16)), "fc_bias": mx.nd.random.normal(shape=(64,))}
    path = mx.onnx.export_model(y, params, [(2, 16)], onnx_file_path=str(tmp_path / name), **options)
    return path, mx.onnx.import_model(path)


def test_external_data(tmp_path):
    """Parameters beside the model, written by us and by onnx; what is wrong with the place is said."""
    onnx, numpy_helper = pytest.importorskip("onnx"), pytest.importorskip("onnx.numpy_helper")
    x = mx.nd.random.normal(shape=(2, 16))
    path, net = _dense(tmp_path, "out.onnx", external_data=True)
    _checked(path)
    expected = net(x).asnumpy()
    model = onnx.load(path)  # reads the data too
    weight = next(i for i in model.graph.initializer if i.name == "fc_weight")
    assert os.path.getsize(tmp_path / "out.onnx.data") >= 64 * 16 * 4 and os.path.getsize(path) < 2000
    np.testing.assert_array_equal(numpy_helper.to_array(weight), net.collect_params()["fc_weight"].data().asnumpy())
    onnx.save(model, str(tmp_path / "theirs.onnx"), save_as_external_data=True, location="theirs.bin", size_threshold=0)
    np.testing.assert_array_equal(mx.onnx.import_model(str(tmp_path / "theirs.onnx"))(x).asnumpy(), expected)

    model = onnx.load(path, load_external_data=False)
    weight = next(i for i in model.graph.initializer if i.name == "fc_weight")
    place = {e.key: e for e in weight.external_data}
    for key, value, message in [("location", "absent.data", "there is no file"), ("location", "../out.onnx.data", "must lie beside the model"),
                                ("location", "/etc/passwd", "must lie beside the model"), ("location", "", "must lie beside the model"),
                                ("offset", "10000000", "beyond the end"), ("length", str(2**63), "beyond the end"), ("length", "4", "needs 1024 elements or more bytes, but has 4"),
                                ("offset", "x", "is not a number")]:
        kept, place[key].value = place[key].value, value
        (tmp_path / "wrong.onnx").write_bytes(model.SerializeToString())
        place[key].value = kept
        with pytest.raises(mx.MXNetError, match=message):
            mx.onnx.import_model(str(tmp_path / "wrong.onnx"))


def test_scalars_are_given_as_one_element(tmp_path):
    """mx.nd has no arrays without axes."""
    onnx = pytest.importorskip("onnx")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "rate"], ["y"])], "g",
                                   [onnx.helper.make_tensor_value_info("x", 1, [3]), onnx.helper.make_tensor_value_info("rate", 1, [])],
                                   [onnx.helper.make_tensor_value_info("y", 1, [3])])
    onnx.save(onnx.helper.make_model(graph), str(tmp_path / "scalar.onnx"))
    net = mx.onnx.import_model(str(tmp_path / "scalar.onnx"))
    for hybrid in (False, True):
        net.hybridize(hybrid)
        assert net(mx.nd.array([1, 2, 3]), mx.nd.array([10])).asnumpy().tolist() == [11, 12, 13]
    with pytest.raises(mx.MXNetError, match="input 'rate' has 1 axes, but the model says 0"):
        net(mx.nd.array([1, 2, 3]), mx.nd.array([10, 20]))


def test_nodes_of_one_name(tmp_path):
    """Graphs of old files have several nodes of a name; in ONNX each has its own."""
    onnx = pytest.importorskip("onnx")
    x = mx.sym.var("data")
    y = mx.sym.Activation(mx.sym.Activation(x, act_type="tanh", name="act"), act_type="relu", name="act")
    _round_trip(y, {}, {"data": np.array([[-1, 2]], "float32")}, tmp_path)
    names = [n.name for n in onnx.load(str(tmp_path / "model.onnx")).graph.node]
    assert len(names) == len(set(names)) == 2


def test_labels_need_no_shape(tmp_path):
    label = mx.sym.Reshape(mx.sym.var("softmax_label"), shape=(-1,))
    y = mx.sym.SoftmaxOutput(mx.sym.Reshape(mx.sym.var("data"), shape=(-1, 2)), label)
    path = mx.onnx.export_model(y, {}, [(3, 4)], onnx_file_path=str(tmp_path / "label.onnx"))
    net = mx.onnx.import_model(path)
    assert net.input_names == ["data"] and net(mx.nd.zeros((3, 4))).shape == (6, 2)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_indices_out_of_range(mode, tmp_path):
    y = mx.sym.take(mx.sym.var("w"), mx.sym.var("data"), mode=mode)
    _round_trip(y, {"w": mx.nd.array(np.arange(6.0).reshape(3, 2))}, {"data": np.array([-1, 0, 2, 3, 7], "float32")}, tmp_path)


def test_indices_along_a_free_axis(tmp_path):
    y = mx.sym.take(mx.sym.var("data"), mx.sym.var("places"), axis=1)
    path = mx.onnx.export_model(y, {}, [(2, 5), (3,)], onnx_file_path=str(tmp_path / "take.onnx"), dynamic=True, dynamic_input_shapes=[(2, "L"), (3,)])
    _checked(path)
    net = mx.onnx.import_model(path)
    for length in (5, 7):
        data = mx.nd.array(np.arange(2 * length).reshape(2, length))
        assert net(data, mx.nd.array([0, 4, 9])).asnumpy().tolist() == data.asnumpy()[:, [0, 4, length - 1]].tolist()


def test_numbers_of_a_graph(tmp_path):
    """arange(5) of a graph's file: start is what stop was left out for."""
    sym = mx.sym.load_json(mx.sym.broadcast_add(mx.sym.var("data"), mx.sym.arange(5)).tojson())
    _round_trip(sym, {}, {"data": np.zeros((1, 5), "float32")}, tmp_path)
    stop = mx.sym.broadcast_add(mx.sym.var("data"), mx.sym._internal._arange(start=5, stop=None))
    _round_trip(stop, {}, {"data": np.zeros((1, 5), "float32")}, tmp_path)


def test_control_flow(tmp_path):
    """foreach, while_loop and cond, within each other, as Scan, Loop and If, and back."""
    def inner(row, state):
        return row * state, mx.sym.contrib.cond(mx.sym.sum(row) > 0, lambda: state + row, lambda: state - 1)
    outputs, state = mx.sym.contrib.foreach(lambda rows, s: mx.sym.contrib.foreach(inner, rows, s), mx.sym.var("data"), mx.sym.var("s"))
    rows, variables = mx.sym.contrib.while_loop(lambda i, x: i < 3, lambda i, x: ([x * i], [i + 1, x * 2]), [mx.sym.var("i"), mx.sym.var("x")],
                                                max_iterations=5)
    draw = np.random.RandomState(1)
    inputs = {"data": draw.normal(size=(3, 4, 2)), "s": draw.normal(size=(2,)), "i": np.zeros(1), "x": np.ones(1)}
    _round_trip(mx.sym.Group([outputs, state, *rows, *variables]), {}, {n: a.astype("float32") for n, a in inputs.items()}, tmp_path)


def test_detection(tmp_path):
    draw = np.random.RandomState(2)
    corner = draw.randint(0, 4, (2, 20, 2)) + draw.uniform(0, 0.2, (2, 20, 2))
    records = np.concatenate([draw.randint(0, 2, (2, 20, 1)), draw.permutation(40).reshape(2, 20, 1) / 40, corner, corner + 0.9], 2).astype("float32")
    for options in ({"id_index": 0}, {"topk": 5, "force_suppress": True, "out_format": "center"}):
        (answer,) = _round_trip(mx.sym.contrib.box_nms(mx.sym.var("data"), overlap_thresh=0.5, **options), {}, {"data": records}, tmp_path)
        assert 2 < (answer[:, :, 1] >= 0).sum() < 38, "nothing is suppressed, or everything"


def test_quantized_layers(tmp_path):
    x, weight = mx.sym.var("data"), mx.sym.var("weight")
    q = mx.sym.contrib.quantize_v2(x, min_calib_range=-1, max_calib_range=1, out_type="int8")
    w = mx.sym.contrib.quantize_v2(weight, min_calib_range=-1, max_calib_range=1, out_type="int8")
    full = mx.sym.contrib.quantized_fully_connected(data=q[0], weight=w[0], min_data=q[1], max_data=q[2], min_weight=w[1], max_weight=w[2],
                                                    num_hidden=3, no_bias=True)
    draw = np.random.RandomState(3)
    _round_trip(mx.sym.contrib.dequantize(full[0], full[1], full[2]), {"weight": mx.nd.array(draw.uniform(-1, 1, (3, 8)))},
                {"data": draw.uniform(-1, 1, (2, 8)).astype("float32")}, tmp_path)


def test_trains(tmp_path):
    y = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc")
    params = {"fc_weight": mx.nd.zeros((1, 3)), "fc_bias": mx.nd.zeros(1)}
    net = mx.onnx.import_model(mx.onnx.export_model(y, params, [(4, 3)], onnx_file_path=str(tmp_path / "t.onnx")))
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    data = mx.nd.random.normal(shape=(16, 3))
    target = mx.nd.dot(data, mx.nd.array([[1.0], [2.0], [-1.0]]))
    losses = []
    for _ in range(30):
        with mx.autograd.record():
            loss = ((net(data) - target) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asscalar())
    assert losses[-1] < losses[0] / 20


def test_damaged_files(tmp_path):
    """Mutations of a model are read, or refused with an error; GLUINO_FUZZ_FILES=100000 for a long run."""
    y = mx.sym.softmax(mx.sym.FullyConnected(mx.sym.Convolution(mx.sym.var("data"), kernel=(3, 3), num_filter=2, name="c"), num_hidden=3, name="f"))
    params = {"c_weight": mx.nd.ones((2, 1, 3, 3)), "c_bias": mx.nd.zeros(2), "f_weight": mx.nd.ones((3, 18)), "f_bias": mx.nd.zeros(3)}
    path = mx.onnx.export_model(y, params, [(1, 1, 5, 5)], onnx_file_path=str(tmp_path / "whole.onnx"))
    whole = open(path, "rb").read()
    draw = random.Random(7)
    read = 0
    for _ in range(int(os.environ.get("GLUINO_FUZZ_FILES", "300"))):
        damaged = bytearray(whole)
        for _ in range(draw.randrange(1, 6)):
            at = draw.randrange(len(damaged))
            how = draw.randrange(4)
            if how == 0:
                damaged[at] ^= 1 << draw.randrange(8)
            elif how == 1:
                damaged[at] = draw.choice([0, 1, 127, 128, 255])
            elif how == 2:
                del damaged[at:at + draw.randrange(1, 9)]
            else:
                damaged[at:at] = damaged[draw.randrange(len(damaged)):][:draw.randrange(1, 20)]
        (tmp_path / "damaged.onnx").write_bytes(damaged)
        try:
            net = mx.onnx.import_model(str(tmp_path / "damaged.onnx"))
            net(*[mx.nd.ones((1, 1, 5, 5)) for _ in net.input_names])
            read += 1
        except (mx.MXNetError, ValueError, IndexError, TypeError, AssertionError, OSError):
            pass
    assert read > 0, "no mutation left the model readable: the test looks at nothing"


def test_names_and_numbers_that_exporters_leave(tmp_path):
    """Layers that share a weight by Identity both have it packed, constant numbers are seen by the compiler; a result that is an input's other name is
    memory of its own."""
    onnx, numpy_helper = pytest.importorskip("onnx"), pytest.importorskip("onnx.numpy_helper")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    weight = np.random.RandomState(0).normal(size=(4, 4)).astype("float32")
    nodes = [helper.make_node("Identity", ["w"], ["v"]), helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Pow", ["a", "two"], ["b"]),
             helper.make_node("Mul", ["half", "b"], ["c"]), helper.make_node("Div", ["c", "one"], ["d"]), helper.make_node("MatMul", ["d", "v"], ["y"]),
             helper.make_node("Identity", ["x"], ["z"])]
    constants = [numpy_helper.from_array(np.array(value, "float32"), name) for name, value in (("two", 2), ("half", 0.5), ("one", 1))]
    infos = [helper.make_tensor_value_info(n, floats, (3, 4)) for n in "xyz"]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [numpy_helper.from_array(weight, "w"), *constants])
    path = str(tmp_path / "names.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    given = np.random.RandomState(1).normal(size=(3, 4)).astype("float32")
    net = mx.onnx.import_model(path)
    for hybrid in (False, True):
        net.hybridize(hybrid)
        x = mx.nd.array(given)
        y, z = net(x)
        np.testing.assert_allclose(y.asnumpy(), ((given @ weight) ** 2 * 0.5) @ weight, rtol=1e-5, atol=1e-5)
        z[:] = 7
        np.testing.assert_array_equal(x.asnumpy(), given)
    compiled = str(net.explain()).split("after the passes")[1]
    assert compiled.count("= _compiled_dense(") == 2 and "= dot(" not in compiled and "power" not in compiled, compiled
