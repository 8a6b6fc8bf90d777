"""Arguments of every kind, numbers that vary, arguments that are changed, and calls that fail."""
import enum

import numpy as np
import pytest
from promise import plain
from promise_programs import expect_same, rows

from gluino import autograd, gluon, nd

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


@program
def enum_arg():

    class E(enum.Enum):
        A = 1
        B = 2
    return (lambda x, e: x if e is E.A else -x, lambda f: [plain(f(rows(), E.A)), plain(f(rows(), E.B)), plain(f(rows(), E.A))])


@program
def slice_args():
    return (lambda x, s: x[s], lambda f: [plain(f(rows(), slice(0, 1))), plain(f(rows(), slice(1, 2))), plain(f(rows(), (0, 1)))])


@program
def recursion():

    def g(x, n):
        return x if n == 0 else g(x * 1.1, n - 1)
    return (lambda x, n: g(x, n), lambda f: [plain(f(rows(), n)) for n in (1, 2, 3, 50, 2)])


@program
def list_or_array():
    return (lambda x: x[0] if isinstance(x, (list, tuple)) else x * 2, lambda f: [plain(f(rows())), plain(f([rows(), rows(1)])), plain(f((rows(1),)))])


@program
def kwargs_order():
    return (lambda x, **k: x * list(k.values())[0], lambda f: [plain(f(rows(), a=1, b=2)), plain(f(rows(), b=2, a=1)), plain(f(rows(), a=1.0, b=2))])


@program
def text_of_shape():
    return (lambda x: x * len(str(x.shape)), lambda f: [plain(f(nd.ones((k, 3)))) for k in (1, 10, 100, 1)])


@program
def dicts():
    return (lambda d: {k: v * 2 for k, v in d.items()}, lambda f: [plain(f({"a": rows(), "b": rows(1)})), plain(f({"b": rows(1), "a": rows()})), plain(f({"a": rows()}))])


@program
def bools():
    return (lambda x, t: x if t is True else -x, lambda f: [plain(f(rows(), v)) for v in (True, 1, False, 1.0, True)])


@program
def signed_zero():
    return (lambda x, a: x * 0 + (1.0 if str(a) == "0.0" else 2.0), lambda f: [plain(f(rows(), v)) for v in (0.0, -0.0, 0.0, -0.0, 1.0, -0.0)])


@program
def zero_product():
    return (lambda x, a: 1 / (x * x * 0 + 1) * a, lambda f: [str(np.signbit(f(rows(), v).asnumpy()).all()) for v in (0.0, -0.0, 0.0, -0.0, 1.0, -0.0)])


@program
def nan_arg():
    return (lambda x, a: x + 1 if a != a else x, lambda f: [plain(f(rows(), v)) for v in (float("nan"), 1.0, float("nan"), 2.0)])


@program
def big_int():
    return (lambda x, a: x * (a % 7), lambda f: [plain(f(rows(), 10 ** 30 + k)) for k in range(5)])


@program
def int_or_float():
    return (lambda x, a: x * (a / 2) + a // 2, lambda f: [plain(f(rows(), k)) for k in (1, 2, 3.0, 3, 2.0, 5)])


@program
def int_division():
    return (lambda x, a: x[:, :a] * a, lambda f: [plain(f(rows(), k)) for k in (1, 2, 3, 1, 2, 3)])


@program
def range_arg():

    def f(x, n):
        for i in range(n):
            x = x + i
        return x
    return (f, lambda f: [plain(f(rows(), k)) for k in (1, 2, 3, 1, 2, 3, 4, 5)])


@program
def power_numbers():
    return (lambda x, lr, t: x * (lr * (1 - 0.9 ** t) ** 0.5 / (1 - 0.99 ** t)), lambda f: [plain(f(rows(), 0.1 / k, k)) for k in range(1, 9)])


@program
def min_max():
    return (lambda x, a: x * max(a, 0.3) + min(a, 0.2), lambda f: [plain(f(rows(), k / 10)) for k in range(9)])


@program
def number_in_list():
    return (lambda x, a: sum([x * v for v in [a, a * 2]]), lambda f: [plain(f(rows(), k / 10)) for k in range(9)])


@program
def number_as_key():
    d = {0.1: 1, 0.2: 2}
    return (lambda x, a: x * d.get(a, 7), lambda f: [plain(f(rows(), k / 10)) for k in range(5)])


@program
def number_compare_chain():
    return (lambda x, a: x if 0.1 < a < 0.35 else -x, lambda f: [plain(f(rows(), k / 10)) for k in range(6)])


@program
def number_format():
    return (lambda x, a: (x * a, "%.2f" % a), lambda f: [plain(f(rows(), k / 10)) for k in range(6)])


@program
def number_shape():
    return (lambda x, n: nd.ones((n, 2)) * n, lambda f: [plain(f(rows(), k)) for k in (1, 2, 3, 4, 1)])


@program
def number_to_block():

    class N(gluon.HybridBlock):

        def hybrid_forward(s, F, x, a=1.0):
            return F.clip(x * a, -a, a)
    return (N(), lambda f: [plain(f(rows(), k / 10)) for k in range(6)])


@program
def number_kept():

    class N(gluon.HybridBlock):

        def __init__(s):
            super().__init__()
            s.a = 0

        def forward(s, x, a):
            s.a = s.a * 0.5 + a
            return x * s.a
    return (N(), lambda f: [plain(f(rows(), k / 10)) for k in range(6)])


@program
def number_closure():

    def f(x, a):
        g = lambda y: y * a + 1
        return g(g(x))
    return (f, lambda f: [plain(f(rows(), k / 10)) for k in range(6)])


@program
def number_assert():

    def f(x, a):
        assert a < 0.4, "too large"
        return x * a

    def drive(f):
        r = []
        for k in range(6):
            try:
                r.append(plain(f(rows(), k / 10)))
            except AssertionError as e:
                r.append(str(e))
        return r
    return (f, drive)


@program
def number_grad():

    def drive(f):
        r = []
        for k in range(6):
            x = rows()
            x.attach_grad()
            with autograd.record():
                y = f(x, k / 7)
            y.backward()
            r.append((plain(y), plain(x.grad)))
        return r
    return (lambda x, a: nd.tanh(x * a + x / (a + 1) - a), drive)


@program
def error_then_ok():
    st = {"n": 0}

    def f(x):
        st["n"] += 1
        if st["n"] % 2:
            raise RuntimeError("odd")
        return x * st["n"]

    def drive(f):
        r = []
        for k in range(6):
            try:
                r.append(plain(f(rows())))
            except RuntimeError as e:
                r.append(str(e))
        return r
    return (f, drive)


@program
def error_after_write():

    class N(gluon.HybridBlock):

        def __init__(s):
            super().__init__()
            s.n = 0

        def forward(s, x):
            s.n = s.n + 1
            if s.n == 2:
                raise RuntimeError("two")
            return x * s.n

    def drive(f):
        r = []
        for k in range(5):
            try:
                r.append(plain(f(rows())))
            except RuntimeError as e:
                r.append((str(e), f.n))
        return r
    return (N(), drive)


@program
def np_array_argument_changed():

    def f(x, a):
        a[0] += 1
        return x * float(a[0])
    a = np.zeros(2)
    return (f, lambda f: [plain(f(rows(), a)) for _ in range(4)] + [a.tolist()])


@program
def list_argument_changed():

    def f(x, l):
        l.append(x)
        return x * len(l)

    def drive(f):
        l = []
        return ([plain(f(rows(k), l)) for k in range(4)], len(l), plain(l))
    return (f, drive)


@program
def dict_argument_changed():

    def f(x, d):
        d["last"] = x * 2
        return x

    def drive(f):
        d = {}
        return ([plain(f(rows(k), d)) for k in range(4)], plain(d))
    return (f, drive)


@program
def object_argument_changed():

    class O:
        pass

    def f(x, o):
        o.last = x * 2
        return x

    def drive(f):
        o = O()
        r = []
        for k in range(4):
            r.append(plain(f(rows(k), o)))
            r.append(plain(o.last))
        return r
    return (f, drive)


@program
def in_place_arg():

    def f(x):
        x += 1
        x[0] = 5
        return x * 2

    def drive(f):
        r = []
        for k in range(3):
            a = rows(k)
            r.append(plain(f(a)))
            r.append(plain(a))
        return r
    return (f, drive)


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_modes_do_the_same(name):
    expect_same(PROGRAMS[name])
