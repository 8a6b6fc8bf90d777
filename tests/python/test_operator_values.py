"""Operators that files name, against NumPy: those of mx.np that are functions of others, 8 bits, detection, transforms."""
import json
import math

import numpy as onp
import pytest

mx = pytest.importorskip("mxnet", reason="python/compat is not on the path")
nd, op = mx.nd, mx.nd._internal
RANDOM = onp.random.RandomState(7)


def arr(x, dtype="float32"):
    return nd.array(onp.asarray(x), dtype=dtype)


def draw(*shape):
    return RANDOM.uniform(-2, 2, shape).astype("float32")


def same(found, wanted, rtol=1e-5, atol=1e-6):
    found = found if isinstance(found, (list, tuple)) else [found]
    is_many = isinstance(wanted, tuple) or (isinstance(wanted, list) and any(isinstance(w, onp.ndarray) for w in wanted))
    wanted = wanted if is_many else [wanted]
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted):
        w = onp.asarray(w)
        assert f.shape == w.shape
        onp.testing.assert_allclose(f.asnumpy().astype("float64"), w.astype("float64"), rtol=rtol, atol=atol)


A, B, V = draw(3, 4, 2), draw(3, 4, 2), draw(5)
MASK = onp.array([[1, 0, 1, 0]] * 3)
NUMPY = {
    "_npi_std": [((A,), {"axis": (0, 2), "ddof": 1, "keepdims": True}, A.std((0, 2), ddof=1, keepdims=True)), ((A,), {}, A.std())],
    "_npi_var": [((A,), {"axis": 1}, A.var(1))],
    "_npi_average": [((A, onp.abs(B)), {"axis": 1}, onp.average(A, 1, onp.abs(B))), ((A,), {"axis": 0, "weighted": False}, A.mean(0))],
    "_npi_percentile": [((A,), {"q_scalar": 30.0, "axis": 1}, onp.percentile(A, 30, 1)),
                        ((A, onp.float32([10, 75])), {"axis": 0, "interpolation": "lower"}, onp.percentile(A, [10, 75], 0, method="lower")),
                        ((V,), {"q_scalar": 37.5, "interpolation": "nearest"}, onp.percentile(V, 37.5, method="nearest"))],
    "_npi_norm": [((A,), {"flag": -2}, onp.sqrt((A * A).sum())), ((A,), {"ord": 3.0, "axis": 1}, onp.linalg.norm(A, 3, 1)),
                  ((A[0],), {"axis": (0, 1), "flag": 2}, onp.linalg.norm(A[0], "nuc")),
                  ((A[0],), {"axis": (0, 1), "ord": -2.0, "flag": 0}, onp.linalg.norm(A[0], -2))],
    "_npi_diff": [((A,), {"n": 2, "axis": 1}, onp.diff(A, 2, 1))],
    "_npi_ediff1d": [((A,), {"to_end_scalar": 3.0}, onp.ediff1d(A, to_end=3))],
    "_npi_around": [((A * 3,), {"decimals": 1}, onp.around(A * 3, 1)), ((onp.float32([0.5, 1.5, -0.5, 2.5]),), {}, [0, 2, 0, 2])],
    "_npi_nan_to_num": [((onp.float32([onp.nan, onp.inf, -onp.inf, 1]),), {"nan": 5, "posinf": 7.0, "neginf": -7.0}, [5, 7, -7, 1])],
    "_npi_polyval": [((V, A), {}, onp.polyval(V, A))],
    "_np_all": [((MASK,), {"axis": 0}, MASK.all(0)), ((MASK,), {}, MASK.all())],
    "_np_any": [((MASK,), {"axis": 1, "keepdims": True}, MASK.any(1, keepdims=True))],
    "_np_roll": [((A,), {"shift": (3,)}, onp.roll(A, 3)), ((A,), {"shift": (1, -1), "axis": (0, 1)}, onp.roll(A, (1, -1), (0, 1)))],
    "_npi_rot90": [((A,), {"k": k, "axes": (0, 1)}, onp.rot90(A, k)) for k in range(-1, 4)],
    "_np_moveaxis": [((A,), {"source": (0, 1), "destination": (2, 0)}, onp.moveaxis(A, (0, 1), (2, 0)))],
    "_np_diagonal": [((A,), {"offset": 1, "axis1": 0, "axis2": 2}, onp.diagonal(A, 1, 0, 2))],
    "_np_trace": [((A,), {"offset": -1}, onp.trace(A, -1))],
    "_np_diagflat": [((V,), {"k": 1}, onp.diagflat(V, 1))],
    "_npi_tril": [((A,), {"k": -1}, onp.tril(A, -1)), ((V,), {}, onp.tril(V))],
    "_npi_vstack": [((V, V), {}, onp.vstack([V, V]))],
    "_npi_hstack": [((V, V), {}, onp.hstack([V, V])), ((A, B), {}, onp.hstack([A, B]))],
    "_npi_dstack": [((A[0], B[0]), {}, onp.dstack([A[0], B[0]]))],
    "_npi_column_stack": [((V, V), {}, onp.column_stack([V, V]))],
    "_npi_concatenate": [((A, B), {"axis": 1}, onp.concatenate([A, B], 1)), ((A, V), {"axis": None}, onp.concatenate([A, V], None))],
    "_npi_hsplit": [((A,), {"sections": 2}, onp.hsplit(A, 2))],
    "_npi_dsplit": [((A,), {"sections": 2}, onp.dsplit(A, 2))],
    "_npi_reshape": [((A,), {"newshape": (4, -1)}, A.reshape(4, -1))],
    "_npx_reshape": [((A,), {"newshape": (-2, -5)}, A.reshape(3, 8)), ((A,), {"newshape": (-2, -6, 2, -1, -4)}, A.reshape(3, 2, 2, 2))],
    "_np_dot": [((A, B[0].T), {}, onp.dot(A, B[0].T)), ((V, V), {}, onp.dot(V, V)), ((draw(2, 3), draw(2, 3, 4)), {}, None)],
    "_npi_matmul": [((A, B.transpose(0, 2, 1)), {}, A @ B.transpose(0, 2, 1)), ((A, V[:2]), {}, A @ V[:2])],
    "_npi_tensordot": [((A, B), {"a_axes_summed": (0, 2), "b_axes_summed": (0, 2)}, onp.tensordot(A, B, ((0, 2), (0, 2))))],
    "_npi_tensordot_int_axes": [((A, B.transpose(1, 2, 0)), {"axes": 2}, onp.tensordot(A, B.transpose(1, 2, 0), 2))],
    "_npi_pinv_scalar_rcond": [((A,), {"rcond": 1e-6}, onp.linalg.pinv(A))],
    "_npi_pinv": [((A, onp.float32(1e-6)), {}, onp.linalg.pinv(A))],
    "_npi_tensorinv": [((A.reshape(4, 6)[:, :4].reshape(2, 2, 4),), {}, onp.linalg.tensorinv(A.reshape(4, 6)[:, :4].reshape(2, 2, 4)))],
    "_npi_tensorsolve": [((A.reshape(4, 6)[:, :4].reshape(2, 2, 4), A[0, :2]), {},
                          onp.linalg.tensorsolve(A.reshape(4, 6)[:, :4].reshape(2, 2, 4), A[0, :2]))],
    "_npi_blackman": [((), {"M": 7}, onp.blackman(7))], "_npi_hamming": [((), {"M": 6}, onp.hamming(6))],
    "_npi_hanning": [((), {"M": 1}, onp.hanning(1)), ((), {"M": 8}, onp.hanning(8))],
    "_npi_identity": [((), {"shape": (3, 3)}, onp.eye(3))], "_npi_indices": [((), {"dimensions": (2, 3)}, onp.indices((2, 3)))],
    "_npi_logspace": [((), {"start": 0, "stop": 2, "num": 5, "base": 2.0, "endpoint": False}, onp.logspace(0, 2, 5, False, 2))],
    "_npi_full_like": [((A,), {"fill_value": 3}, onp.full_like(A, 3))],
    "_npi_diag_indices_from": [((draw(3, 3),), {}, onp.stack(onp.diag_indices(3)))],
    "_npi_where_scalar2": [((MASK,), {"x": 2.0, "y": -1.0}, onp.where(MASK, 2.0, -1.0))],
    "_npi_delete": [((A,), {"int_ind": 1, "axis": 1}, onp.delete(A, 1, 1)),
                    ((A,), {"start": 0, "stop": 9, "step": 2}, onp.delete(A, slice(0, 9, 2))),
                    ((A, onp.array([0, -1])), {"axis": 1}, onp.delete(A, [0, -1], 1))],
    "_npi_insert_scalar": [((A,), {"val": 5.0, "int_ind": 2, "axis": 1}, onp.insert(A, 2, 5.0, 1)),
                           ((A, B), {"int_ind": 1, "axis": 0}, onp.concatenate([A[:1], B, A[1:]]))],
    "_npi_insert_slice": [((A,), {"val": 5.0, "start": 0, "stop": 4, "step": 2, "axis": 1}, onp.insert(A, slice(0, 4, 2), 5.0, 1))],
    "_npi_insert_tensor": [((V, onp.float32([7, 8, 9]), onp.array([3, 0, -1])), {}, onp.insert(V, [3, 0, -1], [7, 8, 9]))],
    "_npx_nonzero": [((MASK,), {}, onp.stack(onp.nonzero(MASK), 1))],
    "_npi_unique": [((onp.float32([3, 1, 3, 2, 1]),), {"return_index": True, "return_inverse": True, "return_counts": True},
                     list(onp.unique(onp.float32([3, 1, 3, 2, 1]), True, True, True))),
                    ((onp.float32([[1, 0], [1, 0], [0, 5]]),), {"axis": 0}, [[0, 5], [1, 0]])],
    "_npi_bincount": [((onp.array([0, 3, 3, 1]),), {"minlength": 6}, [1, 1, 0, 2, 0, 0]),
                      ((onp.array([0, 3, 3, 1]), onp.float32([1, 2, 3, 4])), {"has_weights": True}, [1, 4, 0, 5])],
    "_contrib_allclose": [((A, A), {}, [1]), ((A, A + 0.1), {}, [0])],
    "_contrib_getnnz": [((MASK,), {}, [6]), ((MASK,), {"axis": 0}, [3, 0, 3, 0])],
    "_contrib_edge_id": [((onp.float32([[0, 5], [6, 0]]), onp.array([0, 1, 1]), onp.array([1, 0, 1])), {}, [5, 6, -1])],
    "_sparse_retain": [((A, onp.array([2, 0])), {}, A * onp.array([1, 0, 1]).reshape(3, 1, 1))],
    "_contrib_count_sketch": [((onp.float32([[1, 2, 3]]), onp.float32([[1, 0, 1]]), onp.float32([[1, -1, 1]])), {"out_dim": 2}, [[-2, 4]])],
}


@pytest.mark.parametrize("name", sorted(NUMPY))
def test_is_numpys_function(name):
    for inputs, attrs, wanted in NUMPY[name]:
        given = [mx.np.array(x, dtype=onp.asarray(x).dtype) for x in inputs]
        found = mx._core.make_operator(name, name, True, False)(*given, **attrs)
        same(found, onp.dot(*inputs) if wanted is None else wanted, 1e-4, 1e-5)


def test_a_composed_operator_in_a_file_is_its_parts_when_it_runs():
    x = mx.sym.Variable("x")
    symbol = mx.sym._internal._npi_std(mx.sym._internal._npi_matmul(x, x), axis=(1,))
    again = mx.sym.load_json(symbol.tojson())
    assert "_npi_std" in again.tojson()
    value = draw(3, 3)
    same(again.eval(x=arr(value))[0], (value @ value).std(1), 1e-4)
    assert again.infer_shape(x=(4, 4))[1] == [(4,)]
    net = mx.gluon.SymbolBlock(again, [x])
    data = arr(value)
    data.attach_grad()
    plain = []
    for hybrid in (False, True):
        if hybrid:
            net.hybridize()
        with mx.autograd.record():
            out = net(data).sum()
        out.backward()
        plain.append(data.grad.asnumpy())
    onp.testing.assert_allclose(*plain, rtol=1e-5)


# ---- numbers of 8 bits

def levels(x, low, high, signed=True):
    if not signed:
        return onp.clip(onp.floor((x - low) * 255 / (high - low) + 0.5), 0, 255)
    scaled = x * 127 / max(abs(low), abs(high))
    return onp.clip(onp.sign(scaled) * onp.floor(abs(scaled) + 0.5), -127, 127)


def test_quantize_and_back():
    x = draw(3, 5)
    q, low, high = nd.contrib.quantize(arr(x), arr([-2]), arr([1.5]), out_type="int8")
    same([q, low, high], [levels(x, -2, 1.5), [-2], [2]])
    assert q.dtype == onp.int8
    same(nd.contrib.dequantize(q, low, high), levels(x, -2, 1.5) * 2 / 127)
    q, low, high = nd.contrib.quantize(arr(x), arr([-2]), arr([1.5]))
    same([q, low, high], [levels(x, -2, 1.5, False), [-2], [1.5]])
    same(nd.contrib.dequantize(q, low, high), levels(x, -2, 1.5, False) * 3.5 / 255 - 2)
    q, low, high = nd.contrib.quantize_v2(arr(x))
    most = abs(x).max()
    same([q, low, high], [levels(x, -most, most), [-most], [most]])
    assert nd.contrib.quantize_v2(arr(abs(x)), min_calib_range=0.0, max_calib_range=2.0, out_type="auto")[0].dtype == onp.uint8


def quantized(x):
    return nd.contrib.quantize_v2(arr(x))


def test_layers_of_8_bits_are_near_the_real_ones():
    data, weight, bias = draw(2, 3, 6, 6), draw(4, 3, 3, 3), draw(4)
    (x, *xr), (w, *wr), (b, *br) = quantized(data), quantized(weight), quantized(bias)
    out, low, high = nd.contrib.quantized_conv(x, w, b, *xr, *wr, *br, kernel=(3, 3), num_filter=4)
    assert out.dtype == onp.int32
    real = nd.Convolution(nd.contrib.dequantize(x, *xr), nd.contrib.dequantize(w, *wr), nd.contrib.dequantize(b, *br), kernel=(3, 3), num_filter=4)
    same(nd.contrib.dequantize(out, low, high), real.asnumpy(), 1e-4, 1e-3)
    again, least, most = nd.contrib.requantize(out, low, high)
    assert again.dtype == onp.int8
    same(nd.contrib.dequantize(again, least, most), real.asnumpy(), 0, float(most.asscalar()) / 127)
    flat, *fr = nd.contrib.quantized_flatten(x, *xr)
    dense = draw(5, 108)
    (dw, *dr), (db, *dbr) = quantized(dense), quantized(draw(5))
    out, low, high = nd.contrib.quantized_fully_connected(flat, dw, db, *fr, *dr, *dbr, num_hidden=5)
    real = nd.FullyConnected(nd.contrib.dequantize(flat, *fr), nd.contrib.dequantize(dw, *dr), nd.contrib.dequantize(db, *dbr), num_hidden=5)
    same(nd.contrib.dequantize(out, low, high), real.asnumpy(), 1e-4, 1e-3)
    pooled, *pr = nd.contrib.quantized_pooling(x, *xr, kernel=(2, 2), stride=(2, 2), pool_type="max")
    same(pooled, nd.Pooling(x.astype("float32"), kernel=(2, 2), stride=(2, 2), pool_type="max").asnumpy())
    added, *ar = nd.contrib.quantized_elemwise_add(x, x, *xr, *xr)
    same(nd.contrib.dequantize(added, *ar), 2 * nd.contrib.dequantize(x, *xr).asnumpy(), 1e-5, 1e-5)
    product, *ar = nd.contrib.quantized_elemwise_mul(x, x, *xr, *xr)
    same(nd.contrib.dequantize(product, *ar), nd.contrib.dequantize(x, *xr).asnumpy() ** 2, 1e-4, 1e-4)
    both, *ar = nd.contrib.quantized_concat(x, x, *xr, *xr, dim=1)
    same(nd.contrib.dequantize(both, *ar), onp.concatenate([nd.contrib.dequantize(x, *xr).asnumpy()] * 2, 1), 1e-5, 1e-5)


@pytest.mark.parametrize("says_relu", ["with_act", "with_relu", "with_postsum_relu"])
def test_a_joined_convolution_of_a_quantized_file(says_relu):
    """The form of MXNet's files: the layer is a body, bounds follow the inputs."""
    x, w, b = (mx.sym.Variable(n) for n in ("x", "w", "b"))
    body = mx.sym.Activation(mx.sym.Convolution(x, w, b, kernel=(3, 3), num_filter=4), act_type="relu")
    q = mx.sym.contrib.quantize_v2(mx.sym.Variable("data"), min_calib_range=-2.0, max_calib_range=2.0, name="q")
    graph = json.loads(mx.sym.Group([q, mx.sym.Variable("w"), mx.sym.Variable("b")]).tojson())
    names = [n["name"] for n in graph["nodes"]]
    at = {n: names.index(n) for n in ("q", "w", "b")}
    fused = {"op": "_sg_mkldnn_conv", "name": "fused", "inputs": [[at["q"], 0, 0], [at["w"], 0, 0], [at["b"], 0, 0], [at["q"], 1, 0], [at["q"], 2, 0]],
             "attrs": {"quantized": "true", says_relu: "true", "min_calib_range": "0.0", "max_calib_range": "20.0"},
             "subgraphs": [json.loads(body.tojson())]}
    last = len(graph["nodes"])
    graph["nodes"] += [fused, {"op": "_contrib_dequantize", "name": "real", "inputs": [[last, 0, 0], [last, 1, 0], [last, 2, 0]]}]
    graph["heads"] = [[last + 1, 0, 0]]
    graph.pop("node_row_ptr", None)
    symbol = mx.sym.load_json(json.dumps(graph))
    data, weight, bias = draw(2, 3, 6, 6), draw(4, 3, 3, 3), draw(4)
    found = symbol.eval(data=arr(data), w=arr(weight), b=arr(bias))[0]
    exact = nd.relu(nd.Convolution(nd.contrib.dequantize(*nd.contrib.quantize_v2(arr(data), min_calib_range=-2.0, max_calib_range=2.0)), arr(weight), arr(bias), kernel=(3, 3), num_filter=4))
    same(found, exact.asnumpy().clip(0, 20), 0, 20 / 255)
    assert symbol.infer_shape(data=(2, 3, 6, 6))[0][1] == (4, 3, 3, 3)


def test_a_quantized_file_gives_the_same_levels_hybridized():
    """A bit of a sum must not decide about a level: deep networks would end elsewhere."""
    x, layers = mx.sym.Variable("x"), 4
    body = mx.sym.Convolution(x, mx.sym.Variable("w"), kernel=(3, 3), pad=(1, 1), num_filter=32, no_bias=True)
    body = mx.sym.BatchNorm(body, name="bn", fix_gamma=False)
    body = json.loads(mx.sym.Activation(body, act_type="relu").tojson())
    graph = json.loads(mx.sym.contrib.quantize_v2(mx.sym.Variable("data"), min_calib_range=-2.0, max_calib_range=2.0, name="q").tojson())
    nodes, names = graph["nodes"], ("w", "gamma", "beta", "mean", "var")
    before = len(nodes) - 1
    for layer in range(layers):
        first = len(nodes)
        nodes += [{"op": "null", "name": f"{name}{layer}", "inputs": []} for name in names]
        nodes.append({"op": "_sg_mkldnn_conv", "name": f"fused{layer}", "subgraphs": [body],
                      "inputs": [[before, 0, 0], *[[first + i, 0, 0] for i in range(5)], [before, 1, 0], [before, 2, 0]],
                      "attrs": {"quantized": "true", "with_bn": "true", "with_act": "true", "min_calib_range": "0.0", "max_calib_range": "4.0"}})
        before = len(nodes) - 1
    graph["arg_nodes"] = [i for i, node in enumerate(nodes) if node["op"] == "null"]
    graph["heads"] = [[before, 0, 0]]
    graph.pop("node_row_ptr", None)
    net = mx.gluon.SymbolBlock(mx.sym.load_json(json.dumps(graph)), [mx.sym.Variable("data")])
    for name, parameter in net.collect_params().items():
        shape = {"w": (32, 32, 3, 3)}.get(name[:-1], (32,))
        parameter.shape = shape
        parameter.initialize(init=mx.init.Constant(1.0) if name[:-1] != "w" else mx.init.Normal(0.06))
    data = arr(draw(1, 32, 48, 48))
    expected = net(data).asnumpy()
    net.hybridize()
    net(data)
    onp.testing.assert_array_equal(net(data).asnumpy(), expected)
    assert len(onp.unique(expected)) > 50


# ---- detection

def test_boxes_encoded_and_decoded():
    anchors = onp.sort(RANDOM.uniform(0, 1, (2, 5, 2, 2)), 2).reshape(2, 5, 4).astype("float32")
    refs = onp.sort(RANDOM.uniform(0, 1, (2, 3, 2, 2)), 2).reshape(2, 3, 4).astype("float32")
    samples, matches = onp.float32([[1, -1, 1, 0, 1]] * 2), RANDOM.randint(0, 3, (2, 5)).astype("float32")
    means, stds = onp.zeros(4, "float32"), onp.float32([0.1, 0.1, 0.2, 0.2])
    targets, masks = nd.contrib.box_encode(*map(arr, (samples, matches, anchors, refs, means, stds)))
    same(masks, onp.repeat((samples > 0.5)[..., None], 4, -1))
    for n in range(2):
        decoded = nd.contrib.box_decode(targets[n:n + 1], arr(anchors[n:n + 1]), 0.1, 0.1, 0.2, 0.2, format="corner").asnumpy()[0]
        for i in onp.flatnonzero(samples[n] > 0):
            onp.testing.assert_allclose(decoded[i], refs[n, int(matches[n, i])], rtol=1e-4, atol=1e-5)


def test_bipartite_matching():
    rows, columns = nd.contrib.bipartite_matching(arr([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]]), threshold=1e-12, is_ascend=False)
    same([rows, columns], ([1, -1, 0], [2, 0]))


def test_proposals_are_inside_and_do_not_overlap():
    scores, offsets = RANDOM.uniform(0, 1, (2, 12, 6, 7)), RANDOM.uniform(-0.3, 0.3, (2, 24, 6, 7))
    rois, score = nd.contrib.MultiProposal(arr(scores), arr(offsets), arr([[96, 112, 1]] * 2), rpn_pre_nms_top_n=200, rpn_post_nms_top_n=10, threshold=0.5,
                                           rpn_min_size=4, scales=(1, 2), ratios=(0.5, 1, 2), feature_stride=16, output_score=True)
    rois, score = rois.asnumpy(), score.asnumpy()
    assert rois.shape == (20, 5) and list(rois[:, 0]) == [0] * 10 + [1] * 10
    assert (rois[:, 1:] >= 0).all() and (rois[:, [1, 3]] <= 111).all() and (rois[:, [2, 4]] <= 95).all()
    assert (onp.diff(score[:10, 0]) <= 0).all() and score[0] == scores[0, 6:].max().astype("float32")
    different = onp.unique(rois[:10], axis=0)
    overlaps = nd.contrib.box_iou(arr(different[:, 1:] + [0, 0, 1, 1]), arr(different[:, 1:] + [0, 0, 1, 1])).asnumpy()
    assert (overlaps - onp.eye(len(different)) <= 0.5 + 1e-6).all()


def test_position_sensitive_pooling():
    data, rois = draw(2, 8, 6, 6), onp.float32([[1, 0, 0, 3, 5]])
    found = nd.contrib.PSROIPooling(arr(data), arr(rois), spatial_scale=1.0, output_dim=2, pooled_size=2).asnumpy()
    for c in range(2):
        for i in range(2):
            for j in range(2):
                cell = data[1, c * 4 + i * 2 + j, 3 * i:3 * i + 3, 2 * j:2 * j + 2]
                onp.testing.assert_allclose(found[0, c, i, j], cell.mean(), rtol=1e-5)
    plain = nd.contrib.DeformablePSROIPooling(arr(onp.ones((1, 4, 8, 8))), arr([[0, 1, 1, 5, 5]]), spatial_scale=1.0, output_dim=1, group_size=2,
                                              pooled_size=2, sample_per_part=2, no_trans=True)
    same(plain, onp.ones((1, 1, 2, 2)))


def test_rotated_regions():
    ramp = onp.tile(onp.arange(8, dtype="float32"), (8, 1))[None, None]
    roi = onp.float32([[0, 4, 4, 2, 2, 0]])
    straight = nd.contrib.RROIAlign(arr(ramp), arr(roi), pooled_size=(2, 2), spatial_scale=1.0, sampling_ratio=2).asnumpy()[0, 0]
    onp.testing.assert_allclose(straight, [[3.5, 4.5]] * 2, rtol=1e-5)
    roi[0, 5] = 90
    turned = nd.contrib.RROIAlign(arr(ramp), arr(roi), pooled_size=(2, 2), spatial_scale=1.0, sampling_ratio=2).asnumpy()[0, 0]
    onp.testing.assert_allclose(turned, [[3.5, 3.5], [4.5, 4.5]], rtol=1e-5)


# ---- transforms and processes

@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "uint8"])
@pytest.mark.parametrize("shape, width", [
    ((3, 4, 56, 56), (0, 0, 0, 0, 2, 2, 2, 2)), ((2, 3, 5), (1, 0, 0, 2, 3, 1)), ((7,), (3, 2)), ((6000,), (1, 5)), ((2, 5001), (0, 1, 2, 0)),
    ((3, 70, 70), (1, 1, 0, 0, 0, 0)), ((2, 0, 3), (0, 0, 2, 1, 1, 0)), ((40, 50, 3), (0, 0, 1, 0, 0, 0)), ((5, 90, 91), (2, 0, 0, 3, 1, 1))])
def test_padding_with_a_constant(shape, width, dtype):
    x = (onp.arange(math.prod(shape)) % 100).reshape(shape).astype(dtype)
    pairs = list(zip(width[::2], width[1::2]))
    found = nd.pad(nd.array(x, dtype=dtype), mode="constant", pad_width=width, constant_value=7).asnumpy()
    assert onp.array_equal(found, onp.pad(x, pairs, constant_values=7))


@pytest.mark.parametrize("length", [1, 7, 8, 12, 30, 49])
def test_fourier_transforms(length):
    x = draw(3, length)
    found, wanted = nd.contrib.fft(arr(x)).asnumpy(), onp.fft.fft(x)
    onp.testing.assert_allclose(found.reshape(3, length, 2), onp.stack([wanted.real, wanted.imag], -1), atol=1e-4)
    same(nd.contrib.ifft(arr(found)) / length, x, 1e-4, 1e-4)


def test_hawkes_log_likelihood():
    mu, alpha, beta = onp.float64([[1.5, 2.0]]), onp.float64([0.2, 0.3]), onp.float64([1.0, 2.0])
    lags, marks, end = onp.float64([[0.5, 1.0, 0.25]]), onp.array([[0, 1, 0]]), 3.0

    def intensity(mark, t, history):
        return mu[0, mark] + sum(alpha[mark] * beta[mark] * onp.exp(-beta[mark] * (t - s)) for s, m in history if m == mark and s < t)

    times, wanted, history = onp.cumsum(lags[0]), 0.0, []
    for t, m in zip(times, marks[0]):
        wanted += onp.log(intensity(m, t, history))
        history.append((t, m))
    grid = onp.linspace(0, end, 200001)
    for mark in (0, 1):
        rate = mu[0, mark] + sum(onp.where(grid > s, alpha[mark] * beta[mark] * onp.exp(-beta[mark] * (grid - s)), 0) for s, m in history if m == mark)
        wanted -= onp.trapz(rate, grid)
    found, state = nd.contrib.hawkesll(arr(mu, "float64"), arr(alpha, "float64"), arr(beta, "float64"), arr(onp.zeros((1, 2)), "float64"), arr(lags, "float64"),
                                       arr(marks, "int32"), arr([3]), arr([end]))
    onp.testing.assert_allclose(found.asnumpy(), [wanted], rtol=1e-4)
    onp.testing.assert_allclose(state.asnumpy()[0, 1], onp.exp(-2 * (3 - 1.5)), rtol=1e-5)


# ---- draws

@pytest.mark.parametrize("name, attrs, mean, deviation", [
    ("_npi_uniform", {"low": 1.0, "high": 3.0}, 2, 2 / 12 ** 0.5), ("_npi_normal", {"loc": 1.0, "scale": 2.0}, 1, 2),
    ("_npi_exponential", {"scale": 2.0}, 2, 2), ("_npi_gamma", {"shape": 2.0, "scale": 3.0}, 6, 18 ** 0.5),
    ("_npi_rayleigh", {"scale": 1.0}, (onp.pi / 2) ** 0.5, (2 - onp.pi / 2) ** 0.5), ("_npi_weibull", {"a": 1.0}, 1, 1),
    ("_npi_pareto", {"a": 5.0}, 0.25, (5 / 48) ** 0.5), ("_npi_powerd", {"a": 1.0}, 0.5, 12 ** -0.5),
    ("_npi_gumbel", {"loc": 1.0, "scale": 1.0}, 1.5772, onp.pi / 6 ** 0.5), ("_npi_logistic", {"loc": 1.0, "scale": 1.0}, 1, onp.pi / 3 ** 0.5),
    ("_npi_bernoulli", {"prob": 0.3}, 0.3, 0.21 ** 0.5)])
def test_draws_have_their_moments(name, attrs, mean, deviation):
    mx.random.seed(3)
    x = getattr(op, name)(size=(20000,), **attrs).asnumpy()
    assert abs(x.mean() - mean) < 5 * deviation / 20000 ** 0.5
    assert abs(x.std() - deviation) < 0.15 * deviation


def test_nesterovs_momentum_decays_the_weight_that_it_has_written():
    """MXNet writes the weight first, so the momentum's decay is that of the new one."""
    weight, mom, lr, wd, keep = draw(6).astype("float64"), onp.zeros(6), 0.1, 0.01, 0.9
    w, m = arr(weight, "float64"), arr(mom, "float64")
    for _ in range(12):
        grad = draw(6).astype("float64")
        nd.nag_mom_update(w, arr(grad, "float64"), m, out=w, lr=lr, wd=wd, momentum=keep, clip_gradient=1.0, rescale_grad=0.5)
        step = (grad * 0.5).clip(-1, 1)
        weight, mom = weight - keep * mom + (1 + keep) * (keep * mom - lr * (step + wd * weight)), keep * mom
        mom = mom - lr * (step + wd * weight)
    same([w, m], [weight, mom], 1e-12)


def test_choices():
    mx.random.seed(5)
    places = op._npi_choice(input2=arr([0.5, 0.0, 0.5]), a=3, size=(500,), weighted=True).asnumpy()
    assert set(places) == {0, 2}
    assert sorted(op._npi_choice(a=6, size=(6,), replace=False).asnumpy()) == list(range(6))
    counts = op._npi_multinomial(arr([0.2, 0.8]), n=1000, size=(2,)).asnumpy()
    assert counts.shape == (2, 2) and (counts.sum(1) == 1000).all() and abs(counts[0, 0] - 200) < 100


def steps(name, *states, shared=(), half=False, **attrs):
    """(results of one call on two weights, results of a call on each), with what `states` became behind the weights."""
    kind = "float16" if half else "float32"
    weights, grads = [draw(2, 3), draw(4)], [draw(2, 3), draw(4)]
    made = [[arr(w, kind), arr(g, kind), *(arr(abs(draw(*w.shape))) for _ in states), *([arr(w)] if half else [])] for w, g in zip(weights, grads)]
    again = [[x.copy() for x in of_one] for of_one in made]
    out = getattr(op, name)(*made[0], *made[1], *map(arr, shared), out=[made[0][0], made[1][0]], **attrs)
    return out, made, again


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("states", [(), ("mom",)])
def test_rates_that_are_arrays(states, half):
    attrs = {"rescale_grad": 0.5, "clip_gradient": 0.4, **({"momentum": 0.9} if states else {})}
    kind = f"{'mp_' if half else ''}sgd_{'mom_' if states else ''}update"
    _, many, single = steps(f"preloaded_multi_{kind}", *states, shared=([0.1, 0.2], [0.01, 0]), half=half, num_weights=2, **attrs)
    for of_one, lr, wd in zip(single, (0.1, 0.2), (0.01, 0)):
        getattr(nd, kind)(*of_one, out=of_one[0], lr=lr, wd=wd, **attrs)
    for ours, theirs in zip(many, single):
        same(ours, [x.asnumpy() for x in theirs], 1e-6)
    with pytest.raises(mx.MXNetError, match="2 behind them"):
        op.preloaded_multi_sgd_update(arr([1.0]), arr([1.0]), arr([0.1]), num_weights=1)
    with pytest.raises(mx.MXNetError, match="element"):
        op.preloaded_multi_sgd_update(arr([1.0]), arr([1.0]), arr([0.1, 2]), arr([0.0]), num_weights=1)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("scale", [0.5, 0.0, float("inf")])
def test_adamw_on_many_weights(scale, half):
    attrs = {"beta1": 0.8, "epsilon": 1e-6, "clip_gradient": 0.4}
    kind = f"{'mp_' if half else ''}adamw_update"
    _, many, single = steps(f"_multi_{kind}", "mean", "var", shared=([scale],), half=half, num_weights=2, lrs=(0.1, 0.2), wds=(0.01, 0), etas=(1, 0.5),
                            **attrs)
    for of_one, lr, wd, eta in zip(single, (0.1, 0.2), (0.01, 0), (1, 0.5)):
        getattr(op, f"_{kind}")(*of_one, arr([scale]), out=of_one[0], lr=lr, wd=wd, eta=eta, **attrs)
    for ours, theirs in zip(many, single):
        same(ours, [x.asnumpy() for x in theirs], 1e-6)


@pytest.mark.parametrize("half", [False, True])
def test_lamb_on_many_weights(half):
    attrs = {"beta1": 0.8, "bias_correction": True, "rescale_grad": 0.5}
    kind = "mp_" if half else ""
    _, many, single = steps(f"_multi_{kind}lamb_update", "mean", "var", half=half, num_tensors=2, learning_rates=(0.1, 0.2), wds=(0.01, 0),
                            step_count=(1, 3), lower_bound=0.5, **attrs)
    for of_one, lr, wd, t in zip(single, (0.1, 0.2), (0.01, 0), (1, 3)):
        source = of_one[-1] if half else of_one[0]
        direction = getattr(nd, f"{kind}lamb_update_phase1")(*of_one, t=t, wd=wd, **attrs)
        getattr(nd, f"{kind}lamb_update_phase2")(of_one[0], direction, source.norm(), direction.norm(), *([source] if half else []), out=of_one[0], lr=lr,
                                                 lower_bound=0.5)
    for ours, theirs in zip(many, single):
        same(ours, [x.asnumpy() for x in theirs], 2e-3 if half else 1e-6)


def test_a_history_per_row():
    weight, grad, history = draw(3, 4), draw(3, 4), abs(draw(3, 1))
    w, h = arr(weight), arr(history)
    nd.contrib.group_adagrad_update(w, arr(grad), h, out=w, lr=0.1, rescale_grad=0.5, clip_gradient=0.3, epsilon=1e-4)
    step = (grad * 0.5).clip(-0.3, 0.3)
    history = history + (step ** 2).mean(1, keepdims=True)
    same([w, h], [weight - 0.1 * step / onp.sqrt(history + 1e-4), history], 1e-6)


def test_masks_of_matched_objects():
    rois, masks = onp.array([[[0, 0, 4, 4], [2, 2, 6, 8]], [[1, 1, 7, 5], [0, 0, 8, 8]]], "float32"), (draw(2, 3, 8, 8) > 0).astype("float32")
    matches, classes = onp.array([[2, 0], [1, 1]]), onp.array([[1, 0], [2, 1]])
    targets, weights = nd.contrib.mrcnn_mask_target(arr(rois), arr(masks), arr(matches), arr(classes), num_rois=2, num_classes=3, mask_size=(4, 2),
                                                    sample_ratio=2)
    assert targets.shape == weights.shape == (2, 2, 3, 4, 2)
    for image in range(2):
        for region in range(2):
            mask, box = masks[image, matches[image, region]], onp.concatenate([[0], rois[image, region]])
            cut = nd.contrib.ROIAlign(arr(mask[None, None]), arr(box[None]), pooled_size=(4, 2), spatial_scale=1.0, sample_ratio=2).asnumpy()[0, 0]
            for kind in range(3):
                same([targets[image, region, kind]], [cut], 1e-6)
                assert (weights[image, region, kind].asnumpy() == (classes[image, region] == kind)).all()
    with pytest.raises(mx.MXNetError, match="num_rois"):
        nd.contrib.mrcnn_mask_target(arr(rois), arr(masks), arr(matches), arr(classes), num_rois=3, num_classes=3, mask_size=(4, 2))


def test_more_than_there_are_cannot_be_chosen():
    for data, k, axis in ((nd.ones((2, 3)), 4, 1), (nd.ones((2, 3)), 7, None), (nd.ones((2, 3)), 3, 0)):
        with pytest.raises(mx.base.MXNetError, match="'k' is"):
            nd.topk(data, k=k, axis=axis)
    assert nd.topk(nd.ones((2, 3)), k=0).shape == (2, 3)
