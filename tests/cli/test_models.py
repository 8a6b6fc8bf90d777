"""Models of ten years: they are described without being run, give the answers that MXNet gave, and the cascade finds the faces."""
import numpy as np

import gluino as mx


def test_every_model_is_described(gluino, shared):
    for symbol in sorted(shared.rglob("*-symbol.json")):
        report = gluino("inspect", symbol, "--json").json
        assert report["written_by"].startswith("MXNet") or report["written_by"] == "not said"
        assert report["unsupported"] or "problem" in report or report["inputs"], symbol


def test_what_other_forks_need_is_named(gluino, shared):
    report = gluino("inspect", shared / "bmxnet-binary-mnist", "--json").json
    assert "QConvolution" in [missing["operator"] for missing in report["unsupported"]]


def test_recorded_answers_come_out(gluino, shared):
    checked = 0
    for recorded in sorted(shared.rglob("*-io.npz")):
        gluino("verify", str(recorded).replace("-io.npz", ""), "--against", recorded, "--rtol", "1e-3", "--atol", "1e-4")
        checked += 1
    assert checked >= 10


def test_the_cascade_finds_the_faces(gluino, shared, tmp_path):
    folder = shared / "mtcnn"
    report = gluino("faces", *(folder / f"det{k}" for k in (1, 2, 3)), folder / "test2.jpg", "-o", tmp_path / "faces.png", "--json").json
    middles = sorted(((f["box"][0] + f["box"][2]) / 2, (f["box"][1] + f["box"][3]) / 2) for f in report["faces"])
    for (x, y), (wanted_x, wanted_y) in zip(middles, [(80, 65), (253, 83), (403, 85), (523, 68)], strict=True):  # as one sees them
        assert abs(x - wanted_x) < 15 and abs(y - wanted_y) < 15
    for face in report["faces"]:
        assert face["score"] > 0.99
        left, top, right, bottom = face["box"]
        assert all(left <= x <= right and top <= y <= bottom for x, y in face["points"])
    assert (tmp_path / "faces.png").stat().st_size > 10000


def int8_network():
    """A convolution network as quantizers of MXNet write it, and the same one in float32: (int8, float32, parameters)."""
    data, weight, bias, dense = (mx.sym.var(name) for name in ("data", "weight", "bias", "dense"))

    def quantized(x, bound):
        return mx.sym.contrib.quantize_v2(x, min_calib_range=-bound, max_calib_range=bound, out_type="int8")
    q, w, b, d = quantized(data, 1.0), quantized(weight, 0.5), quantized(bias, 0.5), quantized(dense, 0.5)
    conv = mx.sym.contrib.quantized_conv(q[0], w[0], b[0], q[1], q[2], w[1], w[2], b[1], b[2], kernel=(3, 3), num_filter=4)
    conv = mx.sym.contrib.requantize(conv[0], conv[1], conv[2], min_calib_range=-4.0, max_calib_range=4.0)
    pool = mx.sym.contrib.quantized_pooling(*mx.sym.contrib.quantized_act(conv[0], conv[1], conv[2], act_type="relu"), kernel=(2, 2), stride=(2, 2), pool_type="max")
    flat = mx.sym.contrib.quantized_flatten(pool[0], pool[1], pool[2])
    full = mx.sym.contrib.quantized_fully_connected(data=flat[0], weight=d[0], min_data=flat[1], max_data=flat[2], min_weight=d[1], max_weight=d[2],
                                                    num_hidden=3, no_bias=True)
    wide = mx.sym.Pooling(mx.sym.relu(mx.sym.Convolution(data, weight, bias, kernel=(3, 3), num_filter=4)), kernel=(2, 2), stride=(2, 2), pool_type="max")
    draw = np.random.RandomState(5)
    shapes = {"weight": (4, 2, 3, 3), "bias": (4,), "dense": (3, 36)}
    parameters = {f"arg:{name}": mx.nd.array(draw.uniform(-0.5, 0.5, shape)) for name, shape in shapes.items()}
    return mx.sym.contrib.dequantize(full[0], full[1], full[2]), mx.sym.FullyConnected(mx.sym.Flatten(wide), dense, no_bias=True, num_hidden=3), parameters


def test_int8_graphs_load_and_answer(gluino, tmp_path):
    answers = []
    np.save(tmp_path / "x.npy", np.random.RandomState(6).uniform(-1, 1, (8, 2, 8, 8)).astype("float32"))
    *symbols, parameters = int8_network()
    for name, symbol in zip(("int8", "float32"), symbols):
        symbol.save(str(tmp_path / f"{name}-symbol.json"))
        mx.nd.save(str(tmp_path / f"{name}-0000.params"), parameters)
        gluino("verify", tmp_path / name, "--input", tmp_path / "x.npy")
        gluino("run", tmp_path / name, "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
        answers.append(np.load(tmp_path / "y.npy"))
    assert np.abs(answers[0] - answers[1]).max() < 0.03 * np.abs(answers[1]).max()  # 8 bits, twice
    assert not np.array_equal(*answers)
