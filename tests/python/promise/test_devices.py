"""Programs on other devices than the first: values, random numbers, where results are, and what is on several devices."""
import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn

SECOND = mx.cpu(1)
PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def network(hybridized, ctx):
    mx.random.seed(1)
    net = nn.HybridSequential()
    net.add(nn.Dense(6, activation="relu"), nn.BatchNorm(), nn.Dropout(0.3), nn.Dense(3))
    net.initialize(mx.init.Xavier(), ctx=ctx)
    if hybridized:
        net.hybridize()
    return net


def weights(net):
    return [(str(ctx), p.data(ctx).asnumpy().tolist()) for p in net.collect_params().values() for ctx in p.list_ctx()]


def numbers(seed, shape=(8, 5), ctx=None):
    return nd.array(np.random.RandomState(seed).rand(*shape), ctx=ctx)


@program
def training_on_two_devices(hybridized):
    devices = [mx.cpu(0), SECOND]
    net = network(hybridized, devices)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    for step in range(4):
        parts = gluon.utils.split_and_load(numbers(step), devices)
        with autograd.record():
            losses = [(net(part) ** 2).sum() for part in parts]
        for loss in losses:
            loss.backward()
            yield loss.asscalar(), str(loss.context)
        trainer.step(8)
    yield weights(net)


@program
def moved_to_another_device(hybridized):
    net = network(hybridized, mx.cpu(0))
    yield net(numbers(1)).asnumpy().tolist()
    net.collect_params().reset_ctx(SECOND)
    result = net(numbers(1, ctx=SECOND))
    yield result.asnumpy().tolist(), str(result.context)


@program
def random_numbers_of_each_device(hybridized):
    f = mx.hybrid(lambda x: nd.Dropout(x, p=0.5) + nd.random.uniform_like(x)) if hybridized else lambda x: nd.Dropout(x, p=0.5) + nd.random.uniform_like(x)
    for ctx in (mx.cpu(0), SECOND, mx.cpu(2), SECOND, mx.cpu(0)):
        with autograd.train_mode():
            yield f(nd.ones((4,), ctx=ctx)).asnumpy().tolist()
        yield nd.random.uniform(shape=(2,), ctx=ctx).asnumpy().tolist()


@program
def what_is_made_inside_is_where_eager_code_puts_it(hybridized):
    def forward(x):
        return x * 2, nd.zeros((2,)), nd.ones((2,), ctx=x.context) + 1, nd.random.normal(shape=(2,))
    f = mx.hybrid(forward) if hybridized else forward
    for ctx in (mx.cpu(0), SECOND, SECOND):
        yield [(str(y.context), y.asnumpy().tolist()) for y in f(nd.ones((3,), ctx=ctx))]
    with SECOND:
        for ctx in (mx.cpu(0), SECOND, SECOND):
            yield [(str(y.context), y.asnumpy().tolist()) for y in f(nd.ones((3,), ctx=ctx))]


@program
def moving_inside(hybridized):
    def forward(x):
        return (x * 2).as_in_context(SECOND) + nd.ones((3,), ctx=SECOND), x.copyto(mx.cpu(2))
    f = mx.hybrid(forward) if hybridized else forward
    for ctx in (mx.cpu(0), SECOND, mx.cpu(0)):
        yield [(str(y.context), y.asnumpy().tolist()) for y in f(nd.ones((3,), ctx=ctx))]


MOVES = {"as_in_context": lambda x, ctx: x.as_in_context(ctx), "as_in_ctx": lambda x, ctx: x.as_in_ctx(ctx), "copyto": lambda x, ctx: x.copyto(ctx),
         "to_device": lambda x, ctx: x.to_device(ctx), "nd.array": lambda x, ctx: nd.array(x, ctx=ctx), "np.array": lambda x, ctx: mx.np.array(x, ctx=ctx)}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("target", [SECOND, mx.cpu(0), "elsewhere"], ids=str)
def test_a_value_is_moved_or_stays(move, target):
    def forward(x):
        return MOVES[move](x * 2, target)
    compiled = mx.hybrid(forward)
    for make in (nd.array, mx.np.array):
        for _ in range(2):
            seen = []
            for f in (forward, compiled):
                try:
                    y = f(make([1, 2]))
                    seen.append((str(y.context), type(y), y.asnumpy().tolist()))
                except Exception as error:
                    seen.append(type(error))
            assert seen[1] == seen[0]


@program
def several_devices_among_the_arguments(hybridized):
    def forward(x, y):
        return x * 2, y * 3
    f = mx.hybrid(forward) if hybridized else forward
    for _ in range(2):
        yield [(str(z.context), z.asnumpy().tolist()) for z in f(nd.ones((3,)), nd.ones((2,), ctx=SECOND))]


@program
def no_arguments(hybridized):
    weight = numbers(1, ctx=SECOND)

    def forward():
        return weight * 2
    f = mx.hybrid(forward) if hybridized else forward
    for _ in range(3):
        result = f()
        yield str(result.context), result.asnumpy().tolist()


@program
def arguments_on_the_wrong_device(hybridized):
    net = network(hybridized, mx.cpu(0))
    yield net(numbers(1)).asnumpy().tolist()
    try:
        net(numbers(1, ctx=SECOND))
        yield "no error"
    except (ValueError, RuntimeError) as error:
        yield type(error).__name__, str(error)[:60]
    weight = nd.ones((3,), ctx=SECOND)

    def forward(x):
        return x * weight
    f = mx.hybrid(forward) if hybridized else forward
    for _ in range(2):
        try:
            f(nd.ones((3,)))
            yield "no error"
        except (ValueError, RuntimeError) as error:
            yield type(error).__name__


@program
def backward_under_another_context(hybridized):
    net = network(hybridized, SECOND)
    for step in range(3):
        x = numbers(step, ctx=SECOND)
        x.attach_grad()
        with autograd.record():
            loss = (net(x) ** 2).sum()
        with mx.cpu(step):
            loss.backward()
        yield str(x.grad.context), x.grad.asnumpy().tolist()
        with autograd.record():
            first = autograd.grad((net(x) ** 2).sum(), [x], create_graph=True)[0]
        first.backward()
        yield str(first.context), x.grad.asnumpy().tolist()


def close(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    return abs(a - b) <= 1e-4 * max(1, abs(a)) if isinstance(a, float) else a == b


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:.*runs operator by operator")
def test_both_modes_do_the_same(name):
    def seen(hybridized):
        mx.random.seed(7)
        return list(PROGRAMS[name](hybridized))
    eager, compiled = seen(False), seen(True)
    for number, (one, other) in enumerate(zip(eager, compiled)):
        assert close(one, other), (number, one, other)
    assert len(eager) == len(compiled)


def test_loaded_networks_run_on_their_device(tmp_path):
    net = network(True, mx.cpu(0))
    x = numbers(1)
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    loaded = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"), ctx=SECOND)
    for _ in range(2):
        result = loaded(x.as_in_context(SECOND))
        assert result.context == SECOND
        np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-5)
    symbol, args, aux = mx.model.load_checkpoint(str(tmp_path / "net"), 0)
    executor = symbol.bind(SECOND, {**{k: v.as_in_context(SECOND) for k, v in args.items()}, "data": x.as_in_context(SECOND)},
                           aux_states={k: v.as_in_context(SECOND) for k, v in aux.items()})
    result = executor.forward()[0]
    assert result.context == SECOND
    np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-5)


def test_number_arguments_become_inputs_on_every_device():
    def stats(ctx):
        f = mx.hybrid(lambda x, a: nd.tanh(x * a) + a)
        for a in (1.5, 2.5, 3.5, 4.5, 5.5):
            np.testing.assert_allclose(f(nd.ones((3,), ctx=ctx), a).asnumpy(), np.tanh(a) + a, rtol=1e-6)
        return f.stats()
    assert stats(SECOND) == stats(mx.cpu(0))


def test_gradients_flow_back_to_the_device_they_came_from():
    x = nd.ones((3,))
    x.attach_grad()
    with autograd.record():
        y = (x.as_in_context(SECOND) * 2 + (x * 3).copyto(SECOND)).sum()
    y.backward()
    assert y.context == SECOND and x.grad.context == mx.cpu(0) and x.grad.asnumpy().tolist() == [5, 5, 5]


def test_code_that_is_on_another_device_works_on_arrays_where_they_are():
    x = nd.array([[1, 2, 3], [4, 5, 6]])
    with SECOND:
        x[:] = 2
        x[0] = 1.5
        x[1, :2] = nd.ones((2,))
        x[1, 2] = 0
        picked = [x[[1, 0]], x[nd.array([0])], x[np.array([True, False])], mx.np.unique(x.as_np_ndarray())]
    assert x.asnumpy().tolist() == [[1.5, 1.5, 1.5], [1, 1, 0]]
    assert all(part.context == mx.cpu(0) for part in picked)
    assert picked[0].asnumpy().tolist() == [[1, 1, 0], [1.5, 1.5, 1.5]]
