"""hybridize() never changes an answer: what user code gets, gives and reads besides its arrays."""
import collections
import decimal
import gc
import types

import numpy as np
import pytest
from promise import Colour, Forward, Options, Other, Pair, both, same

import gluino as mx
from gluino import gluon, nd


# ---- arguments that are no arrays

KINDS = {
    "number": [1, 1.0, True, 2, 1e-7, 2e-7, 1.0000001, 10 ** 30, 10 ** 30 + 1, -1, 1 + 2j],
    "zero": [0.0, -0.0, 0, False],
    "text": ["a", "b", "", "a;b", "#'a'", "é", "\ud800"],
    "bytes": [b"a", b"b", bytearray(b"a")],
    "none": [None, (), [], {}, Ellipsis],
    "enum": [Colour.RED, Colour.BLUE],
    "dtype": [np.dtype("float32"), np.dtype("int8"), np.float32, np.int8],
    "slice": [slice(1), slice(0, 1), slice(1, None, 2), range(1), range(2), range(0, 4, 2)],
    "numpy scalar": [np.float32(1), np.float64(1), np.int64(1), np.int64(2), np.bool_(True)],
    "tuple": [(1, 2), [1, 2], Pair(1, 2), Other(1, 2), (1, (2,)), ((1,), 2)],
    "dict": [{"a": 1}, {"a": 2}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, collections.OrderedDict(a=1)],
    "set": [{1, 2}, {1, 3}, frozenset({1, 2})],
    "dataclass": [Options(1.0), Options(2.0), Options(1.0, "x")],
    "decimal": [decimal.Decimal("0.1"), decimal.Decimal("0.10000000000000000000001")],
    "namespace": [types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)],
    "function": [abs, len, lambda: 1, lambda: 2],
}


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_are_told_apart(kind):
    same(lambda x, value: (x + 1, value), *[(nd.ones((2,)), value) for value in KINDS[kind]])


def test_nan_is_known_by_its_identity():
    nan = float("nan")
    f = mx.hybrid(lambda x, value: (x, value))
    for _ in range(3):
        assert np.isnan(f(nd.ones((1,)), nan)[1])
    assert f.stats()["traces"] == 1
    same(lambda x, value: x * (2 if value in (nan, 1) else 3), *[(nd.ones((2,)), value) for value in (nan, float("nan"), nan, 1.0, 2.0, float("nan"), nan)])
    other = Forward(lambda self, x: x * (2 if self.value in [nan] else 3), value=nan)
    other.hybridize()
    for value in (nan, float("nan"), nan):
        other.value = value
        assert other(nd.ones((1,))).asscalar() == (2 if value is nan else 3)


def test_numpy_arrays_as_arguments_go_by_their_values():
    big = np.arange(5000, dtype="float32")
    other = big.copy()
    other[2500] = -1
    arrays = [big, other, big.astype("float64"), big.reshape(50, 100), np.ones(3, "int32"), np.ones(3, "int64"), np.ones((3, 1), "int32")]
    f = same(lambda x, a: x * float(a.sum()) + a.ndim, *[(nd.ones((2,)), a) for a in arrays])
    assert f.stats()["traces"] == len(arrays)
    f(nd.ones((2,)), big.copy())
    assert f.stats()["traces"] == len(arrays)


def test_objects_go_by_identity_even_when_their_address_is_used_again():
    class Scale:
        __slots__ = ("by",)

        def __init__(self, by):
            self.by = by
    f = mx.hybrid(lambda x, scale: x * scale.by)
    for by in range(60):
        assert f(nd.ones((1,)), Scale(by)).asscalar() == by
        gc.collect()


def test_an_objects_attributes_are_looked_at():
    options = types.SimpleNamespace(scale=2.0, inner=types.SimpleNamespace(shift=1))
    f = mx.hybrid(lambda x, o: x * o.scale + o.inner.shift)
    for scale, shift in ((2.0, 1), (3.0, 1), (3.0, 5), (2.0, 1)):
        options.scale, options.inner.shift = scale, shift
        assert f(nd.ones((1,)), options).asscalar() == scale + shift
    assert f.stats()["traces"] == 3


def test_a_cyclic_or_very_deep_argument_is_an_error():
    f = mx.hybrid(lambda x, a: x)
    cyclic = []
    cyclic.append(cyclic)
    deep = []
    for _ in range(100000):
        deep = [deep]
    for argument in (cyclic, deep):
        with pytest.raises(ValueError, match="nested deeper"):
            f(nd.ones((1,)), argument)
    while deep:
        deep = deep[0]


def test_an_iterator_is_used_up_at_every_call():
    f = mx.hybrid(lambda x, numbers: x * next(numbers))
    numbers = iter(range(10))
    assert [f(nd.ones((1,)), numbers).asscalar() for _ in range(4)] == [0, 1, 2, 3]


def test_a_containers_change_by_the_function_is_not_lost():
    def f(x, seen):
        seen.append(len(seen))
        return x + len(seen)
    compiled, seen = mx.hybrid(f), []
    with pytest.warns(UserWarning, match="operator by operator"):
        assert [compiled(nd.zeros((1,)), seen).asscalar() for _ in range(3)] == [1, 2, 3]
    assert seen == [0, 1, 2]


def test_keyword_arguments():
    def drive(net):
        x = nd.array([1, 2])
        return [net(x, scale=s, shift=x) for s in (2, 3.0, 2)] + [net(x, x, scale=1)]
    both(lambda: Forward(lambda self, x, shift=None, scale=1: x * scale + shift), drive)


# ---- results

def test_the_structure_of_results_belongs_to_the_branch():
    def f(x):
        return x if x.sum() > 0 else [x, x * 2]
    same(f, (nd.array([1, 2]),), (nd.array([-1, -2]),), (nd.array([3]),))
    same(lambda x: list(x), (nd.ones((3, 2)),), (nd.ones((2, 2)),), (nd.ones((3, 2)),))


def test_results_may_be_anything():
    same(lambda x: None, (nd.ones((2,)),))
    same(lambda x: (x.shape, x.shape[0] * 2, "text", None, {"a": [x, Pair(x, x + 1)]}), (nd.ones((2,)),), (nd.ones((3,)),))
    same(lambda x: float(x.sum().asscalar()), (nd.ones((2,)),), (nd.ones((3,)),))
    same(lambda x: Options(2.0, x * 2), (nd.ones((2,)),))
    got = mx.hybrid(lambda x: (i for i in (x, x + 1)))
    for _ in range(2):
        assert [v.asscalar() for v in got(nd.ones((1,)))] == [1, 2]


def test_returned_numpy_arrays_are_the_callers_own():
    f = mx.hybrid(lambda x: x.asnumpy() * 2)
    for _ in range(2):
        a = f(nd.ones((2,)))
        assert a.tolist() == [2, 2]
        a[0] = 5


# ---- what is read outside

def test_attributes_of_blocks_are_watched():
    def drive(net):
        x, out = nd.array([1.0]), []
        for scale, flag in ((1, True), (2, True), (2, False), (1, True), (1.0, True), ("no", False)):
            net.inner.scale, net.flag = scale, flag
            out.append(net(x))
        return out

    def make():
        inner = Forward(lambda self, x: x * self.scale if self.scale != "no" else x, scale=0)
        return Forward(lambda self, x: self.inner(x) if self.flag else -x, inner=inner, flag=True)
    both(make, drive)
    net = make()
    net.hybridize()
    drive(net)
    traces = net.stats()["traces"]
    drive(net)
    assert net.stats()["traces"] == traces


def test_an_attribute_that_the_code_does_not_name_costs_no_trace():
    net = Forward(lambda self, x: x * self.scale, scale=2, epoch=0)
    net.hybridize()
    for epoch in range(5):
        net.epoch = epoch
        net(nd.ones((1,)))
    assert net.stats()["traces"] == 1


def test_containers_and_arrays_in_attributes_are_watched():
    def drive(net):
        x, out = nd.array([1.0]), []
        for change in (lambda: None, lambda: net.scales.append(3), lambda: net.table.update(a=7), lambda: setattr(net, "bias", nd.array([5.0])),
                       lambda: net.table.pop("a"), lambda: net.scales.clear(), lambda: net.options.__dict__.update(by=4)):
            change()
            out.append(net(x))
        return out
    both(lambda: Forward(lambda self, x: x * sum(self.scales) + self.table.get("a", 0) + self.bias * self.options.by, scales=[1, 2], table={"a": 1},
                         bias=nd.array([1.0]), options=types.SimpleNamespace(by=1)), drive)


def test_an_array_that_somebody_else_holds_is_rebound():
    def drive(net):
        old, out = net.weight, []
        for weight in (old, nd.array([3.0]), old, nd.array([4.0])):
            net.weight = weight
            out.append(net(nd.array([2.0])))
        return out
    both(lambda: Forward(lambda self, x: x * self.weight, weight=nd.array([1.0])), drive)


GLOBAL_SCALE, GLOBAL_TABLE = 1, {"a": 1}


def helper(x):
    return x * GLOBAL_SCALE + GLOBAL_TABLE["a"]


def test_globals_and_closures_are_watched_through_functions():
    global GLOBAL_SCALE
    shift = 1

    def inner(x):
        return helper(x) + shift
    compiled = mx.hybrid(lambda x: inner(x) * 2)
    traces = []
    for scale, value, shift in ((1, 1, 1), (2, 1, 1), (2, 5, 1), (2, 5, 7), (1, 1, 1)):
        GLOBAL_SCALE, GLOBAL_TABLE["a"] = scale, value
        assert compiled(nd.ones((1,))).asscalar() == (scale + value + shift) * 2
        traces.append(compiled.stats()["traces"])
    assert traces == [1, 2, 3, 4, 4]
    GLOBAL_SCALE, GLOBAL_TABLE["a"] = 1, 1


def test_another_function_in_a_variable_is_followed():
    scale = 2

    def double(x):
        return x * scale

    def triple(x):
        return x * 3
    f = double
    compiled = mx.hybrid(lambda x: f(x))
    assert compiled(nd.ones((1,))).asscalar() == 2
    f = triple
    assert compiled(nd.ones((1,))).asscalar() == 3
    f, scale = double, 5
    assert compiled(nd.ones((1,))).asscalar() == 5


def test_class_attributes_are_watched():
    class Net(gluon.HybridBlock):
        scale = 1

        def forward(self, x):
            return x * self.scale
    net = Net()
    net.hybridize()
    for scale in (1, 2, 1):
        Net.scale = scale
        assert net(nd.ones((1,))).asscalar() == scale


def test_random_numbers_of_python_are_drawn_at_every_call():
    import random
    f = mx.hybrid(lambda x: x * random.random())
    random.seed(0)
    want = [random.random() for _ in range(3)]
    random.seed(0)
    np.testing.assert_allclose([f(nd.ones((1,))).asscalar() for _ in range(3)], want, rtol=1e-6)


def test_a_child_replaced_below_is_seen_above():
    def drive(net):
        x, out = nd.ones((1, 2)), []
        out.append(net(x))
        net.inner.last = Forward(lambda self, x: x * 7)
        out.append(net(x))
        return out

    def make():
        inner = Forward(lambda self, x: self.last(x), last=Forward(lambda self, x: x * 3))
        return Forward(lambda self, x: self.inner(x) + 1, inner=inner)
    both(make, drive)


def test_in_place_on_whole_numbers():
    """mx.nd stores what it gets as whole numbers, as MXNet does; mx.np refuses fractions, as NumPy does."""
    a = nd.array([1, 3, 5], dtype="int32")
    a *= 2.5
    a += nd.array([1.5, 0, 0])
    a /= 2
    assert a.dtype == np.int32 and a.asnumpy().tolist() == [1, 3, 5]
    b = mx.np.array([1, 3, 5], dtype="int32")
    b *= 2
    b[0:2] += 1
    assert b.dtype == np.int32 and b.asnumpy().tolist() == [3, 7, 10]
    for change in (lambda: b.__imul__(2.5), lambda: b.__itruediv__(2)):
        with pytest.raises(mx.MXNetError, match="gives fractions"):
            change()


def test_traced_arrays_are_arrays():
    def kinds(x):
        is_array, is_np = isinstance(x, mx.nd.NDArray), isinstance(x, mx.np.ndarray)
        return x * 2 if is_array and is_np else x * 3 if is_array else x * 5

    class Net(mx.gluon.HybridBlock):
        def forward(self, x):
            return kinds(x)

    for x in (mx.nd.ones((2,)), mx.np.ones((2,))):
        for compiled in (mx.hybrid(kinds), Net()):
            if isinstance(compiled, Net):
                compiled.hybridize()
            assert (compiled(x).asnumpy() == kinds(x).asnumpy()).all()


def test_code_that_is_given_symbols_sees_symbols():
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            assert (F is mx.sym) == isinstance(x, mx.sym.Symbol) == (not isinstance(x, mx.nd.NDArray))
            return x * 2

    net = Net()
    net(mx.nd.ones((2,)))
    net.hybridize()
    net(mx.nd.ones((2,)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_choice_between_an_array_and_a_number_keeps_the_dtype(dtype):
    def choose(x):
        return mx.np.where(x > 0, x, 1), mx.np.where(x > 0, 2, x), mx.np.full((2,), x.sum())

    x = mx.np.array([-1, 2], dtype=dtype)
    for eager, compiled in zip(choose(x), mx.hybrid(choose)(x)):
        assert eager.dtype == compiled.dtype and (eager.asnumpy() == compiled.asnumpy()).all()


class Linked:
    """An object in a set of its own, and in one of another's."""

    def __init__(self, others=()):
        self.friends = {self, *others}
        self.by_name = {"self": self, "all": [self, frozenset(self.friends)]}
        self.scale = 2.0

    @property
    def __class__(self):
        if len(self.friends) > 4:
            self.friends.clear()  # looking changes what is looked at
        return Linked


LINKED = Linked([Linked([Linked(), Linked()])])


def test_objects_that_contain_each_other_are_watched():
    compiled = mx.hybrid(lambda x: x * LINKED.scale)
    for scale in (2.0, 3.0, 2.0, 5.0):
        LINKED.scale = scale
        LINKED.friends.update(Linked() for _ in range(9))
        assert compiled(mx.nd.ones((1,))).asscalar() == scale


def test_arguments_that_contain_themselves_in_sets():
    knot = Linked()
    compiled = mx.hybrid(lambda x, o: x * o.scale)
    for scale in (2.0, 4.0, 2.0):
        knot.scale = scale
        assert compiled(mx.nd.ones((1,)), knot).asscalar() == scale
