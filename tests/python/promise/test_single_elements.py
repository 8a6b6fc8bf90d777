"""Single elements of arrays, and the truth of arrays: in programs as in eager code."""
import numpy as np
import pytest
from promise import exactly_same

import gluino as mx
from gluino import nd

SINGLE = {
    "shape": lambda x: (x[0].shape, x[0].ndim, x[0].size), "itself": lambda x: x[-1], "sum": lambda x: x[0] + x[1], "stack": lambda x: mx.np.stack([x[0], x[1]]),
    "elements": lambda x: [v * 2 for v in x], "summed": lambda x: sum(list(x)), "unpacked": lambda x: x[0] * x[1] if len(x) == 2 else x, "new axis": lambda x: x[None, 0],
    "behind": lambda x: x[0, None], "ellipsis": lambda x: x[..., 0], "nothing": lambda x: x[0][()], "all": lambda x: x[0][...], "again": lambda x: x[0][0],
    "length": lambda x: len(x[0]), "of a matrix": lambda x: x.reshape(-1, 1)[0, 0].shape, "transposed": lambda x: x[0].T, "of a row": lambda x: x.reshape(1, -1)[0][1] + 1,
    "by an array": lambda x: x[mx.np.array(1, dtype="int32")].shape, "broadcast": lambda x: (x[0] * x, x[0] + x.reshape(-1, 1)),
}


def _written(x):
    y = x.reshape(1, -1).copy()
    part = y[0, 1]
    part += 5
    z = y[0, 0]
    z[()] = 7
    return y, part, z


@pytest.mark.parametrize("make", [mx.np.array, nd.array], ids=["np", "nd"])
def test_a_single_element_has_no_axis(make):
    for f in [*SINGLE.values(), _written]:
        exactly_same(f, make([1.5, -2]), make([1.5, -2, 4]), make([7.0]))


def test_a_single_element_of_mx_nd_is_exported_with_its_axis(tmp_path):
    net = mx.gluon.nn.HybridLambda(lambda F, x: x[0] * 2 + x[-1])
    net.hybridize()
    assert net(nd.array([1, 2])).shape == (1,)
    net.export(str(tmp_path / "net"))
    loaded = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"])
    assert loaded(nd.array([3, 4, 5])).asnumpy().tolist() == [11]
    assert '"()"' not in (tmp_path / "net-symbol.json").read_text()


# ---- truth

TRUTHS = {"if": lambda x: x + 1 if x else x - 1, "bool": lambda x: bool(x), "not": lambda x: not x, "and": lambda x: x and x * 2, "or": lambda x: x or x * 2,
          "any": lambda x: any([x, x]), "all": lambda x: all([x]), "while": lambda x: _while(x), "int": lambda x: int(x), "float": lambda x: float(x),
          "compared": lambda x: x * 2 if x > 0 else x, "equal": lambda x: x if x == x else -x, "index": lambda x: [1, 2, 3][x.astype("int32")]}


def _while(x):
    steps = 0
    while x and steps < 3:
        x, steps = x - 1, steps + 1
    return x, steps


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("make", [mx.np.array, nd.array], ids=["np", "nd"])
def test_the_truth_of_an_array(name, make):
    """There is none of several elements, and an empty array is false: which of them comes first must not matter."""
    empty, several = make(np.zeros((0,), "float32")), make([1.0, 2.0])
    one, zero = make([1.0]), make([0.0])
    for inputs in ((empty, one, several, zero), (one, empty, several), (several, zero, empty, one), (zero, several), (empty, several)):
        exactly_same(TRUTHS[name], *inputs)
