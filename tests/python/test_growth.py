"""What the package does in Python grows with the network: lines that are run are counted, not time."""
import sys

import pytest

import gluino as mx
from gluino import autograd, gluon
from gluino.gluon import nn

SHORT, LONG = 30, 120
MOST_GROWTH = 1.25  # times what the number of layers grows by


def lines_of(function):
    """How many lines of Python run in a call."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        count += event == "line"
        return trace
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def plain(layers):
    net = nn.HybridSequential()
    for _ in range(layers):
        net.add(nn.Dense(4), nn.LayerNorm())
    return net


def nested(layers):
    """Blocks in blocks, with a parameter of its own in each."""
    class Layer(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.scale = self.params.get("scale", shape=(1,), init="ones")
                self.body = nn.HybridSequential()
                self.body.add(nn.Dense(4, in_units=4), nn.BatchNorm(in_channels=4))

        def hybrid_forward(self, F, x, scale):
            return F.broadcast_mul(self.body(x), scale)
    net = nn.HybridSequential()
    for _ in range(layers):
        net.add(Layer())
    return net


def count_stages(make, layers, folder):
    stages, x = {}, mx.nd.ones((2, 4))

    def stage(name, function):
        made = []
        stages[name] = lines_of(lambda: made.append(function()))
        return made[0]
    net = stage("build", lambda: make(layers))
    stage("initialize", net.initialize)

    def step():
        with autograd.record():
            y = net(x)
        y.backward()
    net.hybridize()
    stage("first call", lambda: net(x))
    stage("call", lambda: net(x))
    stage("first step", step)
    stage("step", step)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    stage("first update", lambda: trainer.step(1))
    step()
    stage("update", lambda: trainer.step(1))
    path = str(folder / f"net{layers}")
    stage("save", lambda: net.save_parameters(path))
    stage("load", lambda: net.load_parameters(path))
    net(x)
    stage("export", lambda: net.export(path))
    imported = stage("import", lambda: gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params"))
    stage("call of the imported", lambda: imported(x))
    return stages


@pytest.mark.parametrize("make", [plain, nested])
def test_lines_grow_with_the_layers(make, tmp_path):
    count_stages(make, 2, tmp_path)  # what only the first call of a process does
    few, many = count_stages(make, SHORT, tmp_path), count_stages(make, LONG, tmp_path)
    for name, lines in many.items():
        assert lines <= MOST_GROWTH * LONG / SHORT * few[name] + 100, f"{name}: {few[name]} lines for {SHORT} layers, {lines} for {LONG}"
