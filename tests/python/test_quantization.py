"""mx.contrib.quantization: networks in 8 bits, calibrated and not, for blocks and for modules."""
import json

import numpy as np
import pytest

import gluino as mx
from gluino import gluon, nd, sym
from gluino.contrib import quantization
from gluino.gluon import nn


@pytest.fixture(scope="module")
def network():
    mx.random.seed(1)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2), nn.Conv2D(16, 3, activation="relu"), nn.Flatten(),
            nn.Dense(32, activation="relu"), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    data = nd.array(np.random.RandomState(0).uniform(0, 1, (256, 1, 8, 8)))
    return net, data, net(data).asnumpy()


def loader(data):
    return gluon.data.DataLoader(gluon.data.ArrayDataset(data, nd.zeros(data.shape[:1])), 32)  # with labels, as in training


def operators(symbol):
    return [node["op"] for node in json.loads(symbol.tojson())["nodes"]]


@pytest.mark.parametrize("calib_mode", ["none", "naive", "entropy"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "auto"])
def test_a_network_in_eight_bits(network, calib_mode, dtype, tmp_path):
    net, data, want = network
    quantized = quantization.quantize_net(net, quantized_dtype=dtype, calib_mode=calib_mode, calib_data=loader(data))
    eager = quantized(data).asnumpy()
    # Each of four layers is off by half a level of 127 or 255 in inputs and weights.
    assert np.abs(eager - want).max() < 0.04 * np.abs(want).max()
    assert np.abs(eager - want).max() > 0
    quantized.hybridize()
    for _ in range(2):
        np.testing.assert_allclose(quantized(data).asnumpy(), eager, rtol=1e-6)
    quantized.export(str(tmp_path / "net"))
    loaded = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_allclose(loaded(data).asnumpy(), eager, rtol=1e-6)
    stored = nd.load(str(tmp_path / "net-0000.params"))
    weights = [value for name, value in stored.items() if name.endswith("weight_quantize")]
    assert len(weights) == 4 and all(value.dtype == np.int8 for value in weights)
    # Bounds that were found once are written down; others are found at every call.
    bounds = [node.get("attrs", {}).get("max_calib_range") for node in json.loads((tmp_path / "net-symbol.json").read_text())["nodes"]
              if node["op"] in ("_contrib_requantize", "_contrib_quantize_v2")]
    assert len(bounds) == 6 and all((bound is not None) == (calib_mode != "none") for bound in bounds)


def test_layers_that_stay_as_they_are(network):
    net, data, want = network
    count = operators(quantization.quantize_net(net, data_shapes=[data.shape])._symbol()).count
    assert count("_contrib_quantized_conv") == 2 and count("_contrib_quantized_fully_connected") == 2 and count("Convolution") == 0
    first = net[0].name + "_fwd"
    kept = operators(quantization.quantize_net(net, data_shapes=[data.shape], exclude_layers=[first], exclude_operators=["FullyConnected"])._symbol())
    assert kept.count("Convolution") == 1 and kept.count("FullyConnected") == 2 and kept.count("_contrib_quantized_conv") == 1
    none = quantization.quantize_net(net, data_shapes=[data.shape], exclude_layers_match=["conv", "dense"])
    assert not any("quantize" in op for op in operators(none._symbol()))
    np.testing.assert_allclose(none(data).asnumpy(), want, rtol=1e-5, atol=1e-6)


def model():
    data = sym.var("data")
    left = sym.Convolution(data, kernel=(3, 3), num_filter=4, pad=(1, 1), no_bias=True, name="left")
    right = sym.Convolution(data, kernel=(1, 1), num_filter=4, name="right")
    joined = sym.Pooling(sym.concat(left, right, dim=1), kernel=(2, 2), stride=(2, 2), pool_type="avg", name="pool")
    out = sym.SoftmaxOutput(sym.FullyConnected(joined, num_hidden=3, name="full"), name="softmax")
    draw = np.random.RandomState(3)
    shapes, _, _ = out.infer_shape(data=(8, 2, 4, 4))
    return out, {name: nd.array(draw.normal(size=shape) * 0.3) for name, shape in zip(out.list_arguments(), shapes) if name not in ("data", "softmax_label")}


@pytest.mark.parametrize("function", [quantization.quantize_model, quantization.quantize_model_mkldnn])
def test_a_module_in_eight_bits(function):
    symbol, arguments = model()
    batch = np.random.RandomState(4).normal(size=(32, 2, 4, 4)).astype("float32")
    data = mx.io.NDArrayIter(batch, np.zeros(32), batch_size=8)

    def predict(symbol, arguments, states):
        module = mx.mod.Module(symbol)
        module.bind(data.provide_data, data.provide_label, for_training=False)
        module.set_params(arguments, states)
        data.reset()
        return module.predict(data).asnumpy()

    want = predict(symbol, arguments, {})
    for mode in ("none", "naive", "entropy"):
        quantized, qargs, states = function(symbol, arguments, {}, calib_mode=mode, calib_data=data, num_calib_examples=16)
        assert "_contrib_quantized_concat" in operators(quantized) and "_contrib_quantized_pooling" in operators(quantized)
        off = np.abs(predict(quantized, qargs, states) - want)
        assert off.mean() < 0.02 and np.median(off) > 0  # of probabilities; numbers beyond what was calibrated are cut
        assert "left_weight" not in qargs and "left_weight_quantize_min" in qargs


def test_a_collector_of_ones_own():
    symbol, arguments = model()
    quantized, qargs, states, collector = quantization.quantize_graph(symbol, arguments, {}, calib_mode="naive")
    assert collector.include_layers == ["data", "full_output", "left_output", "right_output"]
    with pytest.raises(ValueError, match="has seen nothing"):
        quantization.calib_graph(quantized, qargs, states, collector)
    for name in collector.include_layers:
        collector.collect(name, None, nd.array([-2.0, 5.0]))
        collector.collect(name, None, nd.array([-3.0, 4.0]))
    calibrated, _, _ = quantization.calib_graph(quantized, qargs, states, collector, calib_mode="naive")
    bounds = {(float(node["attrs"]["min_calib_range"]), float(node["attrs"]["max_calib_range"])) for node in json.loads(calibrated.tojson())["nodes"]
              if "min_calib_range" in node.get("attrs", {})}
    assert bounds == {(-3, 5)}


def test_histograms_grow():
    first = np.array([-1.0, 0.5, 1.0])
    histogram, edges = np.histogram(first, bins=11, range=(-1, 1))
    grown = quantization.combine_histogram((histogram, edges, -1.0, 1.0, 1.0), np.array([3.0, 0.5]), 0.5, 3.0, 3.0)
    assert grown[0].sum() == 5 and (grown[2], grown[3]) == (-1.0, 3.0) and grown[4] >= 3
    assert len(grown[1]) == len(grown[0]) + 1 and np.allclose(np.diff(grown[1]), 2 / 11)


def test_mistakes_are_named(network):
    net, data, _ = network
    with pytest.raises(ValueError, match="calib_data must be given"):
        quantization.quantize_net(net, data_shapes=[data.shape], calib_mode="naive")
    with pytest.raises(ValueError, match="quantized_dtype is 'int4'"):
        quantization.quantize_net(net, quantized_dtype="int4", data_shapes=[data.shape])
    with pytest.raises(ValueError, match="data_shapes or calib_data"):
        quantization.quantize_net(net)
    with pytest.raises(NotImplementedError, match="channel-wise"):
        quantization.quantize_net_v2(net, quantize_granularity="channel-wise", data_shapes=[data.shape])
