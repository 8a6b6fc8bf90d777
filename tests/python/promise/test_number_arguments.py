"""Numbers as arguments of hybridized functions: inputs of the program where code only computes with them, decisions where it looks at them."""
import array
import copy
import ctypes
import decimal
import fractions
import itertools
import json
import math
import pickle
import statistics
import struct
import warnings

import numpy as np
import pytest

import gluino as mx

VALUES = [0.5, 0.25, 1e-7, 3.0, -2.5, 1 / 3, 0.1, 7.75]


def _programs():
    """(name, function of an array and a number); every way in which code can use a number."""
    kept = []

    def branches(x, a):
        return x * 2 if a > 0.3 else x - a

    def formats(x, a):
        return x * len(f"{a:.3f}") + a

    def changes(x, a):
        y = x * 1
        y *= a
        return y

    def keeps(x, a):
        kept.append(a)
        return x * a

    return {
        "sum": lambda x, a: x + a, "difference": lambda x, a: x - a, "product": lambda x, a: x * a, "quotient": lambda x, a: x / a,
        "sum of": lambda x, a: a + x, "difference of": lambda x, a: a - x, "product of": lambda x, a: a * x, "quotient of": lambda x, a: a / (x * x + 1),
        "momentum": lambda x, a: x * a + (1 - a) * x * x, "two": lambda x, a: x * (a + a * 2 - 0.5), "negative": lambda x, a: x * -a,
        "power": lambda x, a: (x * x + 1) ** a, "base": lambda x, a: (abs(a) + 1) ** x, "square": lambda x, a: x * a ** 2, "rest": lambda x, a: x % (a + 10),
        "compare": lambda x, a: (x > a) * x, "branch": branches, "float": lambda x, a: x * math.sqrt(abs(a)), "int": lambda x, a: x * int(a * 4),
        "text": formats, "is": lambda x, a: x * 2 if isinstance(a, float) else x * 3, "type": lambda x, a: x * 2 if type(a) is float else x * 3,
        "returned": lambda x, a: (x * a, a), "returned in": lambda x, a: {"y": x + a, "a": [a * 2]}, "kept": keeps, "in place": changes,
        "numpy": lambda x, a: x * float(np.float32(a)) + float(np.sqrt(np.abs(a))), "rounded": lambda x, a: x * round(a, 1), "floor": lambda x, a: x + math.floor(a),
        "method": lambda x, a: x * 2 if a.is_integer() else x, "hash": lambda x, a: x * {0.5: 1.0}.get(a, 3.0), "clip": lambda x, a: x.clip(-1, abs(a)),
        "truth": lambda x, a: x if a else x * 2, "divmod": lambda x, a: x * divmod(a, 0.3)[1], "division of numbers": lambda x, a: x * (1 / a),
        "element": lambda x, a: _assigned(x, a), "choice": lambda x, a: mx.np.where(x > 0, x, a) if hasattr(x, "as_nd_ndarray") else x * a,
        "full": lambda x, a: mx.nd.full((3, 5), a) if isinstance(a, int) else x * a, "list": lambda x, a: x * [a, 2 * a][1], "min": lambda x, a: x * min(a, 1),
    }


def _matched(x, a):
    match a:
        case 0.5:
            return x
        case float():
            return x * 2
    return x * 3


def _ways_past_the_operators():
    """Code of Python's library and of NumPy that wants the number itself, much of it in C."""
    return {
        "match": _matched, "struct": lambda x, a: x * struct.unpack("d", struct.pack("d", a))[0], "fraction": lambda x, a: x * float(fractions.Fraction(a)),
        "decimal": lambda x, a: x * float(decimal.Decimal(a)), "json": lambda x, a: (x, json.dumps({"a": a})), "ctypes": lambda x, a: x * ctypes.c_double(a).value,
        "array": lambda x, a: x * array.array("d", [a])[0], "pickle": lambda x, a: x * pickle.loads(pickle.dumps(a)), "copy": lambda x, a: x * copy.deepcopy([a])[0],
        "list of numbers": lambda x, a: x * float(np.asarray([a, a]).sum()), "times NumPy's": lambda x, a: x * float((np.ones(2) * a).sum()),
        "fsum": lambda x, a: x * math.fsum([a, 0.1]), "mean": lambda x, a: x * statistics.mean([a, 1.0]), "nested": lambda x, a: (x, (a, [a], {"k": a})),
    }


def _assigned(x, a):
    y = x * 2
    y[1] = a
    return y


def _plain(value):
    if isinstance(value, mx.nd.NDArray):
        return value.asnumpy()
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else (type(value), value)


def _same(a, b):
    if isinstance(a, np.ndarray):
        if a.dtype == np.float16:  # compiled code rounds to 16 bits where a value is stored, not after each operator
            return b.dtype == a.dtype and np.allclose(a, b, rtol=4e-3, atol=1e-3, equal_nan=True)
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return len(a) == len(b) and all(map(_same, a, b)) if isinstance(a, list) else a == b


def _array(space, dtype):
    numbers = np.random.RandomState(3).uniform(-2, 2, (3, 5))
    return (mx.np.array if space == "np" else mx.nd.array)(numbers, dtype=dtype)


def _run(function, *args, recorded):
    if not recorded:
        return _plain(function(*args))
    x = args[0].copy()
    x.attach_grad()
    with mx.autograd.record():
        out = function(x, *args[1:])
        first = out[0] if isinstance(out, tuple) else out["y"] if isinstance(out, dict) else out
    first.backward()
    return [_plain(out), x.grad.asnumpy()]


@pytest.mark.parametrize("name", _programs() | _ways_past_the_operators())
@pytest.mark.parametrize("space", ["nd", "np"])
def test_every_use_of_a_number_is_the_same_in_both_modes(name, space):
    programs = lambda: _programs() | _ways_past_the_operators()
    with warnings.catch_warnings():
        warnings.simplefilter("error" if name != "kept" else "ignore")
        for dtype, recorded in itertools.product(["float32", "float64", "float16", "int32"], [False, True]):
            if recorded and dtype == "int32":
                continue
            plain, compiled = programs()[name], mx.hybrid(programs()[name])
            x = _array(space, dtype)
            for a in VALUES + VALUES[::-1] + [2, 5, 1, 2**53 + 1] + VALUES:
                if name == "method" and isinstance(a, int):
                    continue
                try:
                    expected = _run(plain, x, a, recorded=recorded)
                except Exception as e:  # what is wrong in one mode is wrong in both
                    with pytest.raises(type(e)):
                        _run(compiled, x, a, recorded=recorded)
                    continue
                assert _same(_run(compiled, x, a, recorded=recorded), expected), (dtype, recorded, a)


@pytest.mark.parametrize("name", ["sum", "difference of", "product", "quotient", "momentum", "two"])
def test_a_number_that_is_only_computed_with_is_an_input(name):
    compiled = mx.hybrid(_programs()[name])
    for k in range(200):
        compiled(_array("nd", "float32"), 0.01 * k + 0.005)
    assert compiled.stats()["traces"] <= 3


def test_keywords_and_blocks():
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = mx.gluon.nn.Dense(3)

        def forward(self, x, temperature=1.0, shift=0):
            return self.dense(x) / temperature + shift

    net = Net()
    net.initialize()
    x = _array("nd", "float32")
    calls = [{"temperature": t, "shift": s} for t in VALUES for s in (0, 1, 2.5)] + [{"shift": 7}, {}, {"temperature": 2}]
    expected = [net(x, **c).asnumpy() for c in calls]
    net.hybridize()
    for _ in range(2):
        for c, e in zip(calls, expected):
            assert net(x, **c).asnumpy().tobytes() == e.tobytes(), c


def test_numbers_beside_each_other_and_from_two_threads():
    from concurrent.futures import ThreadPoolExecutor
    compiled = mx.hybrid(lambda x, a, b: (x * a + b, x if a < b else -x))
    x = _array("np", "float32")
    pairs = [(a, b) for a in VALUES for b in VALUES] * 3

    def check(pair):
        a, b = pair
        got, want = compiled(x, a, b), (x * a + b, x if a < b else -x)
        return all((g.asnumpy() == w.asnumpy()).all() for g, w in zip(got, want))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(check, pairs))


def test_an_exported_network_has_the_numbers_of_the_last_call(tmp_path):
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = mx.gluon.nn.Dense(3)

        def forward(self, x, temperature=1.0, unused=2.0):
            return self.dense(x) / temperature

    net = Net()
    net.initialize()
    net.hybridize()
    x = _array("nd", "float32")
    for t in (1.0, 2.0, 0.1, 0.3):
        y = net(x, t, t * 2)
    symbol, params = net.export(str(tmp_path / "net"))
    again = mx.gluon.SymbolBlock.imports(symbol, ["data"], params)
    assert again(x).asnumpy().tobytes() == y.asnumpy().tobytes()
