"""What is hybridized may be a method, a partial function, an object that is called: what these hold is seen as what a closure holds."""
import collections
import contextvars
import functools
import itertools
import operator

import pytest
from promise import plain
from promise_programs import calls, rows

import gluino as mx
from gluino import gluon, nd

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


class Counter:
    def __init__(self):
        self.n, self.scale = 0, 1.0

    def step(self, x):
        self.n += 1
        return x * self.n

    def read(self, x):
        return x * self.scale

    def __call__(self, x):
        self.n += 2
        return x * self.n

    @staticmethod
    def double(x):
        return x * 2

    @classmethod
    def named(cls, x):
        return x + len(cls.__name__)


class Slots:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0

    def step(self, x):
        self.n += 1
        return x * self.n


class Derived(Counter):
    def step(self, x):
        return super().step(x) * 2


@program
def a_method():
    return Counter().step


@program
def a_method_that_is_inherited():
    return Derived().step


@program
def a_method_of_slots():
    return Slots().step


@program
def an_object():
    return Counter()


@program
def a_static_method():
    return Counter.double


@program
def a_class_method():
    return Counter.named


@program
def an_object_around_a_network():
    class Wrap:
        def __init__(self):
            self.net, self.k = gluon.nn.Dense(2, in_units=3), 0
            self.net.initialize(mx.init.One())

        def __call__(self, x):
            self.k += 1
            return self.net(x) * self.k
    return Wrap()


@program
def a_partial_function():
    return functools.partial(lambda a, x, c=1: a * x + c, 3.0, c=rows(1))


@program
def a_partial_function_with_state():
    def f(state, x):
        state["n"] = state.get("n", 0) + 1
        return x * state["n"]
    return functools.partial(f, {})


@program
def a_partial_function_with_state_by_name():
    def f(x, state=None):
        state.append(1)
        return x * len(state)
    return functools.partial(f, state=[])


@program
def a_partial_method():
    return functools.partial(Counter().step)


@program
def a_method_in_a_closure():
    method = Counter().step
    return lambda x: method(x)


@program
def methods_in_a_list():
    counter = Counter()
    both = [counter.step, counter]
    return lambda x: both[0](x) + both[1](x)


@program
def a_partial_method_in_a_dictionary():
    table = {"a": functools.partial(Counter().step)}
    return lambda x: table["a"](x)


@program
def a_method_of_a_list():
    kept = []
    add, count = kept.append, kept.__len__

    def f(x):
        add(1)
        return x * count()
    return f


@program
def a_caller_of_a_method():
    counter, call = Counter(), operator.methodcaller("step", rows())
    return lambda x: call(counter) + x


@program
def an_iterator():
    numbers = itertools.count(1)
    return lambda x: x * next(numbers)


@program
def a_context_variable():
    variable = contextvars.ContextVar("a", default=0)

    def f(x):
        variable.set(variable.get() + 1)
        return x * variable.get()
    return f


@program
def a_context_variable_without_a_value():
    variable = contextvars.ContextVar("b")

    def f(x):
        variable.set(variable.get(5) + 1)
        return x * variable.get()
    return f


@program
def a_queue():
    waiting = collections.deque(maxlen=2)

    def f(x):
        waiting.append(x * 1)
        return sum(waiting, 0)
    return f


@program
def a_function_that_gives_values_one_by_one():
    def f(x):
        for k in range(3):
            yield x * k
    return lambda x: list(f(x))


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_does_the_same(name):
    assert calls(mx.hybrid(PROGRAMS[name]())) == calls(PROGRAMS[name]())


@pytest.mark.parametrize("hold", [lambda c: c.read, lambda c: functools.partial(Counter.read, c), lambda c: functools.partial(c.read), lambda c: (lambda x, m=c.read: m(x)),
                                  lambda c: (lambda x: operator.methodcaller("read", x)(c))], ids=range(5))
def test_what_it_reads_may_change_between_calls(hold):
    seen = []
    for wrap in (lambda f: f, mx.hybrid):
        counter = Counter()
        f = wrap(hold(counter))
        found = []
        for scale in (1.0, 2.0, 2.0, 1.0, 3.0, nd.ones((3,)), 2.5):
            counter.scale = scale
            found.append(plain(f(rows())))
        seen.append(found)
    assert seen[0] == seen[1]
