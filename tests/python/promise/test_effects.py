"""Programs that change what is outside: counters, containers, classes, generators, memory of their own."""
import collections
import contextlib
import dataclasses
import functools
import itertools
import operator
import queue
import random
import threading

import numpy as np
import pytest
from promise import plain
from promise_programs import calls, expect_same, rows

from gluino import nd

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


last_seen, calls_made = None, 0


@program
def try_except():

    def f(x):
        try:
            if x.sum().asscalar() > 0:
                raise ValueError
            return x * 2
        except ValueError:
            return x * 3
    return (f, calls)


@program
def context_state():
    log = []

    @contextlib.contextmanager
    def scope():
        log.append(1)
        yield
        log.pop()

    def f(x):
        with scope():
            return x * len(log)
    return (f, calls)


@program
def generator_use():

    def gen(x):
        for i in range(3):
            yield (x * i)
    return (lambda x: sum(gen(x), x), calls)


@program
def dict_counter():
    g = {"n": 0}

    def f(x):
        g["n"] += 1
        return x * g["n"]
    return (f, calls)


@program
def deque_state():
    q = collections.deque(maxlen=2)

    def f(x):
        q.append(x)
        return sum((q[i] for i in range(len(q))))
    return (f, calls)


@program
def nonlocal_var():
    n = 1

    def f(x):
        nonlocal n
        n *= 2
        return x * n
    return (f, calls)


@program
def np_interop():
    return (lambda x: nd.array(np.sort(x.asnumpy(), axis=1)) + x, calls)


@program
def property_counter():

    class C:
        k = 0

        @property
        def scale(s):
            s.k += 1
            return s.k
    c = C()
    return (lambda x: x * c.scale, calls)


@program
def lru_cached():

    @functools.lru_cache
    def g(n):
        return n * 2
    return (lambda x: x * g(x.shape[1]), calls)


@program
def iterator_global():
    it = itertools.count()
    return (lambda x: x * next(it), calls)


@program
def dataclass_state():

    @dataclasses.dataclass
    class S:
        v: float = 1.0
        h: object = None
    s = S()

    def f(x):
        s.v += 0.5
        s.h = x if s.h is None else s.h * 0.5 + x
        return x * s.v + s.h
    return (f, calls)


@program
def attr_on_function():

    def f(x):
        f.calls = getattr(f, "calls", 0) + 1
        return x * f.calls
    return (f, calls)


@program
def class_var():

    class C:
        n = 0

    def f(x):
        C.n += 1
        return x * C.n
    return (f, calls)


@program
def thread_local_state():
    tl = threading.local()
    tl.n = 0

    def f(x):
        tl.n += 1
        return x * tl.n
    return (f, calls)


@program
def operator_rotation():
    fs = [operator.add, operator.mul, operator.sub]
    k = [0]

    def f(x):
        k[0] = (k[0] + 1) % 3
        return fs[k[0]](x, x + 1)
    return (f, calls)


@program
def set_state():
    s = {3}

    def f(x):
        s.add(len(s))
        return x * sum(s)
    return (f, calls)


@program
def default_list():

    def outer(k=[1]):

        def f(x):
            k[0] += 1
            return x * k[0]
        return f
    return (outer(), calls)


@program
def default_arg_mutable():

    def f(x, k=[1]):
        k[0] += 1
        return x * k[0]
    return (f, calls)


@program
def while_value():

    def f(x):
        while x.sum().asscalar() < 10:
            x = x + 1
        return x
    return (f, calls)


@program
def maybe_none():
    return (lambda x: None if x[0, 0].asscalar() > -0.45 else x, calls)


@program
def store_global():

    def f(x):
        global last_seen
        last_seen = x * 2
        return x + 1

    def drive(f):
        r = []
        for k in range(4):
            r.append(plain(f(rows(k))))
            r.append(plain(last_seen))
        return r
    return (f, drive)


@program
def count_global():
    global calls_made
    calls_made = 0

    def f(x):
        global calls_made
        calls_made += 1
        return x * calls_made
    return (f, calls)


@program
def store_nonlocal():
    last = None

    def f(x):
        nonlocal last
        last = x * 2
        return x + 1

    def drive(f):
        r = []
        for k in range(4):
            r.append(plain(f(rows(k))))
            r.append(plain(last))
        return r
    return (f, drive)


@program
def slots_counter():

    class S:
        __slots__ = ("v",)
    s = S()
    s.v = 1.0

    def f(x):
        s.v += 1
        return x * s.v
    return (f, calls)


@program
def bound_append():
    q = []
    add = q.append

    def f(x):
        add(1)
        return x * len(q)
    return (f, calls)


@program
def bound_pop():
    q = collections.deque([1, 2, 3, 4, 5, 6, 7, 8])
    take = q.popleft
    return (lambda x: x * take(), calls)


@program
def rng_object():
    r = random.Random(3)
    return (lambda x: x * r.random(), calls)


@program
def np_rng():
    r = np.random.RandomState(3)
    return (lambda x: x * float(r.rand()), calls)


@program
def np_rng2():

    class C:
        pass
    c = C()
    c.r = np.random.default_rng(3)
    return (lambda x: x * float(c.r.random()), calls)


@program
def generator_captured():
    g = (i for i in range(100))
    return (lambda x: x * next(g), calls)


@program
def eval_use():
    k = 1

    def f(x):
        nonlocal k
        k += 1
        return eval("x*k", {"x": x, "k": k})
    return (f, calls)


@program
def queue_obj():
    q = queue.Queue()
    for i in range(50):
        q.put(i)
    return (lambda x: x * q.get(), calls)


@program
def callable_object():

    class O:
        n = 0

        def __call__(s, x):
            s.n += 1
            return x * s.n
    o = O()
    return (lambda x: o(x), calls)


@program
def list_sort_inplace():
    l = [3, 1, 2]

    def f(x):
        l.append(len(l))
        l.sort(reverse=True)
        return x * l[0]
    return (f, calls)


@program
def dict_pop():
    d = {i: i for i in range(20)}
    return (lambda x: x * d.popitem()[1], calls)


@program
def print_count():

    class W:
        n = 0

        def write(s, t):
            s.n += 1

        def flush(s):
            pass
    w = W()

    def f(x):
        print("a", file=w)
        return x

    def drive(f):
        r = [plain(f(rows())) for k in range(4)]
        return (r, w.n)
    return (f, drive)


@program
def named_tuple_state():
    P = collections.namedtuple("P", "a b")
    st = [P(1, 2)]

    def f(x):
        st[0] = st[0]._replace(a=st[0].a + 1)
        return x * st[0].a
    return (f, calls)


@program
def bool_of_array():

    def f(x):
        return x if x.sum() > 0 else -x
    return (f, calls)


@program
def iterate_array():

    def f(x):
        s = 0
        for row in x:
            s = s + row * 2
        return s
    return (f, calls)


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_modes_do_the_same(name):
    expect_same(PROGRAMS[name])
