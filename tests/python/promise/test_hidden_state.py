"""Programs whose state stands where nothing in their own code shows it: behind objects, in classes, in objects of C code, in the system."""
import collections
import ctypes
import decimal
import functools
import gc
import hashlib
import io
import operator
import os
import queue
import random
import threading
import types
import weakref

import pytest
from promise_programs import calls, changing, expect_same

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def counting(step):
    """A function that multiplies by step(), which gives another number at every call."""
    return (lambda x: x * step(), calls)


def counter():
    """A function with a variable of its own."""
    count = [0]

    def step():
        count[0] += 1
        return count[0]
    return step


class Counter:
    total = 0

    def __init__(self):
        self.count = 0

    def step(self):
        self.count += 1
        return self.count


# ---- functions that are reached through objects


@program
def function_in_a_namespace():
    space = types.SimpleNamespace(step=counter())
    return (lambda x: x * space.step(), calls)


@program
def function_in_an_object():
    holder = Counter()
    holder.go = counter()
    return (lambda x: x * holder.go(), calls)


@program
def object_in_objects():
    outer = types.SimpleNamespace(inner=types.SimpleNamespace(counter=Counter()))
    return (lambda x: x * outer.inner.counter.step(), calls)


@program
def objects_in_a_list():
    held = [Counter(), Counter()]
    return (lambda x: x * sum(c.step() for c in held), calls)


@program
def method_by_its_name():
    held, step = Counter(), operator.methodcaller("step")
    return counting(lambda: step(held))


@program
def iterator_behind_a_function():
    numbers = iter(range(100))
    space = types.SimpleNamespace(time=lambda: next(numbers))
    return (lambda x: x * space.time(), calls)


@program
def one_function_for_each_type():
    step = counter()

    @functools.singledispatch
    def f(value):
        return 1

    @f.register(int)
    def _(value):
        return step() * value
    return counting(lambda: f(2))


# ---- functions that remember


@program
def remembered_with_an_effect():
    step = counter()

    @functools.lru_cache(None)
    def f(k):
        return step()
    return counting(lambda: f(1) + step())


@program
def remembered_and_forgotten():
    number = [2]

    @functools.lru_cache(None)
    def f():
        return number[0]

    def put(k):
        number[0] = k
        f.cache_clear()
    return changing(range(4), put, lambda x: x * f())


# ---- classes


@program
def class_that_counts_its_objects():
    class Made:
        total = 0

        def __init__(self):
            Made.total += 1
    return counting(lambda: Made() and Made.total)


@program
def class_method():
    class Stepper:
        count = 0

        @classmethod
        def step(cls):
            cls.count += 1
            return cls.count
    return counting(lambda: Stepper.step())


@program
def static_method():
    class Stepper:
        count = [0]

        @staticmethod
        def step():
            Stepper.count[0] += 1
            return Stepper.count[0]
    return counting(lambda: Stepper.step())


@program
def context_of_a_class():
    class Context:
        count = 0

        def __enter__(self):
            Context.count += 1
            return Context.count

        def __exit__(self, *_):
            pass

    def f(x):
        with Context() as k:
            return x * k
    return f, calls


@program
def iteration_of_a_class():
    class Numbers:
        count = [0]

        def __iter__(self):
            Numbers.count[0] += 1
            return iter(Numbers.count)
    return counting(lambda: sum(Numbers()))


@program
def metaclass():
    class Meta(type):
        k = 1

    class A(metaclass=Meta):
        pass
    return changing(range(4), lambda k: setattr(Meta, "k", k), lambda x: x * A.k)


@program
def class_of_a_number():
    class Number(int):
        extra = 1
    number = Number(3)
    return changing(range(4), lambda k: setattr(Number, "extra", k), lambda x: x * int(number) * number.extra)


@program
def list_with_attributes():
    class Weighted(list):
        def total(self):
            return sum(self) * self.k
    held = Weighted([1, 2])
    return changing(range(4), lambda k: setattr(held, "k", k), lambda x: x * held.total())


@program
def dictionary_that_counts_what_it_lacks():
    class Missing(dict):
        count = 0

        def __missing__(self, key):
            self.count += 1
            return self.count
    held = Missing()
    return counting(lambda: held["q"])


# ---- objects of C code


@program
def text_in_memory():
    text = io.StringIO()

    def f(x):
        text.write("a")
        return x * len(text.getvalue())
    return f, calls


@program
def bytes_in_memory():
    held = io.BytesIO(bytes(range(50)))
    return counting(lambda: held.read(1)[0])


@program
def simple_queue():
    held = queue.SimpleQueue()
    for k in range(50):
        held.put(k)
    return counting(lambda: held.get())


@program
def hashed():
    held = hashlib.md5()

    def step():
        held.update(b"a")
        return held.digest()[0]
    return counting(step)


@program
def ordered_dictionary():
    held = collections.OrderedDict(a=1, b=2, c=3)

    def step():
        held.move_to_end(next(iter(held)))
        return next(iter(held.values()))
    return counting(step)


@program
def counter_of_things():
    held = collections.Counter()

    def step():
        held["a"] += 1
        return held["a"] + sum(held.values()) + len(held)
    return counting(step)


@program
def dictionary_with_defaults():
    held = collections.defaultdict(list)

    def step():
        held["a"].append(1)
        return len(held["a"])
    return counting(step)


@program
def weak_reference():
    held = Counter()
    reference = weakref.ref(held)
    return changing(range(4), lambda k: setattr(held, "count", k), lambda x: x * reference().count)


@program
def view_of_a_dictionary():
    held = {"a": 0}
    view = types.MappingProxyType(held)
    return changing(range(4), lambda k: held.update(a=k), lambda x: x * view["a"])


@program
def values_of_a_dictionary():
    held = {"a": 0}
    view = held.values()
    return changing(range(4), lambda k: held.update(a=k), lambda x: x * sum(view))


@program
def view_of_bytes():
    held = bytearray(1)
    view = memoryview(held)
    return changing(range(4), lambda k: held.__setitem__(0, k), lambda x: x * view[0])


@program
def number_of_c():
    held = ctypes.c_int(0)
    return changing(range(4), lambda k: setattr(held, "value", k), lambda x: x * held.value)


@program
def generator_of_random_numbers():
    held = types.SimpleNamespace(random=random.Random(4))
    return (lambda x: x * held.random.random(), calls)


# ---- the system


@program
def files_that_are_there(folder="/"):
    path = f"/tmp/gluino_hidden_state_{os.getpid()}"

    def put(k):
        if k % 2:
            open(path, "w").close()
        elif os.path.exists(path):
            os.remove(path)
    return changing([0, 1, 1, 2, 2], put, lambda x: x * (2 if os.path.exists(path) else 3))


@program
def folder():
    here = os.getcwd()
    return changing(["/", "/usr", "/usr", here], os.chdir, lambda x: x * len(os.getcwd()))


@program
def name_of_the_thread():
    def put(k):
        threading.current_thread().name = "x" * k
    return changing([1, 2, 2, 10], put, lambda x: x * len(threading.current_thread().name))


@program
def precision_of_decimals():
    def put(k):
        decimal.getcontext().prec = k
    return changing([5, 9, 9, 28], put, lambda x: x * decimal.getcontext().prec)


@program
def collector_of_garbage():
    def put(k):
        (gc.enable if k else gc.disable)()
    return changing([1, 0, 0, 1], put, lambda x: x * (2 if gc.isenabled() else 3))


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_modes_do_the_same(name):
    expect_same(PROGRAMS[name])


def test_containers_are_put_back_as_they_were():
    """What a trace that is given up has done to them."""
    from gluino._tracing.snapshot import snapshot
    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    held = [collections.Counter(a=2), ordered, collections.defaultdict(list, a=[1]), [1, 2], {3}, collections.deque([4], maxlen=2)]
    before = [repr(c) for c in held]
    put_back = snapshot([], held)
    held[0]["a"] += 1
    ordered.move_to_end("b")
    held[2]["b"].append(1)
    held[3].append(3)
    held[4].add(4)
    held[5].append(5)
    put_back()
    assert [repr(c) for c in held] == before


# ---- what does not stand in the way


def _explain(f):
    import gluino as mx
    net = mx.hybrid(f)
    for _ in range(3):
        net(mx.nd.ones((2, 3)))
    return net


def test_pure_code_of_pythons_own_is_compiled(recwarn):
    import copy
    import math
    import re
    import warnings
    lock, pattern, size = threading.Lock(), re.compile("a+"), functools.lru_cache(None)(lambda k: k * 2)

    def f(x):
        with lock:
            pass
        warnings.warn_explicit
        k = math.sqrt(4) + len(pattern.findall("baab")) + size(3) + sum(copy.copy([1, 2])) + functools.reduce(operator.add, [1, 2])
        return x * k * len(os.path.join("a", "b"))
    _explain(f)
    assert not [w for w in recwarn if "operator by operator" in str(w.message)]
