"""What scripts and libraries written for MXNet stumbled over, one small program each."""
import numpy as onp
import pytest

import gluino as mx
from gluino import autograd, gluon, nd, npx, sym


def test_the_second_gradient_of_a_linear_function_is_zero():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        first = autograd.grad(3 * x, [x], create_graph=True, retain_graph=True)[0]
        z = first.sum()
    z.backward()
    assert first.asnumpy().tolist() == [3, 3] and x.grad.asnumpy().tolist() == [0, 0]


def test_the_symbol_of_hybridized_calls():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(3, activation="relu"), gluon.nn.Dense(2))
    net.initialize()
    net.hybridize()
    x = nd.ones((1, 4))
    x.attach_grad()
    net(x)
    with autograd.record():
        y = net(x) * 2
    symbol = autograd.get_symbol(y)
    operators = [name for name in symbol.get_internals().list_outputs() if name.endswith("_fwd_output")]
    assert len(operators) == 3 and len(symbol.list_arguments()) == 5
    values = dict(zip(symbol.list_arguments(), (x, *(p.data() for p in net.collect_params().values()))))
    assert onp.allclose(symbol.bind(mx.cpu(), values).forward()[0].asnumpy(), y.asnumpy(), atol=1e-6)


def test_executors_of_other_shapes_share_memory():
    y = sym.FullyConnected(sym.var("x"), num_hidden=4, name="f")
    first = y.simple_bind(mx.cpu(), x=(5, 4))
    first.arg_dict["x"][:], first.arg_dict["f_weight"][:] = 1, 1
    smaller = first.reshape(x=(3, 4))
    assert (smaller.forward()[0].asnumpy() == 4).all() and smaller.arg_dict["x"].shape == (3, 4)
    smaller.arg_dict["x"][:] = 2
    assert first.arg_dict["x"].asnumpy()[:, 0].tolist() == [2, 2, 2, 1, 1]
    with pytest.raises(AssertionError):
        first.reshape(x=(7, 4))
    larger = first.reshape(allow_up_sizing=True, x=(7, 4))
    larger.arg_dict["f_weight"][:] = 3
    assert (first.arg_dict["f_weight"].asnumpy() == 3).all() and larger.arg_dict["x"].shape == (7, 4)
    with pytest.raises(AssertionError):
        first.reshape(x=(5, 3))
    assert first.reshape(partial_shaping=True, x=(5, 3)).arg_dict["f_weight"].shape == (4, 3)


def test_an_executor_goes_back_as_often_as_it_is_asked():
    x = sym.var("x")
    executor = (x * x).simple_bind(mx.cpu(), x=(2,))
    executor.arg_dict["x"][:] = 3
    executor.forward(is_train=True)
    for head in (1, 2):
        executor.backward([nd.full((2,), head)])
        assert executor.grad_dict["x"].asnumpy().tolist() == [6 * head] * 2


def test_errors():
    for ask in (lambda: nd.zeros((1 << 40, 1 << 10)), lambda: mx.np.ones((1 << 40, 1 << 10))):
        with pytest.raises(MemoryError, match="out of memory") as raised:
            ask()
        assert not isinstance(raised.value, OSError)
    with pytest.raises(ValueError):
        mx.np.random.multinomial(3, [0.5, 0.9])
    with pytest.raises(ValueError):
        mx.np.diag(mx.np.ones((2, 2, 2)))
    with pytest.raises(TypeError):
        iter(mx.np.array(1.0))


@pytest.mark.parametrize("call", (
    lambda x: nd.relu(x), lambda x: nd.FullyConnected(x, x, num_hidden=2, no_bias=True), lambda x: nd.linalg.gemm2(x, x), lambda x: nd.contrib.quadratic(x),
    lambda x: nd.image.flip_left_right(x), lambda x: nd.concat(x, x, dim=0), lambda x: nd.sum(x), lambda x: gluon.nn.Flatten()(x),
    lambda x: sym.relu(sym.var("x").as_np_ndarray())))
def test_arrays_of_np_are_not_for_operators_of_nd(call):
    """Outside of NumPy mode, where layers are made of mx.nd's operators too."""
    with pytest.raises(TypeError, match="mx.np"):
        call(mx.np.ones((2, 2)))


def test_cells_that_cannot_be_stepped_inside_of_others():
    stack = gluon.rnn.SequentialRNNCell()
    for cell in (gluon.rnn.LSTMCell, gluon.rnn.GRUCell):
        stack.add(gluon.rnn.BidirectionalCell(cell(3), cell(3)))
    stack.initialize()
    outputs, states = stack.unroll(4, nd.ones((2, 4, 5)), layout="NTC", merge_outputs=True)
    assert outputs.shape == (2, 4, 6) and len(states) == 6
    again, _ = stack.unroll(4, nd.ones((2, 4, 5)), begin_state=stack.begin_state(2), layout="NTC", merge_outputs=True)
    assert onp.allclose(outputs.asnumpy(), again.asnumpy())


@pytest.mark.parametrize("bidirectional", (False, True))
@pytest.mark.parametrize("lengths", (None, [2, 4]))
def test_lstm_with_projection(bidirectional, lengths):
    layer = gluon.rnn.LSTM(5, num_layers=2, projection_size=3, bidirectional=bidirectional, use_sequence_length=lengths is not None)
    layer.initialize(mx.init.Xavier())
    x, states = nd.random.normal(shape=(4, 2, 3)), layer.begin_state(2)
    args = (x, states) if lengths is None else (x, states, nd.array(lengths))
    out, final = layer(*args)
    ways = 2 if bidirectional else 1
    assert out.shape == (4, 2, 3 * ways) and [s.shape for s in final] == [(2 * ways, 2, 3), (2 * ways, 2, 5)]
    if lengths:
        assert (out.asnumpy()[2:, 0] == 0).all() and (out.asnumpy()[3, 1] != 0).any()
    layer.hybridize()
    for a, b in zip((out, *final), (lambda o, s: (o, *s))(*layer(*args))):
        assert onp.allclose(a.asnumpy(), b.asnumpy(), atol=1e-5)
    with autograd.record():
        loss = layer(*args)[0].sum()
    loss.backward()
    assert (layer.l0_h2r_weight.grad().asnumpy() != 0).any()


def test_projection_is_that_of_the_cell():
    layer, cell, x = gluon.rnn.LSTM(5, projection_size=3), gluon.contrib.rnn.LSTMPCell(5, 3), nd.random.normal(shape=(4, 2, 3))
    layer.initialize(mx.init.Xavier())
    cell.initialize()
    out = layer(x)
    cell(x[0], cell.begin_state(2))
    for kind in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias", "h2r_weight"):
        getattr(cell, kind).set_data(getattr(layer, "l0_" + kind).data())
    assert onp.allclose(out.asnumpy(), cell.unroll(4, x, layout="TNC", merge_outputs=True)[0].asnumpy(), atol=1e-5)


def test_parameters_with_several_names_are_stored_once():
    first = gluon.nn.Dense(3, in_units=3)
    net = gluon.nn.Sequential()
    net.add(first, gluon.nn.Dense(3, in_units=3, params=first.params))
    net.initialize()
    net.save_parameters("shared.params", deduplicate=True)
    assert len(nd.load("shared.params")) == 2
    before = first.weight.data().asnumpy()
    first.weight.set_data(nd.zeros((3, 3)))
    net.load_parameters("shared.params")
    assert (first.weight.data().asnumpy() == before).all()


@pytest.mark.parametrize("kind", (gluon.nn.Sequential, gluon.nn.HybridSequential))
def test_blocks_are_saved_and_loaded(kind):
    nets = [kind() for _ in range(2)]
    x = nd.ones((1, 3))
    for net in nets:
        net.add(gluon.nn.Dense(2, in_units=3), gluon.nn.BatchNorm(in_channels=2))
    nets[0].initialize(mx.init.Xavier())
    nets[0].hybridize()
    nets[0](x)
    nets[0].save("saved")
    nets[1].load("saved")
    assert onp.allclose(nets[0](x).asnumpy(), nets[1](x).asnumpy(), atol=1e-6)


def test_hooks_of_operators():
    net, seen = gluon.nn.HybridSequential(prefix="n_"), []
    with net.name_scope():
        net.add(gluon.nn.Dense(2), gluon.nn.BatchNorm())
    net.initialize()
    net.hybridize()
    net.register_op_hook(lambda node, operator, array: seen.append((node, operator, array.shape)))
    net(nd.ones((1, 3)))
    assert seen == [("n_dense0_fwd_output", "FullyConnected", (1, 2)), ("n_batchnorm0_fwd_output", "BatchNorm", (1, 2))]
    net.register_op_hook(lambda node, operator, array: seen.append((node, operator, array.shape)), monitor_all=True)
    net(nd.ones((1, 3)))
    assert seen[4:10] == [("n_dense0_fwd_data", "FullyConnected", (1, 3)), ("n_dense0_fwd_weight", "FullyConnected", (2, 3)),
                          ("n_dense0_fwd_bias", "FullyConnected", (2,)), ("n_dense0_fwd_output", "FullyConnected", (1, 2)),
                          ("n_batchnorm0_fwd_data", "BatchNorm", (1, 2)), ("n_batchnorm0_fwd_gamma", "BatchNorm", (2,))]


def test_labels_of_data_sets_are_np_arrays_under_set_np():
    from gluino.gluon.data.vision import MNIST

    class Few(MNIST):
        def _read(self):
            return onp.zeros((6, 28, 28, 1), "uint8"), onp.arange(6).astype("int32")
    assert isinstance(Few()[2][1], onp.int32)
    npx.set_np()
    try:
        data, labels = Few()[1:4]
        assert isinstance(labels, mx.np.ndarray) and labels.dtype == onp.int32 and data.shape == (3, 28, 28, 1)
        assert mx.np.stack([label for _, label in Few()]).shape == (6,)
    finally:
        npx.reset_np()


def _functions_over_graphs():
    unary = ("sum prod max min mean std var all any argmax argmin cumsum around round squeeze tril fabs rint nan_to_num diff rot90 flipud fliplr average "
             "atleast_1d atleast_2d atleast_3d hsplit vsplit exp log sqrt ravel sort argsort").split()
    calls = {name: (lambda np, a, b, name=name: getattr(np, name)(a, *((3,) if "split" in name else ()))) for name in unary}
    calls.update({name: (lambda np, a, b, name=name: getattr(np, name)(a, b)) for name in
                  "matmul dot inner outer vdot tensordot true_divide divide arctan2 hypot copysign add power maximum".split()})
    calls.update({name: (lambda np, a, b, name=name: getattr(np, name)([a, b])) for name in "hstack vstack dstack column_stack concatenate stack".split()})
    calls.update({
        "sum_axis": lambda np, a, b: np.sum(a, axis=1, keepdims=True), "mean_axis": lambda np, a, b: a.mean(axis=-1), "method": lambda np, a, b: (a + b).max(axis=0),
        "dtype": lambda np, a, b: np.sum(a, dtype="float64"), "roll": lambda np, a, b: np.roll(a, 1, axis=0), "flip": lambda np, a, b: np.flip(a, 1),
        "moveaxis": lambda np, a, b: np.moveaxis(a, 0, 1), "pad": lambda np, a, b: np.pad(a, ((1, 0), (0, 2)), constant_values=3), "triu": lambda np, a, b: np.triu(a, 1),
        "split": lambda np, a, b: np.split(a, [1], axis=1), "percentile": lambda np, a, b: np.percentile(a, 30, axis=0), "quantile": lambda np, a, b: np.quantile(a, 0.3),
        "axes": lambda np, a, b: np.tensordot(a, b, axes=([0], [1])), "scalar": lambda np, a, b: np.true_divide(2.0, a), "weights": lambda np, a, b: np.average(a, weights=b, axis=1),
        "full_like": lambda np, a, b: np.full_like(a, 3.0), "swapaxes": lambda np, a, b: np.swapaxes(a, 0, 1), "trace": lambda np, a, b: np.trace(a), "clip": lambda np, a, b: np.clip(a, 0.6, 0.9),
    })
    return calls


@pytest.mark.parametrize("name", _functions_over_graphs())
def test_functions_of_numpy_over_graphs(name):
    """Neither shape nor dtype of a symbol is known when the function is called."""
    call, rng = _functions_over_graphs()[name], onp.random.RandomState(0)
    arrays = {n: mx.np.array(rng.rand(3, 3) + 0.5) for n in "ab"}
    symbols = [sym.var(n).as_np_ndarray() for n in "ab"]
    expected, made = call(mx.np, *arrays.values()), call(mx.sym.np, *symbols)
    expected = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    made = made if isinstance(made, list) else [made]
    assert len(made) == len(expected)
    for symbol, array in zip(made, expected):
        out = symbol.bind(mx.cpu(), {n: arrays[n] for n in symbol.list_inputs()}).forward()[0]
        assert isinstance(out, mx.np.ndarray) and out.shape == array.shape
        assert onp.allclose(out.asnumpy(), array.asnumpy(), atol=1e-5)


def test_initialisers_of_users_get_np_arrays_under_set_np():
    class Large(mx.init.Initializer):
        def _init_weight(self, name, data):
            data[:] = mx.np.random.uniform(-10, 10, data.shape)
            data *= mx.np.abs(data) >= 5
    npx.set_np()
    try:
        for init in (Large(), mx.init.Xavier(), mx.init.Orthogonal(), mx.init.Constant(3), mx.init.Normal(1), mx.init.MSRAPrelu(), "ones"):
            layer = gluon.nn.Dense(8)
            layer.initialize(init)
            layer(mx.np.ones((2, 20)))
            assert isinstance(layer.weight.data(), mx.np.ndarray)
            if isinstance(init, Large):
                values = onp.abs(layer.weight.data().asnumpy())
                assert ((values == 0) | (values >= 5)).all()
    finally:
        npx.reset_np()


def test_extents_of_zero():
    assert mx.np.broadcast_to(mx.np.array(1.0), (2, 0)).shape == (2, 0) and mx.np.broadcast_to(mx.np.ones((3, 1)), (3, 0)).shape == (3, 0)
    with pytest.raises(ValueError):
        mx.np.broadcast_to(mx.np.ones((3,)), (2, 0))


def test_tables_of_the_profiler():
    import json
    mx.profiler.set_config(profile_all=True, filename="profile.json", aggregate_stats=True)
    mx.profiler.dumps(reset=True)
    mx.profiler.set_state("run")
    for _ in range(3):
        nd.ones((4,)) + 1
    mx.profiler.set_state("stop")
    table = mx.profiler.dumps()
    assert "Profile Statistics:" in table and "Total Count" in table and "Avg Time (ms)" in table
    counts = json.loads(mx.profiler.dumps(format="json", sort_by="count", reset=True))
    assert counts["Time"]["operator"]["_ones"]["Count"] == 3 and counts["Unit"]["Time"] == "ms"
    with pytest.raises(AssertionError):
        mx.profiler.dumps(sort_by="colour")


def test_estimators_check_what_they_are_given():
    net, loss = gluon.nn.Dense(2), gluon.loss.L2Loss()
    for wrong in ({"loss": "l2"}, {"loss": loss, "train_metrics": "acc"}, {"loss": loss, "val_metrics": [3]}):
        with pytest.raises(ValueError):
            gluon.contrib.estimator.Estimator(net, **wrong)


def test_texts_of_arrays_name_the_dtypes_that_are_not_the_default():
    texts = {name: repr(mx.np.ones((2,), dtype=name)) for name in ("float32", "float64", "int64", "int32", "bool")}
    assert texts == {"float32": "array([1., 1.])", "float64": "array([1., 1.], dtype=float64)", "int64": "array([1, 1], dtype=int64)",
                     "int32": "array([1, 1], dtype=int32)", "bool": "array([ True,  True])"}


def test_a_block_that_looks_for_an_operator_is_compiled():
    """As libraries do for what older versions had not: in the dictionary of a module of the package."""
    class Looks(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.contrib.div_sqrt_dim(x) if "div_sqrt_dim" in F.contrib.__dict__ else x

    class Hides(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            self.__dict__["n"] = self.__dict__.get("n", 0) + 1
            return x * self.__dict__["n"]
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        block = Looks()
        block.hybridize()
        assert block(nd.ones((1, 4))).asnumpy().tolist() == [[0.5] * 4]
        block.export("looks")
    block = Hides()
    block.hybridize()
    with pytest.warns(UserWarning, match="__dict__"):
        assert [block(nd.ones((1,))).asscalar() for _ in range(3)] == [1, 2, 3]


def test_functions_of_numpy_take_arrays_of_mx_np():
    ones, whole = mx.np.ones((2, 2)), mx.np.array([6, 5], dtype="int32")
    for made, wanted in ((onp.add(ones, 1), 2), (onp.exp(ones), onp.e), (onp.ones((2, 2)) + ones, 2), (ones * onp.ones((2, 2)), 1), (onp.linalg.norm(ones), 2),
                         (onp.float32(3) * ones, 3), (onp.greater(ones, ones), False), (onp.concatenate([ones, ones]), 1), (onp.heaviside(ones, 0.5), 1)):
        assert isinstance(made, mx.np.ndarray), made
        onp.testing.assert_allclose(made.asnumpy(), wanted, rtol=1e-6)
    target, plain = mx.np.zeros((2, 2)), onp.zeros((2, 2))
    assert onp.add(ones, ones, out=target) is target and target.sum().item() == 8
    onp.add(plain, ones, out=plain)
    assert plain.sum() == 4 and onp.add.reduce(ones, axis=0).tolist() == [2, 2]
    for made, wanted in ((whole & 3, [2, 1]), (3 & whole, [2, 1]), (whole | 3, [7, 7]), (whole ^ 3, [5, 6]), (~whole, [-7, -6]), (~(whole > 5), [False, True])):
        assert made.asnumpy().tolist() == wanted
    with pytest.raises(TypeError, match="whole numbers"):
        ones & ones


def test_names_that_programs_import(tmp_path):
    """One that is missing would end a whole file of tests or tools."""
    names = {}
    exec("from gluino.test_utils import *", names)
    assert {"mx", "np", "rnd", "os", "json", "array", "Context", "use_np", "Features", "np_symbol"} <= set(names)
    from gluino.base import _LIB, DataIterCreatorHandle, libinfo, mx_float_p  # noqa: F401
    from gluino.ndarray.ndarray import _DTYPE_NP_TO_MX, _STORAGE_TYPE_STR_TO_ID
    assert libinfo.find_lib_path() and _DTYPE_NP_TO_MX[onp.float16] == 2 and _STORAGE_TYPE_STR_TO_ID["csr"] == 2
    with pytest.raises(mx.MXNetError, match="MXNDArrayCreate is a function of MXNet's C library"):
        _LIB.MXNDArrayCreate()
    from gluino.executor_manager import _split_input_slice
    assert _split_input_slice(4, [1, 1]) == [slice(0, 2), slice(2, 4)]
    from gluino.numpy_dispatch_protocol import _NUMPY_ARRAY_FUNCTION_LIST, _NUMPY_ARRAY_UFUNC_LIST
    assert "linalg.svd" in _NUMPY_ARRAY_FUNCTION_LIST and "add" in _NUMPY_ARRAY_UFUNC_LIST
    assert "Convolution" in mx.operator.get_all_registered_operators_grouped()


@pytest.mark.parametrize("name, dtype, least", [("ImageRecordUInt8Iter", "uint8", 0), ("ImageRecordInt8Iter", "int8", -128)])
def test_images_of_records_as_whole_numbers(tmp_path, name, dtype, least):
    pixels = onp.full((8, 8, 3), 200, "uint8")
    file = mx.recordio.MXRecordIO(str(tmp_path / "a.rec"), "w")
    for i in range(4):
        file.write(mx.recordio.pack_img(mx.recordio.IRHeader(0, float(i), i, 0), pixels, img_fmt=".png"))
    file.close()
    batches = getattr(mx.io, name)(str(tmp_path / "a.rec"), (3, 8, 8), 2)
    data = next(batches).data[0]
    assert data.dtype == onp.dtype(dtype) == batches.provide_data[0].dtype and (data.asnumpy() == 200 + least).all()
    with pytest.raises(ValueError, match="mean_r belongs to ImageRecordIter"):
        getattr(mx.io, name)(str(tmp_path / "a.rec"), (3, 8, 8), 2, mean_r=1)


def _modified_cell():
    cell = gluon.rnn.LSTMCell(3)
    gluon.rnn.ResidualCell(cell)
    cell.begin_state(1)


def _two_constants():
    known = gluon.ParameterDict()
    known.get_constant("k", nd.ones((1,)))
    known.get_constant("k", nd.zeros((1,)))


@pytest.mark.parametrize("mistake", (
    lambda nn, rnn: nn.Conv2D(2, 3, layout="NCWH"), lambda nn, rnn: nn.Conv2D(2, (3, 3, 3)), lambda nn, rnn: nn.Conv1DTranspose(2, 3, output_padding=(0, 0)),
    lambda nn, rnn: nn.MaxPool2D((2, 2, 2)), lambda nn, rnn: nn.AvgPool3D(layout="NCHW"), lambda nn, rnn: nn.GlobalAvgPool2D(layout="HW"),
    lambda nn, rnn: nn.Lambda("no_such"), lambda nn, rnn: nn.HybridLambda("no_such"), lambda nn, rnn: rnn.LSTM(3, layout="NCT"),
    lambda nn, rnn: rnn.LSTMCell(3).unroll(3, None), lambda nn, rnn: rnn.LSTMCell(3).unroll(3, nd.ones((1, 2, 3))), lambda nn, rnn: rnn.DropoutCell("half"),
    lambda nn, rnn: rnn.ZoneoutCell(rnn.BidirectionalCell(rnn.LSTMCell(3), rnn.LSTMCell(3))), lambda nn, rnn: gluon.Parameter("w", grad_req="sum"),
    lambda nn, rnn: nn.LeakyReLU(-1), lambda nn, rnn: _modified_cell(), lambda nn, rnn: _two_constants()))
def test_mistakes_that_mxnet_asserts(mistake):
    with pytest.raises(AssertionError):
        mistake(gluon.nn, gluon.rnn)
