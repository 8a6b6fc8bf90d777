"""Which object is which, what stands for a key, and other things that programs ask of objects besides their values."""
import functools
import threading

import numpy as np
import pytest
from promise import Forward, Options, both, plain
from promise_programs import calls, expect_same, rows

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


# ---- results that are one object, or the caller's


@program
def one_array_twice():
    def f(x):
        y = x * 2
        return y, y, [y]
    return f, lambda f: [(lambda r: (r[0] is r[1], r[2][0] is r[0]))(f(rows(k))) for k in range(3)]


@program
def one_list_twice():
    def f(x):
        y = [x * 2]
        return y, y, {"y": y}
    return f, lambda f: [(lambda r: (r[0] is r[1], r[2]["y"] is r[0]))(f(rows(k))) for k in range(3)]


@program
def arguments_are_returned():
    def drive(f):
        seen = []
        for k in range(3):
            x, more = rows(k), [rows(1), {"a": rows(2)}]
            r = f(x, more)
            seen.append((r[0] is x, r[1] is more, r[1][0] is more[0], r[2] is more[1]["a"], r[3] is x))
        return seen
    return lambda x, more: (x, more, more[1]["a"], x.astype("float32", copy=False), x + more[0]), drive


@program
def what_is_updated_is_returned():
    def f(x):
        x += 1
        return x

    def drive(f):
        seen = []
        for k in range(3):
            x = rows(k)
            seen.append((f(x) is x, plain(x)))
        return seen
    return f, drive


@program
def an_array_from_outside_is_returned():
    held = [nd.ones((3,))]

    def drive(f):
        seen = []
        for k in range(4):
            seen.append((f(rows(k))[1] is held[0], plain(held[0])))
            if k == 1:
                held[0] = nd.zeros((3,))
        return seen
    return lambda x: (x * held[0], held[0]), drive


@program
def attributes_keep_results_and_arguments():
    def forward(self, x):
        self.before, self.last = self.last, x * 2
        self.given = x
        return self.last

    def drive(net):
        seen = []
        for k in range(4):
            x, last = rows(k), net.last
            y = net(x)
            seen.append((y is net.last, net.given is x, net.before is last, plain(y)))
        return seen
    return Forward(forward, last=None, before=None, given=None), drive


@program
def one_array_given_twice():
    def f(x, y):
        return x * (2 if x is y else 3)

    def drive(f):
        x, y = rows(), rows(1)
        return [plain(f(*arguments)) for arguments in ((x, x), (x, y), (y, y), (x, y), (x, x))]
    return f, drive


@program
def one_list_given_twice():
    def f(x, y):
        return x[0] * (2 if x is y else 3), y

    def drive(f):
        x, seen = [rows()], []
        for arguments in ((x, x), (x, [x[0]]), (x, x)):
            r = f(*arguments)
            seen.append((plain(r), r[1] is arguments[1], r[1] is arguments[0]))
        return seen
    return f, drive


# ---- arrays and numbers as keys


def changed(f):
    """Calls with one array, which is changed in between."""
    x, seen = rows(), []
    for _ in range(4):
        seen.append(plain(f(x)))
        x += 1
    return seen


@program
def results_are_remembered_by_array():
    @functools.lru_cache(None)
    def twice(x):
        return x * 2
    return lambda x: twice(x) + 1, changed


@program
def arrays_in_sets():
    def drive(f):
        x, y = rows(), rows(1)
        return [plain(f(*arguments)) for arguments in ((x, x), (x, y), (x, x))]
    return lambda x, y: x * len({x, y}), drive


# ---- what the code asks of its surroundings


@program
def a_default_that_must_be_named():
    def f(x, *, known={"a": 1}):
        known["a"] += 1
        return x * known["a"]
    return f, calls


@program
def a_descriptor_counts():
    class Counts:
        def __init__(self):
            self.n = 0

        def __get__(self, owner, kind=None):
            self.n += 1
            return self.n

    class Net(gluon.HybridBlock):
        counted = Counts()

        def forward(self, x):
            return x * self.counted
    return Net(), calls


@program
def a_thread_computes():
    def f(x):
        found = []
        thread = threading.Thread(target=lambda: found.append(x * 2))
        thread.start()
        thread.join()
        return x + found[0]
    return f, calls


@program
def text_of_values():
    return lambda x: x * len(str(x)) + len(repr(x.sum())) + len(f"{x[0]}"), lambda f: [plain(f(x)) for x in (rows(), rows() * 1000, rows(), nd.ones((2, 9)))]


@program
def text_of_numpy_values():
    return (lambda x: x * len(str(x)) + len(repr(x.sum())) + len(f"{x.sum():.2f}"),
            lambda f: [plain(f(mx.np.ones((n,)) * n)) for n in (1, 20, 3, 20)])


# ---- sparse arrays


def sparse_ones():
    return nd.sparse.row_sparse_array((np.ones((2, 3)), [0, 3]), shape=(5, 3)), nd.sparse.csr_matrix(np.eye(3)), nd.ones((5, 3))


@program
def the_storage_of_arguments():
    factors = {"csr": 2, "row_sparse": 3, "default": 5}
    return lambda x: nd.ones((1,)) * factors[x.stype], lambda f: [plain(f(x)) for x in sparse_ones() * 2]


@program
def the_storage_of_results():
    return lambda x: [x, x + x, x * 2], lambda f: [[(y.stype, plain(y)) for y in f(x)] for x in sparse_ones() * 2]


@program
def a_sparse_array_from_outside():
    weight = nd.sparse.row_sparse_array((np.ones((2, 3)), [0, 1]), shape=(2, 3))
    return lambda x: (x * weight, weight * 2), lambda f: [[(y.stype, plain(y)) for y in f(rows(k))] for k in range(3)]


# ---- loops give as many rows as they made steps


def loop(x, limit, package=nd):
    return package.contrib.while_loop(lambda i, s: s.sum() < limit, lambda i, s: (s * i, [i + 1, s + x]), [package.zeros((1,)), x], max_iterations=8)


@program
def rows_of_a_loop():
    def f(x):
        rows_made, (steps, _) = loop(x, 9)
        return rows_made * 2, steps, rows_made.shape
    return f, lambda f: [plain(f(rows(k) + 1)) for k in (0, 1, 5, 9, 0, 40)]


@program
def gradients_of_the_rows():
    def drive(f):
        seen = []
        for k in (0, 1, 2, 0, 9):
            x = rows(k) + 1
            x.attach_grad()
            with autograd.record():
                y = f(x)
            y.backward()
            seen.append((plain(y), plain(x.grad)))
        return seen
    return lambda x: (loop(x, 30)[0] ** 2).sum(), drive


@program
def second_order_where_a_state_is_a_part_of_the_data():
    def f(x):
        return nd.contrib.foreach(lambda row, state: (row * 1.5 + state * state, state * 0.5 + row), x, x[0])[0]

    def drive(f):
        seen = []
        for k in range(3):
            x = rows(k)
            x.attach_grad()
            with autograd.record():
                first = autograd.grad((f(x) ** 2).sum(), [x], create_graph=True)[0]
                total = (first * first).sum()
            total.backward()
            seen.append((plain(first * 0.01), plain(x.grad * 0.001)))
        return seen
    return f, drive


@program
def rows_in_the_body_of_another_loop():
    def body(row, state):
        made, (_, last) = nd.contrib.while_loop(lambda i, s: i < 2, lambda i, s: (s, [i + 1, s + row]), [nd.zeros((1,)), row], max_iterations=4)
        return made, state + last
    return lambda x: nd.contrib.foreach(body, x, nd.zeros((3,))), calls


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_modes_do_the_same(name):
    expect_same(PROGRAMS[name])


class Loops(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return loop(x, 9, F)[0]


def test_a_loop_in_a_file_gives_all_rows(tmp_path):
    net = Loops()
    net.hybridize()
    x = rows() + 1
    made = net(x)
    net.export(str(tmp_path / "loop"))
    loaded = gluon.SymbolBlock.imports(str(tmp_path / "loop-symbol.json"), ["data"], None)(x)
    assert loaded.shape[0] == made.shape[0] == 8
    np.testing.assert_array_equal(loaded.asnumpy(), made.asnumpy())
    np.testing.assert_array_equal(loop(x, 9, nd)[0].asnumpy(), made.asnumpy())
    assert not made.asnumpy()[-1].any()


def test_verify_ends_for_blocks_that_call_themselves():
    class Tree(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer = nn.Dense(3, in_units=3)

        def forward(self, parts):
            return self.layer(sum(self(part) for part in parts)) if isinstance(parts, list) else parts

    class Deep(gluon.HybridBlock):
        def __init__(self, levels):
            super().__init__()
            self.inner = Deep(levels - 1) if levels else nn.Dense(3, in_units=3)

        def forward(self, x):
            return self.inner(x) * 1.1

    def initialised(net):
        net.initialize(mx.init.Uniform(0.5))
        return net
    parts = [rows(), [rows(1), [rows(2), [rows(3), [rows(4), rows(5)]]]], [rows(2), [rows(), rows(1)]]]
    both(lambda: initialised(Tree()), lambda net: [net(parts) for _ in range(3)])
    both(lambda: initialised(Deep(12)), lambda net: [net(rows(k)) for k in range(3)])


@pytest.mark.parametrize("kind", ["cond", "while_loop", "nested"])
def test_what_was_not_run_keeps_its_gradient(kind):
    def gradient(hybridized):
        w, x = nd.ones((3,)), nd.ones((3,))

        def chosen(x, limit):
            return nd.contrib.cond(limit > 0, lambda: x * w, lambda: x * 2)

        def forward(block, x, limit):
            if kind == "cond":
                return chosen(x, limit)
            if kind == "nested":
                return nd.contrib.foreach(lambda row, state: (chosen(row, limit) + state, state), x.reshape((1, 3)), nd.zeros((3,)))[0]
            return nd.contrib.while_loop(lambda i, a: i < limit, lambda i, a: ([], [i + 1, a * w]), [nd.zeros((1,)), x], max_iterations=2)[1][1]
        net = Forward(forward)
        if hybridized:
            net.hybridize()
        for array in (w, x):
            array.attach_grad()
        seen = []
        for limit in (1, 0, 1, 0, 0):
            w.grad[:] = 7
            with autograd.record():
                result = net(x, nd.array([limit])) + x
            result.backward()
            seen.append((w.grad.asnumpy().tolist(), x.grad.asnumpy().tolist()))
        return seen
    assert gradient(False) == gradient(True)
    assert [w for w, _ in gradient(True)] == [[1] * 3, [7] * 3, [1] * 3, [7] * 3, [7] * 3]


def test_a_trainer_leaves_weights_alone_that_only_the_other_branch_reads():
    def weights(hybridized):
        class Experts(gluon.HybridBlock):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Dense(3, in_units=3), nn.Dense(3, in_units=3)

            def forward(self, x, which):
                return nd.contrib.cond(which.sum() > 0, lambda: self.first(x), lambda: self.second(x))
        mx.random.seed(3)
        net = Experts()
        net.initialize(mx.init.Uniform(0.5))
        if hybridized:
            net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01})
        for step in range(6):
            with autograd.record():
                loss = (net(rows(step), nd.array([step % 3 - 1])) ** 2).sum()
            loss.backward()
            trainer.step(1, ignore_stale_grad=True)
        return [p.data().asnumpy() for p in net.collect_params().values()]
    for eager, compiled in zip(weights(False), weights(True)):
        np.testing.assert_allclose(compiled, eager, rtol=1e-5, atol=1e-6)


def test_what_depends_on_nothing_recorded_is_off_the_tape_whatever_else_the_loop_gives():
    def outcome(hybridized):
        x, constant = nd.ones((3,)), nd.ones((3,)) * 4
        x.attach_grad()

        def forward(block, x, limit):
            return nd.contrib.cond(limit > 0, lambda: [x * 2, constant * 2], lambda: [constant * 3, x * 3])
        net = Forward(forward)
        if hybridized:
            net.hybridize()
        seen = []
        for limit in (1, 0, 1, 0):
            with autograd.record():
                results = net(x, nd.array([limit]))
            for result in results:
                try:
                    result.backward()
                    seen.append(x.grad.asnumpy().tolist())
                except RuntimeError:
                    seen.append("not recorded")
        return seen
    assert outcome(True) == outcome(False) and outcome(True).count("not recorded") == 4


OUTSIDE = {"dict": lambda: {"a": 1}, "list": lambda: [nd.ones((1,)), 2], "in a tuple": lambda: ([1],), "set": lambda: {1}, "bytearray": lambda: bytearray(b"a"),
           "numpy array": lambda: np.zeros(2), "dataclass": lambda: Options(1.0), "deep": lambda: {"a": [{"b": 1}]}}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", OUTSIDE)
def test_what_is_found_outside_and_returned_is_that_object(kind):
    def innermost(value):
        if kind == "deep":
            return value["a"][0]
        return value[0] if isinstance(value, tuple) else value
    for flags in (None, {}, {"verify": True}):
        net, variable = Forward(lambda self, x: (x * 2, self.held, variable), held=OUTSIDE[kind]()), OUTSIDE[kind]()
        if flags is not None:
            net.hybridize(**flags)
        for _ in range(3):
            _, held, found = net(nd.ones((1,)))
            assert innermost(held) is innermost(net.held) and innermost(found) is innermost(variable)
        net.held = variable
        _, held, found = net(nd.ones((1,)))
        assert innermost(held) is innermost(found) is innermost(variable)


UPDATES = {"all of it": lambda x, held: held.__setitem__(slice(None), x * 2), "a part": lambda x, held: held.__setitem__(0, x[1]), "added": lambda x, held: held.__iadd__(x),
           "out": lambda x, held: nd.relu(x, out=held), "constant": lambda x, held: held.__setitem__(slice(None), nd.ones((2,))), "twice": lambda x, held: (held.__iadd__(x), held.__imul__(2))}


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize("update", UPDATES)
def test_an_array_from_outside_that_is_updated_and_returned_is_that_array(update, is_recorded):
    def outcome(hybridized):
        held = nd.zeros((2,))

        def forward(x):
            UPDATES[update](x, held)
            return x * 3, held, held.reshape((1, -1))
        f, seen = mx.hybrid(forward) if hybridized else forward, []
        for k in range(3):
            x = nd.array([k + 1, 2])
            x.attach_grad()
            with autograd.record() if is_recorded else autograd.predict_mode():
                _, result, view = f(x)
                total = (result * 2).sum()
            if is_recorded and update != "constant":
                total.backward()
            seen.append((result is held, plain(result), plain(x.grad)))
            held = held.detach()
            with autograd.pause():
                held[:] = k
            seen.append((plain(result), plain(view)))
        return seen
    assert outcome(True) == outcome(False)
