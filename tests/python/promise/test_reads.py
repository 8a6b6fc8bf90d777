"""Programs that read what is outside, which changes between calls: variables, attributes, modules, files."""
import array
import collections
import contextvars
import datetime
import functools
import os
import sys
import tempfile
import types
import weakref

import numpy as np
import pytest
from promise_programs import changing, expect_same

from gluino import nd

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def helper(x):
    return x * 2


@program
def environ():

    def put(k):
        os.environ["ATK"] = str(k)
    return changing(range(4), put, lambda x: x * int(os.environ["ATK"]))


@program
def module_attr():
    m = types.ModuleType("m")
    sys.modules["mymod"] = m

    def put(k):
        m.v = k * 1.5

    def f(x):
        import mymod
        return x * mymod.v
    return changing(range(4), put, f)


@program
def from_import():
    m = types.ModuleType("m")
    sys.modules["mymod"] = m

    def put(k):
        m.v = k * 1.5

    def f(x):
        from mymod import v
        return x * v
    return changing(range(4), put, f)


@program
def numpy_captured():
    w = np.ones(3, "f4")

    def put(k):
        w[:] = k
    return changing(range(4), put, lambda x: x * nd.array(w))


@program
def view_captured():
    w = nd.ones((4, 3))

    def put(k):
        w[1] = k
    return changing(range(4), put, lambda x: x * w[1])


@program
def list_grows():
    ws = [nd.ones((3,))]

    def put(k):
        ws.append(nd.ones((3,)) * k)

    def f(x):
        for w in ws:
            x = x + w
        return x
    return changing(range(4), put, f)


@program
def dict_replace():
    ws = {}

    def put(k):
        ws["a"] = nd.ones((3,)) * k
    return changing(range(4), put, lambda x: x * ws["a"])


@program
def lambda_in_dict():
    d = {}

    def put(k):
        d["f"] = (lambda x: x * 2) if k % 2 else lambda x: x * 3
    return changing(range(4), put, lambda x: d["f"](x))


@program
def method_patch():

    class H:

        def g(self, x):
            return x * 2
    h = H()

    def put(k):
        if k == 1:
            h.g = lambda x: x * 5
        if k == 2:
            del h.g
            H.g = lambda s, x: x * 7
    return changing(range(4), put, lambda x: h.g(x))


@program
def hasattr_test():

    class O:
        pass
    o = O()

    def put(k):
        if k % 2:
            o.z = 3
        elif k:
            del o.z
    return changing(range(4), put, lambda x: x * o.z if hasattr(o, "z") else x)


@program
def slots_object():

    class S:
        __slots__ = ("v", "w")
    s = S()
    s.v = 1.0

    def put(k):
        s.v = k * 0.5
    return changing(range(5), put, lambda x: x * s.v)


@program
def context_var():
    v = contextvars.ContextVar("v", default=1)

    def put(k):
        v.set(k)
    return changing(range(4), put, lambda x: x * v.get())


@program
def array_module():
    a = array.array("d", [1.0])

    def put(k):
        a[0] = k
    return changing(range(4), put, lambda x: x * a[0])


@program
def globals_use():

    def put(k):
        globals()["GG"] = k
    return changing(range(4), put, lambda x: x * globals()["GG"])


@program
def late_global():
    globals().pop("LATE", None)

    def put(k):
        if k == 2:
            globals()["LATE"] = 7

    def f(x):
        try:
            return x * LATE
        except NameError:
            return x
    return changing(range(4), put, f)


@program
def file_read():
    p = tempfile.mktemp()

    def put(k):
        open(p, "w").write(str(k))
    return changing(range(4), put, lambda x: x * float(open(p).read()))


@program
def weak():

    class O:
        v = 0
    o = O()
    w = weakref.ref(o)

    def put(k):
        o.v = k
    f, d = changing(range(4), put, lambda x: x * w().v)
    f.__dict__["keep"] = o
    return (f, d)


@program
def user_dict():
    d = collections.UserDict(a=1)

    def put(k):
        d["a"] = k
    return changing(range(4), put, lambda x: x * d["a"])


@program
def chainmap():
    b = {"a": 1}
    c = collections.ChainMap({}, b)

    def put(k):
        b["a"] = k
    return changing(range(4), put, lambda x: x * c["a"])


@program
def descriptor():

    class D:

        def __get__(s, o, t):
            return K["v"]
    K = {"v": 1}

    class O:
        d = D()
    o = O()

    def put(k):
        K["v"] = k
    return changing(range(4), put, lambda x: x * o.d)


@program
def getattr_dynamic():

    class O:

        def __getattr__(s, n):
            return V["k"]
    V = {"k": 1}
    o = O()

    def put(k):
        V["k"] = k
    return changing(range(4), put, lambda x: x * o.anything)


@program
def cached_prop():

    class O:
        base = 2

        @functools.cached_property
        def v(s):
            return s.base * 3
    o = O()

    def put(k):
        if k == 2:
            o.__dict__.pop("v", None)
            o.base = 5
    return changing(range(4), put, lambda x: x * o.v)


@program
def redefine_helper():

    def put(k):
        if k == 2:
            globals()["helper"] = lambda x: x * 9
        if k == 0:
            globals()["helper"] = lambda x: x * 2
    return changing(range(4), put, lambda x: helper(x))


@program
def module_function_patched():
    m = types.ModuleType("mm")
    m.g = lambda x: x * 2

    def put(k):
        if k == 2:
            m.g = lambda x: x * 9
    return changing(range(4), put, lambda x: m.g(x))


@program
def stdlib_function_patched():
    import calendar
    calendar.zz = lambda: 3

    def put(k):
        calendar.zz = lambda: k
    return changing(range(4), put, lambda x: x * calendar.zz())


@program
def datetime_use():
    t = [datetime.date(2020, 1, 1)]

    def put(k):
        t[0] = datetime.date(2020, 1, 1 + k)
    return changing(range(4), put, lambda x: x * t[0].day)


@program
def shape_of_captured():
    w = [nd.ones((1, 3))]

    def put(k):
        w[0] = nd.ones((k + 1, 3))
    return changing(range(4), put, lambda x: x * w[0].shape[0])


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_modes_do_the_same(name):
    expect_same(PROGRAMS[name])
