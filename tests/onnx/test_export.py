"""Networks of ours and of MXNet, written as ONNX: ONNX Runtime gives the answers that MXNet recorded, or Gluino's; and so does Gluino, reading them back."""
import os
import zlib

import numpy as np
import onnx
import pytest
from judge import assert_close, judge

import gluino as mx

# The inputs of graphs that come without weights; those that are not here are images of 3 channels.
SYMBOL_INPUTS = {
    "bert-qa-static": {"data0": np.arange(384, dtype="float32")[None] % 97, "data1": np.zeros((1, 384), "float32"), "data2": np.array([100], "float32")},
    "dcgan-celeba-G": {"latent_vector": (1, 100, 1, 1)},
    "inception_v3": {"data": (1, 3, 299, 299)},
    "lstm_ptb": {"data": np.arange(70, dtype="float32").reshape(35, 2)},
    "ssd-gluon-small": {"data": (1, 3, 256, 256)},
    "text-cnn": {"data": np.arange(50 * 56, dtype="float32").reshape(50, 56)},
    "xception": {"data": (1, 3, 299, 299)},
    "yolo3-gluon-1.3": {"data": (1, 3, 64, 64)},
}
LARGE_IMAGES = ("alexnet", "vgg", "densenet", "squeezenet")


def _noise(shape, seed):
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def _drawn(name, shape):
    """Weights that keep the size of what they are applied to."""
    draw = np.random.RandomState(zlib.crc32(name.encode()))
    if name.endswith(("gamma", "var")):
        return draw.uniform(0.5, 1.5, shape)
    if name.endswith(("bias", "beta", "mean")) or len(shape) < 2:
        return draw.uniform(-0.1, 0.1, shape)
    return draw.normal(size=shape) / np.sqrt(np.prod(shape[1:]))


def _bound(sym, values, inputs):
    """The symbol's own answers."""
    arrays = {n: mx.nd.array(a, dtype=a.dtype) for n, a in inputs.items()}
    shapes = {n: a.shape for n, a in {**values, **arrays}.items() if n in sym.list_inputs()}
    if sym.infer_shape(**shapes)[0] is None:  # a label, of the shape of the data
        shapes |= {n: inputs["data"].shape for n in sym.list_arguments() if n.endswith("label")}
    executor = sym.simple_bind(mx.cpu(), grad_req="null", **shapes)
    executor.copy_params_from({n: v for n, v in values.items() if n in sym.list_arguments()},
                              {n: v for n, v in values.items() if n in sym.list_auxiliary_states()})
    return [o.asnumpy() for o in executor.forward(is_train=False, **arrays)]


def _check(runtime, sym, values, inputs, path, recorded=None):
    """`recorded` are MXNet's own answers, None for Gluino's."""
    names = [n for n in sym.list_inputs() if n not in values and not n.endswith("label")]
    mx.onnx.export_model(sym, values, [inputs[n].shape for n in names], [inputs[n].dtype for n in names], str(path))
    if os.path.getsize(path) < 1 << 28:
        onnx.checker.check_model(str(path), full_check=True)
    (answers,) = judge(runtime, path, [inputs])
    assert_close(answers, recorded or _bound(sym, values, inputs), "beside MXNet's" if recorded else "beside Gluino's")


def _bare(params):
    return {n[4:] if n.startswith(("arg:", "aux:")) else n: v for n, v in params.items()}


@pytest.mark.parametrize("name", sorted(mx.gluon.model_zoo.vision._models))
def test_zoo(runtime, tmp_path, name):
    shape = {"mlp": (2, 784), "lenet": (2, 1, 28, 28), "inceptionv3": (1, 3, 299, 299)}.get(
        name, (1, 3, 224, 224) if name.startswith(LARGE_IMAGES) else (1, 3, 64, 64))
    net = mx.gluon.model_zoo.vision.get_model(name, classes=10)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.zeros(shape))
    symbol, params = net.export(str(tmp_path / "net"))
    _check(runtime, mx.sym.load(symbol), _bare(mx.nd.load(params)), {"data": _noise(shape, 0)}, tmp_path / "net.onnx")


def _recorded(runtime, symbol, params, npz, path):
    recorded, sym, values = np.load(npz), mx.sym.load(str(symbol)), _bare(mx.nd.load(str(params)))
    names = [n for n in sym.list_inputs() if n not in values and not n.endswith("label")]
    inputs = {n: recorded[f"in:{n}"] if f"in:{n}" in recorded.files else recorded[f"in{i}"] for i, n in enumerate(names)}
    _check(runtime, sym, values, inputs, path, [recorded[f"out{i}"] for i in range(len(sym.list_outputs()))])


@pytest.mark.parametrize("name", ["lenet", "lstm", "mlp", "mobilenet0_25", "residual", "two_inputs"])
def test_golden_models(runtime, shared, tmp_path, name):
    prefix = shared / "golden" / "models" / name
    _recorded(runtime, f"{prefix}-symbol.json", f"{prefix}-0001.params", f"{prefix}-io.npz", tmp_path / "model.onnx")


REAL_MODELS = ["cifar_resnet20_v1/cifar_resnet20_v1", "fashion-mnist-cnn/fashion-mnist", "kaggle-mlp-0.11/mx_mlp", "linear-gluon-1.3/model",
               "matchbox-lenet/lenet", "mnist-lenet-2015/mnist-lenet-0", "mobilefacenet-y1/model", "mtcnn/det1", "mtcnn/det2", "mtcnn/det3",
               "residual-face-v0/residual", "sr-EES_2x/EES_2x", "tutorial-cnn", "tutorial-lstm-fused"]


@pytest.mark.parametrize("name", REAL_MODELS)
def test_real_models(runtime, shared, tmp_path, name):
    folder = shared / "models"
    npz = folder / f"{name}-io.npz" if "/" in name else next((folder / name).glob("*-io.npz"))
    prefix = str(npz)[:-len("-io.npz")]
    params = sorted(npz.parent.glob(os.path.basename(prefix) + "-0*.params"))[-1]
    _recorded(runtime, f"{prefix}-symbol.json", params, npz, tmp_path / "model.onnx")


# Models without recorded answers, and the shapes of their inputs.
@pytest.mark.parametrize("name, shapes", [("gluon-net-1.5/net-0000", {"data0": (2, 256), "data1": (2, 800), "data2": (2, 16)}),
                                          ("go-test-tiny/go_test-0001", {"data": (1, 3)})])
def test_models_without_record(runtime, shared, tmp_path, name, shapes):
    params = shared / "models" / f"{name}.params"
    sym, values = mx.sym.load(str(params)[:-len("-0000.params")] + "-symbol.json"), _bare(mx.nd.load(str(params)))
    _check(runtime, sym, values, {n: _noise(s, 1) for n, s in shapes.items()}, tmp_path / "model.onnx")


# Left out: inception_bn-legacy and unet-cpp, whose shapes fit at no size of image, in MXNet neither (they want the pooling of 2015); and
# bmxnet-binary-mnist, which has operators of a fork.
SYMBOLS = ["bert-qa-static", "dcgan-celeba-G", "inception_v3", "lstm_ptb", "mobilenet-v2", "resnet18-legacy", "resnet18-v1-gluon1.9",
           "resnet50-1.1", "se-resnet50", "squeezenet_v1.1-legacy", "ssd-gluon-small", "text-cnn", "vgg16_reduced", "xception", "yolo3-gluon-1.3"]


@pytest.mark.parametrize("name", SYMBOLS)
def test_graphs_with_drawn_weights(runtime, shared, tmp_path, name):
    sym = mx.sym.load(str(shared / "models" / "symbols" / f"{name}-symbol.json"))
    inputs = SYMBOL_INPUTS.get(name, {"data": (1, 3, 224, 224)})
    inputs = {n: _noise(s, 2) if isinstance(s, tuple) else s for n, s in inputs.items()}
    labels = {n: inputs["data"].shape for n in sym.list_arguments() if n.endswith("label") and name == "lstm_ptb"}
    arguments, _, states = sym.infer_shape(**labels, **{n: a.shape for n, a in inputs.items()})
    shapes = dict(zip(sym.list_arguments(), arguments)) | dict(zip(sym.list_auxiliary_states(), states))
    values = {n: mx.nd.array(_drawn(n, s)) for n, s in shapes.items() if n not in inputs and not n.endswith("label")}
    _check(runtime, sym, values, inputs, tmp_path / "model.onnx")


def _records(batch, boxes, classes, seed):
    """(class, score, x0, y0, x1, y1): clusters of boxes that overlap, scores all different."""
    draw = np.random.RandomState(seed)
    middle = draw.randint(0, 6, (batch, boxes, 2)) * 10 + draw.uniform(0, 2, (batch, boxes, 2))
    size = draw.uniform(6, 9, (batch, boxes, 2))
    scores = draw.permutation(batch * boxes).reshape(batch, boxes, 1) / (batch * boxes)
    return np.concatenate([draw.randint(0, classes, (batch, boxes, 1)), scores, middle - size / 2, middle + size / 2], 2).astype("float32")


@pytest.mark.parametrize("options", [{}, {"topk": 7}, {"force_suppress": True}, {"valid_thresh": 0.4, "background_id": 0}, {"id_index": -1},
                                     {"out_format": "center"}, {"in_format": "center", "out_format": "corner", "overlap_thresh": 0.2}])
@pytest.mark.parametrize("shape", [(40, 6), (3, 40, 6), (2, 2, 20, 6)])
def test_box_nms(runtime, tmp_path, options, shape):
    options = {"overlap_thresh": 0.3, "coord_start": 2, "score_index": 1, "id_index": 0, **options}
    sym = mx.sym.contrib.box_nms(mx.sym.var("data"), **options)
    _check(runtime, sym, {}, {"data": _records(int(np.prod(shape[:-2])), shape[-2], 3, 1).reshape(shape)}, tmp_path / "nms.onnx")


@pytest.mark.parametrize("options", [{}, {"nms_topk": 5}, {"force_suppress": True}, {"threshold": 0.4, "clip": False}, {"background_id": 2}])
def test_multibox_detection(runtime, tmp_path, options):
    names = ("scores", "offsets", "anchors")
    sym = mx.sym.contrib.MultiBoxDetection(*map(mx.sym.var, names), **{"nms_threshold": 0.3, **options})
    draw = np.random.RandomState(2)
    scores = draw.dirichlet([1, 1, 1], (2, 30)).transpose(0, 2, 1)
    anchors = _records(1, 30, 1, 3)[:, :, 2:] / 60
    inputs = {"scores": scores, "offsets": draw.normal(size=(2, 120)) * 0.3, "anchors": anchors}
    _check(runtime, sym, {}, {n: a.astype("float32") for n, a in inputs.items()}, tmp_path / "detection.onnx")


def _quantized(data, low, high, out_type="int8"):
    return mx.sym.contrib.quantize_v2(data, min_calib_range=low, max_calib_range=high, out_type=out_type)


@pytest.mark.parametrize("out_type", ["int8", "uint8"])
def test_quantized_network(runtime, tmp_path, out_type):
    """Quantized operators are written as what they are made of: their sums as ConvInteger and MatMulInteger, exact as here."""
    x, weight, bias, dense = (mx.sym.var(n) for n in ("data", "weight", "bias", "dense"))
    q = _quantized(x, 0.0 if out_type == "uint8" else -1.0, 1.0, out_type)
    w, b = _quantized(weight, -0.5, 0.5), _quantized(bias, -0.3, 0.3)
    conv = mx.sym.contrib.quantized_conv(q[0], w[0], b[0], q[1], q[2], w[1], w[2], b[1], b[2], kernel=(3, 3), num_filter=4)
    back = mx.sym.contrib.requantize(conv[0], conv[1], conv[2], min_calib_range=-2.0, max_calib_range=2.0)
    act = mx.sym.contrib.quantized_act(back[0], back[1], back[2], act_type="relu")
    pool = mx.sym.contrib.quantized_pooling(act[0], act[1], act[2], kernel=(2, 2), stride=(2, 2), pool_type="max")
    flat = mx.sym.contrib.quantized_flatten(pool[0], pool[1], pool[2])
    d = _quantized(dense, -0.4, 0.4)
    full = mx.sym.contrib.quantized_fully_connected(
        data=flat[0], weight=d[0], min_data=flat[1], max_data=flat[2], min_weight=d[1], max_weight=d[2], num_hidden=3, no_bias=True)
    sym = mx.sym.contrib.dequantize(full[0], full[1], full[2])
    shapes = {"weight": (4, 2, 3, 3), "bias": (4,), "dense": (3, 36)}
    values = {n: mx.nd.array(_noise(s, i) * 0.5) for i, (n, s) in enumerate(shapes.items())}
    _check(runtime, sym, values, {"data": np.abs(_noise((2, 2, 8, 8), 9))}, tmp_path / "quantized.onnx")


@pytest.mark.parametrize("name", ["rint", "round", "fix"])
def test_rounding(runtime, tmp_path, name):
    numbers = np.array([[-2.5, -1.5, -1.4, -0.5, -0.2, 0.0, 0.2, 0.5, 0.49999997, 1.5, 1.9, 2.5, 8388609.0]], "float32")
    _check(runtime, getattr(mx.sym, name)(mx.sym.var("data")), {}, {"data": numbers}, tmp_path / "round.onnx")


def test_foreach(runtime, tmp_path):
    """Scan: rows, states, values from outside, of which some are not read."""
    weight, bias = mx.sym.var("weight"), mx.sym.var("bias")

    def step(rows, states):
        total = mx.sym.tanh(mx.sym.FullyConnected(rows[0], weight, bias, num_hidden=4) + states[0])
        return [total * 2, rows[1]], [total, states[1] + 1]
    outputs, states = mx.sym.contrib.foreach(step, [mx.sym.var("a"), mx.sym.var("b")], [mx.sym.var("s"), mx.sym.var("count")])
    values = {"weight": mx.nd.array(_noise((4, 3), 1)), "bias": mx.nd.array(_noise((4,), 2))}
    inputs = {"a": _noise((5, 2, 3), 3), "b": _noise((5, 2), 4), "s": _noise((2, 4), 5), "count": np.zeros((1,), "float32")}
    _check(runtime, mx.sym.Group([*outputs, *states]), values, inputs, tmp_path / "scan.onnx")


@pytest.mark.parametrize("steps", [1, 3, 7, 20])
def test_while_loop(runtime, tmp_path, steps):
    """Loop: rows behind the last step are 0."""
    scale = mx.sym.var("scale")

    def step(i, x):
        return [x * i, i + 1], [i + 1, mx.sym.broadcast_mul(x, scale)]
    outputs, variables = mx.sym.contrib.while_loop(lambda i, x: i < steps, step, [mx.sym.var("i"), mx.sym.var("x")], max_iterations=8)
    inputs = {"i": np.zeros((1,), "float32"), "x": _noise((1,), 1)}
    _check(runtime, mx.sym.Group([*outputs, *variables]), {"scale": mx.nd.array([1.5])}, inputs, tmp_path / "loop.onnx")


@pytest.mark.parametrize("sign", [1, -1])
def test_cond(runtime, tmp_path, sign):
    x, weight = mx.sym.var("data"), mx.sym.var("weight")
    out = mx.sym.contrib.cond(mx.sym.sum(x) > 0, lambda: mx.sym.FullyConnected(x, weight, no_bias=True, num_hidden=2), lambda: mx.sym.slice_axis(x, axis=1, begin=0, end=2))
    _check(runtime, out, {"weight": mx.nd.array(_noise((2, 3), 1))}, {"data": sign * np.abs(_noise((4, 3), 2))}, tmp_path / "if.onnx")


def test_loop_within_loop(runtime, tmp_path):
    def inner(row, state):
        return row * state, mx.sym.contrib.cond(mx.sym.sum(row) > 0, lambda: state + row, lambda: state - 1)

    def outer(rows, state):
        inside, last = mx.sym.contrib.foreach(inner, rows, state)
        return inside, last
    outputs, state = mx.sym.contrib.foreach(outer, mx.sym.var("data"), mx.sym.var("s"))
    _check(runtime, mx.sym.Group([outputs, state]), {}, {"data": _noise((3, 4, 2), 1), "s": _noise((2,), 2)}, tmp_path / "nested.onnx")


def test_recurrent_networks(runtime, tmp_path):
    """Every form of the fused layer, unrolled cells, and the layers of Gluon."""
    for mode in ("rnn_relu", "rnn_tanh", "lstm", "gru"):
        for both in (False, True):
            net = {"lstm": mx.gluon.rnn.LSTM, "gru": mx.gluon.rnn.GRU}.get(mode, mx.gluon.rnn.RNN)
            options = {"activation": mode[4:]} if mode.startswith("rnn") else {}
            layer = net(5, num_layers=2, bidirectional=both, input_size=3, **options)
            layer.initialize(mx.init.Xavier())
            layer.hybridize()
            layer(mx.nd.zeros((4, 2, 3)))
            symbol, params = layer.export(str(tmp_path / "rnn"))
            _check(runtime, mx.sym.load(symbol), _bare(mx.nd.load(params)), {"data": _noise((4, 2, 3), 1)}, tmp_path / "rnn.onnx")
