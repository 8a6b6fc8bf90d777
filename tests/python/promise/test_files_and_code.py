"""Programs that look at files or write them, whose code is exchanged under them, and that change parameters: at every call, as eager code does."""
import contextvars
import functools
import itertools
import os
import pathlib
import sys
import tempfile
import types

import numpy as np
import pytest
from promise import Forward, plain
from promise_programs import expect_same, rows

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn

FOLDER = tempfile.TemporaryDirectory()
PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def in_folder():
    return pathlib.Path(tempfile.mkdtemp(dir=FOLDER.name))


def watching(path, f, before=lambda path, k: path.unlink(missing_ok=True)):
    """before(path, k) is done before each call; whether there is such a file after it is seen."""
    def drive(function):
        seen = []
        for k in (0, 1, 1, 2, 2, 0):
            before(path, k)
            seen.append((plain(function(rows(k))), path.exists()))
        return seen
    return f, drive


# ---- files

@program
def a_file_exists():
    path = in_folder() / "f"
    return watching(path, lambda x: x * (2 if path.exists() else 3), lambda path, k: path.touch() if k else path.unlink(missing_ok=True))


@program
def a_file_is_read():
    path = in_folder() / "f"
    return watching(path, lambda x: x * float(path.read_text()), lambda path, k: path.write_text(str(k)))


@program
def a_file_is_written():
    path = in_folder() / "f"
    return watching(path, lambda x: (path.write_text("a"), x)[1])


@program
def an_array_is_saved():
    path = in_folder() / "f"
    return watching(path, lambda x: (nd.save(str(path), x), x)[1])


@program
def an_array_is_saved_by_numpy():
    path = in_folder() / "f.npy"
    return watching(path, lambda x: (np.save(str(path), x.asnumpy()), x)[1])


@program
def an_array_is_dumped():
    path = in_folder() / "f"
    return watching(path, lambda x: (x.asnumpy().tofile(str(path)), x)[1])


@program
def an_array_is_loaded():
    path = in_folder() / "f"
    return watching(path, lambda x: x * nd.load(str(path))[0], lambda path, k: nd.save(str(path), nd.array([k])))


@program
def parameters_are_saved():
    net, path = Forward(lambda self, x: (self.layer.save_parameters(str(path)), self.layer(x))[1]), in_folder() / "f"
    net.layer = nn.Dense(2, in_units=3)
    return watching(path, net)


@program
def parameters_are_loaded():
    net, path, other = Forward(lambda self, x: (self.layer.load_parameters(str(path)), self.layer(x))[1]), in_folder() / "f", nn.Dense(2, in_units=3)
    net.layer = nn.Dense(2, in_units=3)
    other.initialize()

    def before(path, k):
        other.weight.set_data(nd.full((2, 3), k))
        other.save_parameters(str(path))
    return watching(path, net, before)


# ---- code

def exchanged(f, *changes):
    def drive(function):
        seen = []
        for change in changes:
            seen.append(plain(function(rows())))
            change()
            seen.append(plain(function(rows())))
        return seen
    return f, drive


@program
def code_that_is_edited():
    def scaled(x):
        return x * 2

    def other(x):
        return x * 3
    return exchanged(lambda x: scaled(x), lambda: setattr(scaled, "__code__", other.__code__))


@program
def a_forward_that_is_edited():
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return self.scaled(x) + 1

        def scaled(self, x):
            return x * 2

    def other(self, x):
        return x * 5
    return exchanged(Net(), lambda: setattr(Net.scaled, "__code__", other.__code__), lambda: setattr(Net.forward, "__code__", other.__code__))


@program
def defaults_that_are_exchanged():
    def scaled(x, by=2, *, more=1):
        return x * by + more
    return exchanged(lambda x: scaled(x), lambda: setattr(scaled, "__defaults__", (7,)), lambda: scaled.__kwdefaults__.update(more=4),
                     lambda: setattr(scaled, "__kwdefaults__", {"more": 9}))


@program
def a_module_that_is_exchanged():
    def module(scale):
        made = types.ModuleType("gluino_test_scales")
        made.scale = scale
        sys.modules["gluino_test_scales"] = made

    def f(x):
        import gluino_test_scales
        return x * gluino_test_scales.scale
    module(2)
    return exchanged(f, lambda: module(3), lambda: setattr(sys.modules["gluino_test_scales"], "scale", 5))


@program
def a_partial_method():
    class Net(gluon.HybridBlock):
        scale = 2

        def _scaled(self, x, by):
            return x * by * self.scale
        forward = functools.partialmethod(_scaled, by=3)
    return exchanged(Net(), lambda: setattr(Net, "scale", 5))


@program
def a_cached_property():
    class Net(gluon.HybridBlock):
        scale = 2

        @functools.cached_property
        def twice(self):
            return self.scale * 2

        def forward(self, x):
            return x * self.twice
    net = Net()
    return exchanged(net, lambda: setattr(Net, "scale", 5), lambda: delattr(net, "twice"))


# ---- state

@program
def a_context_variable_is_set():
    calls = contextvars.ContextVar("calls")
    calls.set(0)

    def f(x):
        calls.set(calls.get() + 1)
        return x * calls.get()
    return f, lambda function: ([plain(function(rows(k))) for k in range(4)], calls.get())


@program
def an_iterator_in_a_dictionary():
    held = {"numbers": itertools.cycle([1, 2, 3])}
    return lambda x: x * next(held["numbers"]), lambda function: [plain(function(rows())) for _ in range(7)]


@program
def objects_in_an_array():
    held = np.array([{"scale": 1}], dtype=object)
    return exchanged(lambda x: x * held[0]["scale"], lambda: held[0].update(scale=3), lambda: held.__setitem__(0, {"scale": 4}))


@program
def an_object_known_by_its_number():
    one, other = [1], [1]
    number = id(other)
    return lambda x, o: x * (2 if id(o) == number else 3), lambda function: [plain(function(rows(), o)) for o in (one, other, one, other)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_modes_do_the_same(name):
    before = os.getcwd()
    expect_same(PROGRAMS[name])
    assert os.getcwd() == before


# ---- parameters that are changed by the code that uses them

def _cast(net, x):
    net.layer.cast("float64")
    return net.layer(x.astype("float64"))


CHANGES = {
    "cast": _cast, "reset_ctx": lambda net, x: (net.collect_params().reset_ctx(mx.cpu(0)), net.layer(x))[1],
    "initialize": lambda net, x: (net.initialize(mx.init.Constant(3), force_reinit=True), net.layer(x))[1],
    "grad_req": lambda net, x: (setattr(net.layer.weight, "grad_req", "add"), net.layer(x))[1],
    "after its use": lambda net, x: (net.layer(x), setattr(net.layer.weight, "grad_req", "add"))[0],
    "initialize after its use": lambda net, x: (net.layer(x), net.initialize(mx.init.Constant(3), force_reinit=True))[0],
    "zero_grad": lambda net, x: (net.layer(x), net.layer.weight.zero_grad())[0],
    "gradient": lambda net, x: net.layer(x) + net.layer.weight.grad(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", CHANGES)
def test_parameters_are_changed_inside(change):
    answers = []
    for flags in (None, {}, {"verify": True}):
        net = Forward(lambda self, x: CHANGES[change](self, x))
        net.layer = nn.Dense(1, in_units=1, weight_initializer="ones")
        net.initialize()
        if flags is not None:
            net.hybridize(**flags)
        seen = []
        for k in range(4):
            with autograd.record():
                y = net(nd.full((1, 1), k + 1))
            y.backward()
            weight = net.layer.weight
            seen.append((plain(y), plain(weight.data()), plain(weight.grad()), str(weight.dtype), weight.grad_req))
        answers.append(seen)
    assert answers[1] == answers[0] and answers[2] == answers[0]


@pytest.mark.parametrize("name", ["name", "list_arguments", "attr", "tojson", "eval", "asnumpy", "copyto", "tostype", "stype", "wait_to_write", "no_such_thing"])
def test_attributes_of_what_is_traced_are_those_of_arrays(name):
    for make in (nd.array, mx.np.array):
        for f in (lambda x: x * (2 if hasattr(x, name) else 3), lambda x: x * (2 if getattr(x, name, None) is None else 3)):
            compiled, x = mx.hybrid(f), make([1.0, 2.0])
            for _ in range(2):
                assert plain(compiled(x)) == plain(f(x))
