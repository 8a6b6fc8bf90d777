"""Vectors computed by MXNet 1.9.1, through Python: operators, models, optimizers, a training run; eager and hybridized."""
import json

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn


def arrays(path, prefix):
    with np.load(path) as file:
        names = sorted((n for n in file.files if n.startswith(prefix) and n[len(prefix):].isdigit()), key=lambda n: int(n[len(prefix):]))
        return [file[n] for n in names]


class Call(gluon.HybridBlock):
    """One operator with fixed attributes, as a block."""

    def __init__(self, op, attrs):
        super().__init__()
        self._op, self._attrs = op, attrs

    def hybrid_forward(self, F, x, *args):
        return getattr(F._internal, self._op)(x, *args, **self._attrs)


def close(got, want, rtol, atol, what):
    got = got.asnumpy().astype(np.float64)
    np.testing.assert_allclose(got.reshape(want.shape) if got.size == want.size else got, want, rtol=rtol, atol=atol, err_msg=what)


def check_operator(case, folder, hybrid):
    path = folder / "ops" / f"{case['case']}.npz"
    inputs = [nd.array(a, dtype=a.dtype) for a in arrays(path, "in")]
    net = Call(case["op"], case["attrs"])
    if hybrid:
        net.hybridize()
    if case.get("grad"):
        for x in inputs:
            x.attach_grad()
    with autograd.record(train_mode=case.get("train_mode", False)) if case.get("grad") else autograd.pause(train_mode=case.get("train_mode", False)):
        outputs = net(*inputs)
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    for i, want in enumerate(arrays(path, "out")):
        close(outputs[i], want, 1e-4, 1e-5, f"{case['case']} output {i}")
    if case.get("grad"):
        heads = [nd.array(h, dtype=h.dtype) for h in arrays(path, "head")]
        autograd.backward(outputs[:len(heads)], heads, train_mode=case.get("train_mode", False))
        for i, want in enumerate(arrays(path, "grad")):
            close(inputs[i].grad, want, 1e-3, 1e-4, f"{case['case']} gradient {i}")
    with np.load(path) as file:
        for i in (3, 4):
            if f"aux{i}" in file.files:
                close(inputs[i], file[f"aux{i}"], 1e-4, 1e-5, f"{case['case']} state {i}")


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
def test_operators(shared, hybrid):
    cases = json.loads((shared / "golden" / "ops.json").read_text())
    assert len(cases) > 100
    for case in cases:
        check_operator(case, shared / "golden", hybrid)


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
def test_models(shared, hybrid):
    folder = shared / "golden" / "models"
    names = sorted(p.name[:-len("-symbol.json")] for p in folder.glob("*-symbol.json"))
    assert names
    for name in names:
        inputs = [nd.array(a, dtype=a.dtype) for a in arrays(folder / f"{name}-io.npz", "in")]
        file = str(folder / f"{name}-0001.params")
        known = {n[4:] for n in nd.load(file)}
        symbol = mx.sym.load(str(folder / f"{name}-symbol.json"))
        net = gluon.SymbolBlock.imports(str(folder / f"{name}-symbol.json"), [n for n in symbol.list_inputs() if n not in known], file)
        if hybrid:
            net.hybridize()
        for _ in range(2):
            outputs = net(*inputs)
            outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            for i, want in enumerate(arrays(folder / f"{name}-io.npz", "out")):
                close(outputs[i], want, 1e-4, 1e-5, f"{name} output {i}")


def test_optimizers(shared):
    cases = json.loads((shared / "golden" / "optimizers.json").read_text())
    assert len(cases) > 10
    for key, case in (cases.items() if isinstance(cases, dict) else ((c["key"], c) for c in cases)):
        with np.load(shared / "golden" / f"opt_{key}.npz") as file:
            grads, weights = file["grads"], file["weights"]
        optimizer = mx.optimizer.create(case["name"], **case["params"])
        updater = mx.optimizer.get_updater(optimizer)
        weight = nd.array(weights[0])
        for step, grad in enumerate(grads):
            updater(0, nd.array(grad), weight)
            np.testing.assert_allclose(weight.asnumpy(), weights[step + 1], rtol=1e-4, atol=1e-5, err_msg=f"{key} step {step}")


class LeNet(gluon.HybridBlock):
    """The network of the reference document."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.conv1 = nn.Conv2D(6, kernel_size=5)
            self.pool1 = nn.MaxPool2D(pool_size=2)
            self.conv2 = nn.Conv2D(16, kernel_size=5)
            self.pool2 = nn.MaxPool2D(pool_size=2)
            self.fc1 = nn.Dense(120)
            self.fc2 = nn.Dense(84)
            self.fc3_weight = self.params.get("fc3_weight", shape=(10, 84))

    def hybrid_forward(self, F, x, fc3_weight):
        x = self.pool1(F.relu(self.conv1(x)))
        x = self.pool2(F.relu(self.conv2(x)))
        x = x.reshape((0, -1))
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return F.dot(x, fc3_weight, transpose_b=True)


def _losses(folder, hybrid, seed=None):
    """Of the recorded run's steps; with a seed, from weights that are moved by up to four units in the last place."""
    net, numbers = LeNet(), np.random.default_rng(seed)
    net.load_parameters(str(folder / "lenet-train-init.params"))
    for parameter in net.collect_params().values():
        units = numbers.integers(-4, 5, parameter.shape) if seed is not None else 0
        parameter.set_data(parameter.data() * nd.array(1 + np.finfo(np.float32).eps * np.full(parameter.shape, units), dtype="float32"))
    if hybrid:
        net.hybridize()
    with np.load(folder / "lenet-train.npz") as file:
        x, y, recorded = nd.array(file["x"]), nd.array(file["y"]), file["losses"]
    loss_of, losses = gluon.loss.SoftmaxCrossEntropyLoss(), []
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    for _ in recorded:
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        losses.append(loss.mean().asscalar())
        trainer.step(32)
    return np.array(losses), recorded


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
def test_training_run(shared, hybrid):
    """The recorded run is followed as long as rounding does not decide it: until runs from weights that differ by about the error of a sum part."""
    folder = shared / "golden" / "models"
    losses, recorded = _losses(folder, hybrid)
    parted = np.max([np.abs(_losses(folder, hybrid, seed)[0] - losses) for seed in range(12)], axis=0) > 1e-5 * np.maximum(losses, 1)
    steps = int(parted.argmax()) if parted.any() else len(losses)
    assert steps >= 4
    np.testing.assert_allclose(losses[:steps], recorded[:steps], rtol=1e-4, atol=1e-4)

