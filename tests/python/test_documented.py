"""What MXNet's documentation shows of functions and classes, with numbers of our own."""
import numpy as onp
import pytest

import gluino as mx


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("package", [mx.nd, mx.np])
@pytest.mark.parametrize("operator", ["iadd", "isub", "imul", "itruediv", "imod"])
@pytest.mark.parametrize("size", [16, 5000])  # beyond 4096 elements other threads may run meanwhile
def test_updates_in_place_take_every_kind_of_number(operator, package, dtype, size):
    whole = dtype == "int32" and package is mx.np  # which NumPy does not let become fractions
    if whole and operator == "itruediv":
        pytest.skip("NumPy refuses it")
    for number in (3, True, onp.int64(3)) if whole else (3, 3.0, True, onp.float32(3), onp.int64(3)):
        values = onp.arange(size, dtype=dtype) % 7
        x = package.array(values, dtype=dtype)
        wanted = {"iadd": values + number, "isub": values - number, "imul": values * number, "itruediv": values / number,
                  "imod": values % number}[operator]
        held = x
        held = getattr(type(held), f"__{operator}__")(held, number)
        assert held is x
        onp.testing.assert_allclose(x.asnumpy(), wanted.astype(dtype), rtol=1e-6)


# ---- mx.np

_OF_A_LIST = {
    "sum": {}, "mean": {}, "prod": {}, "max": {}, "min": {}, "std": {}, "var": {}, "average": {}, "argmax": {}, "argmin": {}, "argsort": {}, "sort": {},
    "cumsum": {}, "all": {}, "any": {}, "ravel": {}, "diff": {}, "flip": {}, "median": {}, "ptp": {}, "nansum": {}, "cumprod": {}, "diagflat": {"k": 1},
    "tile": {"reps": 2}, "repeat": {"repeats": 2}, "roll": {"shift": 1}, "reshape": {"newshape": (2, 2)}, "pad": {"pad_width": (1, 2), "mode": "edge"},
    "take": {"indices": [0, 2]}, "clip": {"a_min": 1, "a_max": 3}, "ediff1d": {}, "expand_dims": {"axis": 0}, "zeros_like": {}, "ones_like": {},
    "full_like": {"fill_value": 5}, "diag": {}, "tril": {}, "atleast_1d": {}, "atleast_2d": {}, "atleast_3d": {},
    "sqrt": {}, "cbrt": {}, "exp": {}, "floor": {}, "isnan": {}, "negative": {}, "abs": {}, "rint": {}, "resize": {"new_shape": (2, 3)},
}


@pytest.mark.parametrize("name", sorted(_OF_A_LIST))
def test_functions_of_np_take_lists(name):
    values, options = [1.0, 4.0, 2.0, 3.0], _OF_A_LIST[name]
    made, wanted = getattr(mx.np, name)(values, **options), getattr(onp, name)(values, **options)
    if not isinstance(made, list):
        made, wanted = [made], [wanted]
    for part, other in zip(made, wanted):
        assert isinstance(part, mx.np.ndarray)
        onp.testing.assert_allclose(part.asnumpy(), other, rtol=1e-6)


@pytest.mark.parametrize("name", ["dot", "matmul", "inner", "outer", "vdot", "kron", "cross", "hypot", "maximum", "add", "arctan2", "greater"])
def test_functions_of_two_take_lists(name):
    left, right = [1.0, 2.0, 3.0], [4.0, 5.0, 7.0]
    wanted = getattr(onp, name)(left, right)
    for a, b in ((mx.np.array(left), right), (left, mx.np.array(right)), (left, right)):
        onp.testing.assert_allclose(getattr(mx.np, name)(a, b).asnumpy(), wanted, rtol=1e-6)


def test_shapes_of_numbers_and_lists():
    assert mx.np.shape(3) == () and mx.np.shape([[1, 2]]) == (1, 2) and mx.np.ndim([1, 2]) == 1 and mx.np.size([[1, 2], [3, 4]]) == 4


@pytest.mark.parametrize("shape, code, reverse, wanted", [
    ((4, 1, 1, 5), (-2, -3, -3, -2), False, (4, 5)), ((4, 1, 5), (-3,), False, None), ((3, 4, 5), (-5, -4), False, (12, 5)),
    ((3, 4, 5), (-4, -5), True, (3, 20)), ((6, 5), (-6, 2, -1, -4), False, (2, 3, 5)), ((5, 6), (-4, -1, 2, -6), True, (5, 3, 2)), ((6, 5), -1, False, (30,))])
def test_npx_reshape_has_its_own_codes(shape, code, reverse, wanted):
    x = mx.np.ones(shape)
    if wanted is None:
        with pytest.raises(mx.base.MXNetError):
            mx.npx.reshape(x, code, reverse=reverse)
    else:
        assert mx.npx.reshape(x, code, reverse=reverse).shape == wanted


def test_arrays_of_np_show_themselves_without_float32():
    long = mx.np.array([0, 0.5, 0.70710677, 0.86602545, 1])  # whose dtype NumPy writes on a line of its own
    assert "dtype" not in repr(long) and repr(long).endswith("])")
    assert repr(mx.np.array([1.5])) == "array([1.5])" and repr(mx.np.array([1], dtype="int64")) == "array([1], dtype=int64)"


def test_dtypes_of_np_are_numpys():
    x = mx.np.ones(2)
    assert isinstance(x.dtype, onp.dtype) and x.dtype == onp.float32 and x.dtype.name == "float32" and x.astype("int8").dtype.itemsize == 1
    assert mx.np.double is onp.float64 and mx.np.uint16 is onp.uint16
    assert mx.np.full_like(x, 2, dtype=mx.np.double).dtype == onp.float64
    assert mx.nd.ones(2).dtype is onp.float32  # mx.nd gives types
    names = []

    class Named(mx.gluon.HybridBlock):
        def forward(self, a):
            names.append(a.dtype.name)
            return a + 1

    net = Named()
    net(x)
    net.hybridize()
    net(x)
    assert names == ["float32", "float32"]


def test_values_inserted_take_the_arrays_dtype():
    made = mx.np.insert(mx.np.array([1, 2, 3], dtype="int32"), mx.np.array([1, 2], dtype="int64"), mx.np.array([7.75, 8.25]))
    assert made.dtype == onp.int32 and made.tolist() == onp.insert(onp.array([1, 2, 3], "int32"), [1, 2], [7.75, 8.25]).tolist()


def test_whole_numbers_are_counted_whatever_their_dtype():
    counted = mx.np.bincount(mx.np.array([0, 3, 1, 3]), minlength=5)
    assert counted.dtype == onp.int64 and counted.tolist() == [1, 1, 0, 2, 0]
    assert mx.np.bincount([2, 2], weights=[0.5, 1.5]).tolist() == [0, 0, 2]
    with pytest.raises(TypeError, match="fractions"):
        mx.np.bincount(mx.np.array([0.5]))


def test_small_things_of_np():
    assert mx.np.bitwise_not is mx.np.invert
    a = mx.np.array([[1.0, -5.0], [2.0, 3.0]])
    for order in ("inf", "-inf"):
        onp.testing.assert_allclose(mx.np.linalg.norm(a, order).asnumpy(), onp.linalg.norm(a.asnumpy(), float(order)))
        onp.testing.assert_allclose(mx.np.linalg.norm(a[0], order).asnumpy(), onp.linalg.norm(a[0].asnumpy(), float(order)))
    parts = mx.np.dsplit(mx.np.arange(12).reshape(1, 2, 6), mx.np.array([1, 4]))
    assert [part.shape for part in parts] == [(1, 2, 1), (1, 2, 3), (1, 2, 2)]


# ---- symbols

def test_calls_of_symbols_operators_are_named_as_mxnets():
    x, y = mx.sym.var("x"), mx.sym.var("y")
    made = {"_mulscalar0": lambda: x * 2, "_plusscalar0": lambda: 2 + x, "_rminusscalar0": lambda: 2 - x, "_rdivscalar0": lambda: 2 / x,
            "_powerscalar0": lambda: x ** 2, "_greaterequalscalar0": lambda: x >= 2, "_plus0": lambda: x + y, "_greater_equal0": lambda: x >= y,
            "_maximumscalar0": lambda: mx.sym.maximum(x, 2)}
    for name, function in made.items():
        with mx.name.NameManager():
            assert function().name == name

    class Scaled(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, a):
            return a * 2 + a

    net = Scaled(prefix="net_")
    net.hybridize()
    net(mx.nd.ones(2))
    assert net._symbol().get_internals().list_outputs()[1:] == ["net__mulscalar0_output", "net__plus0_output"]


def test_a_composed_symbol_may_be_named():
    data = mx.sym.var("data")
    first = mx.sym.FullyConnected(data, name="first", num_hidden=3)
    second = mx.sym.FullyConnected(name="second", num_hidden=2)
    joined = second(second_data=first, name="joined")
    assert joined.name == "joined" and joined.list_outputs() == ["joined_output"]
    assert joined.list_arguments() == ["data", "first_weight", "first_bias", "second_weight", "second_bias"]
    assert second.name == "second" and second.list_arguments()[0] == "second_data"  # stays as it was
    second._compose(second_data=first, name="changed")
    assert second.name == "changed" and second.list_arguments()[0] == "data"
    with pytest.raises(ValueError, match="group"):
        mx.sym.Group([first, joined])(name="both")


# ---- other classes

def test_descriptions_of_data_show_dtype_and_layout():
    assert repr(mx.io.DataDesc("data", (2, 3), "int32", "NC")) == "DataDesc[data,(2, 3),int32,NC]"


def test_initializers_by_further_names():
    @mx.init.register
    @mx.initializer.alias("by_another_name")
    class Tenths(mx.init.Initializer):
        def _init_weight(self, name, arr):
            arr[:] = 0.1

    net = mx.sym.FullyConnected(mx.sym.var("data"), name="fc", num_hidden=2)
    for name in ("tenths", "by_another_name"):
        module = mx.mod.Module(net, label_names=None)
        module.bind([("data", (1, 3))])
        module.init_params(name)
        onp.testing.assert_allclose(module.get_params()[0]["fc_weight"].asnumpy(), 0.1)


def test_constants_of_numpys_arrays():
    class Scaled(mx.gluon.HybridBlock):
        def __init__(self, values):
            super().__init__()
            with self.name_scope():
                self.scales = self.params.get("scales", shape=values.shape, init=mx.init.Constant(values), differentiable=False)
                self.weight = self.params.get("weight", shape=(2, 0), allow_deferred_init=True)

        def hybrid_forward(self, F, x, scales, weight):
            return F.FullyConnected(F.broadcast_mul(x, scales), weight, no_bias=True, num_hidden=2)

    net = Scaled(onp.array([1.0, 2.0, 3.0], "float32"))
    net.initialize(mx.init.One())
    assert net(mx.nd.ones((1, 3))).asnumpy().tolist() == [[6.0, 6.0]]


def test_names_that_programs_reach_for(tmp_path, monkeypatch):
    assert mx.image.det is mx.image.detection
    trainer = mx.gluon.Trainer({}, "sgd")
    if not trainer._kv_initialized:
        trainer._init_kvstore()
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "alexnet-1a2b3c4d.params").write_bytes(b"")
    assert mx.gluon.model_zoo.model_store.short_hash("alexnet") == "1a2b3c4d"
    with pytest.raises(ValueError, match="vgg11"):
        mx.gluon.model_zoo.model_store.short_hash("vgg11")


# ---- mx.sym.np

_VALUES = onp.array([[1.0, 2.0, 4.0], [7.0, 3.0, 1.0]], "float32")
_OF_SYMBOLS = {
    "x[1]": lambda np, x: x[1], "x[-1]": lambda np, x: x[-1], "x[:, 1:]": lambda np, x: x[:, 1:], "x[0, -1]": lambda np, x: x[0, -1],
    "x[-1, ::2]": lambda np, x: x[-1, ::2], "x[::-1]": lambda np, x: x[::-1], "diff": lambda np, x: np.diff(x, axis=0),
    "where a number is on the left": lambda np, x: np.where(x > 2, 5.0, x), "where it is on the right": lambda np, x: np.where(x > 2, x, 0.5),
    "where there are two": lambda np, x: np.where(x > 2, 1.5, -1.0), "ediff1d with numbers": lambda np, x: np.ediff1d(x, to_end=9.0, to_begin=1.0),
    "ediff1d with an end": lambda np, x: np.ediff1d(x, to_end=x), "unravel_index": lambda np, x: np.unravel_index(x.astype("int64"), (3, 4))[1],
    "zeros": lambda np, x: np.zeros((2, 3)) + x, "ones": lambda np, x: np.ones(3) + x, "full": lambda np, x: np.full((3,), 2.0) * x,
    "arange": lambda np, x: np.arange(3) + x, "linspace": lambda np, x: np.linspace(0, 1, 3) + x, "logspace": lambda np, x: np.logspace(0, 1, 3) + x,
    "eye": lambda np, x: np.eye(3)[:2] + x, "identity": lambda np, x: np.identity(3)[:2] * x, "indices": lambda np, x: np.indices((2, 3))[0] * x,
    "hanning": lambda np, x: np.hanning(3) + x, "blackman": lambda np, x: np.blackman(3) + x,
    "uniform": lambda np, x: np.random.uniform(size=(2, 3)) * 0 + x, "normal": lambda np, x: np.random.normal(0, 1, (2, 3)) * 0 + x,
    "gamma": lambda np, x: np.random.gamma(2.0, size=3) * 0 + x, "gumbel": lambda np, x: np.random.gumbel(size=3) * 0 + x,
}


@pytest.mark.parametrize("name", sorted(_OF_SYMBOLS))
def test_functions_of_sym_np_make_symbols(name):
    x = mx.sym.var("x").as_np_ndarray()
    made = _OF_SYMBOLS[name](mx.sym.np, x)
    assert isinstance(made, mx.sym.Symbol)
    out, = made.bind(mx.cpu(), {"x": mx.np.array(_VALUES)}).forward()
    wanted = _OF_SYMBOLS[name](onp, _VALUES)
    assert out.shape == wanted.shape
    onp.testing.assert_allclose(out.asnumpy(), wanted, rtol=1e-5)
    assert isinstance(mx.np.zeros(2), mx.np.ndarray)  # only symbols' functions make symbols


def test_shapes_follow_through_what_a_block_creates():
    class Placed(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = self.params.get("weight", shape=(2, 0), allow_deferred_init=True)

        def hybrid_forward(self, F, x, weight):
            return F.npx.fully_connected(x + F.np.arange(3), weight, no_bias=True, num_hidden=2)

    with mx.util.np_array(True), mx.util.np_shape(True):
        net = Placed()
        net.initialize(mx.init.One())
        assert net(mx.np.zeros((1, 3))).asnumpy().tolist() == [[3.0, 3.0]]
        net.hybridize()
        assert net(mx.np.zeros((1, 3))).asnumpy().tolist() == [[3.0, 3.0]]


def test_dtypes_follow_where_all_are_given():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    half, single = onp.float16, onp.float32
    assert (a + b).infer_type(a="float32", b="float32") == ([single, single], [single], [])
    assert mx.sym.cast(a, dtype="float32").infer_type(a="float16") == ([half], [single], [])
    joined = mx.sym.Activation(mx.sym.elemwise_add(a, mx.sym.cast(b, dtype="float32")), act_type="relu")
    assert joined.infer_type(a="float32", b="float16") == ([single, half], [single], [])
    assert joined.infer_type(a="float32") == (None, None, None)
    assert joined.infer_type_partial(a="float32") == ([single, None], [single], [])


@pytest.mark.parametrize("make", [lambda ctx: mx.nd.ones(2, ctx), lambda ctx: mx.np.zeros(2, ctx=ctx), lambda ctx: mx.nd.array([1], ctx=ctx),
                                  lambda ctx: mx.nd.random.uniform(ctx=ctx), lambda ctx: mx.np.random.normal(ctx=ctx)])
def test_a_number_is_no_context(make):
    with pytest.raises(TypeError, match="context such as mx.cpu"):
        make(2)


# ---- what is only stored in part

@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_random_sparse_arrays_are_as_large_as_what_they_store(stype):
    shape = (1000, 10 ** 6) if stype == "csr" else (10 ** 9, 2)  # dense, it would be gigabytes
    array, parts = mx.test_utils.rand_sparse_ndarray(shape, stype, density=1e-5 if stype == "csr" else 1e-6)
    stored = parts[-1].shape[0] if stype == "csr" else parts[0].shape[0]
    assert array.stype == stype and array.shape == shape and 500 < stored < 20000


@pytest.mark.parametrize("density", [0.0, 0.1, 0.9, 1.0])
def test_random_sparse_arrays_have_their_density(density):
    matrix = mx.test_utils.rand_ndarray((50, 40), "csr", density)
    assert matrix.data.shape[0] == onp.count_nonzero(matrix.asnumpy()) and abs(matrix.data.shape[0] / 2000 - density) < 0.06
    begins, columns = matrix.indptr.asnumpy(), matrix.indices.asnumpy()
    assert begins[0] == 0 and begins[-1] == len(columns) and all((onp.diff(columns[a:b]) > 0).all() for a, b in zip(begins, begins[1:]))
    rows = mx.test_utils.rand_ndarray((200, 3), "row_sparse", density).indices.asnumpy()
    assert abs(len(rows) / 200 - density) < 0.12 and (onp.diff(rows) > 0).all()
    filled = mx.test_utils.rand_sparse_ndarray((3, 4), "csr", 1.0, data_init=2.0, modifier_func=lambda x: x + 1)[0]
    assert (filled.asnumpy() == 3).all()
    powers = mx.test_utils.rand_sparse_ndarray((4, 6), "csr", distribution="powerlaw")[0].asnumpy()
    assert (powers != 0).sum(axis=1).tolist() == [1, 2, 4, 6]


def test_zipfs_classes_of_symbols():
    drawn, of_true, of_drawn = mx.sym.contrib.rand_zipfian(mx.sym.var("classes"), 4, 5)
    classes = {"classes": mx.nd.array([3])}
    assert drawn.eval()[0].shape == (4,) and of_drawn.eval()[0].shape == (4,)
    onp.testing.assert_allclose(of_true.eval(**classes)[0].asnumpy(), 4 * onp.log(5 / 4) / onp.log(6), rtol=1e-6)


def test_monitors_see_what_operators_get_and_give():
    joined = mx.sym.Concat(mx.sym.FullyConnected(mx.sym.var("data"), name="fc", num_hidden=2), mx.sym.var("more"), dim=1, name="joined")
    executor = joined.simple_bind(mx.cpu(), data=(1, 3), more=(1, 4))
    seen = []
    executor.set_monitor_callback(lambda name, array: seen.append((name, array.shape)), monitor_all=True)
    executor.forward()
    assert seen == [("fc_data", (1, 3)), ("fc_weight", (2, 3)), ("fc_bias", (2,)), ("fc_output", (1, 2)), ("joined_arg0", (1, 2)), ("joined_arg1", (1, 4)),
                    ("joined_output", (1, 6))]
    del seen[:]
    executor.set_monitor_callback(lambda name, array: seen.append(name))
    executor.forward()
    assert seen == ["fc_output", "joined_output"]


@pytest.mark.parametrize("draw", [lambda random: random.bernoulli(0.5, size=(2, 3)), lambda random: random.normal_n(0.0, 1.0, batch_shape=(2, 3)),
                                  lambda random: random.uniform_n(0.0, 1.0, batch_shape=(2, 3))])
def test_random_numbers_of_sym_npx_are_symbols(draw):
    made = draw(mx.sym.npx.random)
    assert isinstance(made, mx.sym.Symbol) and made.bind(mx.cpu(), {}).forward()[0].shape == (2, 3)
    assert isinstance(draw(mx.npx.random), mx.np.ndarray)
