"""Files: data alone, whole or not at all, and those of another network are refused."""
import os
import pickle
import random
import struct
import subprocess
import sys

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd, recordio
from gluino.base import FileError, MXNetError
from gluino.gluon import nn


def network(units=4, layers=1, inputs=3, use_bias=True):
    net = nn.HybridSequential()
    for _ in range(layers):
        net.add(nn.Dense(units, in_units=inputs, use_bias=use_bias))
        inputs = units
    net.initialize()
    return net


def train(net, trainer, steps=3):
    width = net[0].weight.shape[1]
    for _ in range(steps):
        with autograd.record():
            loss = (net(nd.ones((2, width))) ** 2).sum()
        loss.backward()
        trainer.step(2)


def trained(optimizer="adam", options=None, **shape):
    net = network(**shape)
    trainer = gluon.Trainer(net.collect_params(), optimizer, dict(options or {}))
    train(net, trainer)
    return net, trainer


# ---- states

@pytest.mark.parametrize("name", sorted(n for n in mx.optimizer.Optimizer.opt_registry if n != "sgld"))
def test_training_goes_on_from_a_file(name, tmp_path):
    options = {"lr_scheduler": mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)}
    use_bias = name != "groupadagrad"  # which is for matrices alone
    net, trainer = trained(name, options, use_bias=use_bias)
    trainer.save_states(tmp_path / "states")
    net.save_parameters(str(tmp_path / "params"))
    train(net, trainer)
    again = network(use_bias=use_bias)
    again.load_parameters(str(tmp_path / "params"))
    resumed = gluon.Trainer(again.collect_params(), name, {"learning_rate": 123})
    resumed.load_states(tmp_path / "states")
    train(again, resumed)
    assert (again[0].weight.data() == net[0].weight.data()).asnumpy().all()
    assert resumed.learning_rate == trainer.learning_rate and type(resumed.optimizer.lr_scheduler).__name__ == "FactorScheduler"
    assert resumed.optimizer.num_update == trainer.optimizer.num_update == 6


def test_float16_weights_keep_their_wide_copies(tmp_path):
    net = network()
    net.cast("float16")
    trainer = gluon.Trainer(net.collect_params(), "adam", {"multi_precision": True})
    with autograd.record():
        loss = net(nd.ones((2, 3), dtype="float16")).sum()
    loss.backward()
    trainer.step(2)
    trainer.save_states(tmp_path / "states")
    trainer.load_states(tmp_path / "states")
    copy, (mean, _) = trainer._updaters[0].states[0]
    assert copy.dtype == mean.dtype == np.float32


def test_states_run_no_code(tmp_path):
    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "it ran"),)
    net, trainer = trained()
    for content in (Hostile(), ({0: Hostile()}, None)):
        (tmp_path / "states").write_bytes(pickle.dumps(content))
        with pytest.raises(FileError, match="pickle.*allow_pickle=True"):
            trainer.load_states(tmp_path / "states")
        with pytest.raises(FileError, match="allow_pickle=True"):
            trainer._updaters[0].set_states((tmp_path / "states").read_bytes())
    store = mx.kvstore.create("local")
    store.set_optimizer(mx.optimizer.create("adam"))
    with pytest.raises(FileError, match="allow_pickle=True"):
        store.load_optimizer_states(tmp_path / "states")
    assert not (tmp_path / "it ran").exists()


def test_old_pickles_load_when_asked_for(tmp_path):
    net, trainer = trained("sgd", {"momentum": 0.9})
    updater = trainer._updaters[0]
    (tmp_path / "states").write_bytes(pickle.dumps((updater.states, updater.optimizer)))
    other = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    other.load_states(tmp_path / "states", allow_pickle=True)
    train(net, other)
    assert other.optimizer.num_update == 6
    other.save_states(tmp_path / "states")
    other.load_states(tmp_path / "states")


def test_states_of_the_users_own_optimizer(tmp_path):
    @mx.optimizer.register
    class Own(mx.optimizer.Optimizer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.seen, self.function = {"a": [1, (2.5, None)]}, lambda x: x

        def create_state(self, index, weight):
            return {"sum": weight.zeros_like(), "steps": 0, "more": [np.ones(2), "text", float("inf")]}

        def step_one(self, index, weight, grad, state, lr, wd, t):
            state["steps"] += 1
            state["sum"][:] += grad
            weight[:] -= lr * state["sum"]
    net, trainer = trained("own")
    trainer.save_states(tmp_path / "states")
    other = gluon.Trainer(net.collect_params(), "own")
    other.optimizer.seen = {}
    other.load_states(tmp_path / "states")
    state = other._updaters[0].states[0]
    assert state["steps"] == 3 and state["more"][1:] == ["text", float("inf")] and other.optimizer.seen == {"a": [1, (2.5, None)]}
    assert other.optimizer.function(3) == 3  # what is no data stays as it is
    trainer._updaters[0].states[0] = object()
    with pytest.raises(MXNetError, match="states of Own hold a object"):
        trainer.save_states(tmp_path / "states")


def test_states_of_another_network_are_refused(tmp_path):
    net, trainer = trained()
    trainer.save_states(tmp_path / "states")
    rate = trainer.learning_rate
    for shape, message in (({"units": 5}, r"parameter 0 was 'dense\d+_weight' of shape \(4, 3\), here it is 'dense\d+_weight' of shape \(5, 3\)"),
                           ({"layers": 2}, "one of 2 parameters; here there are 4")):
        _, other = trained(options={"learning_rate": 0.5}, **shape)
        with pytest.raises(MXNetError, match="another network.*" + message):
            other.load_states(tmp_path / "states")
        assert other.learning_rate == 0.5  # nothing of it was taken over
    with pytest.raises(MXNetError, match="those of Adam, but the optimizer here is SGD"):
        trained("sgd")[1].load_states(tmp_path / "states")
    assert rate == trainer.learning_rate


def test_states_of_another_network_are_refused_by_updaters(tmp_path):
    stores = []
    for width in (3, 4):
        store = mx.kvstore.create("local")
        store.set_optimizer(mx.optimizer.create("sgd", momentum=0.9))
        store.init("w", nd.ones((2, width)))
        store.push("w", nd.ones((2, width)))
        stores.append(store)
    stores[0].save_optimizer_states(tmp_path / "states")
    with pytest.raises(MXNetError, match=r"shape \(2, 3\), here it is 'w' of shape \(2, 4\)"):
        stores[1].load_optimizer_states(tmp_path / "states")
    updater = mx.optimizer.get_updater(mx.optimizer.create("sgd"))  # no momentum
    updater.set_states((tmp_path / "states").read_bytes())
    with pytest.raises(MXNetError, match="loaded for 'w'"):
        updater("w", nd.ones((2, 3)), nd.ones((2, 3)))


def test_files_of_cifar_run_no_code(tmp_path):
    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "it ran"),)
    content = {"data": np.zeros((2, 3072), np.uint8), "labels": [1, 2]}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content, protocol=2))
    assert len(gluon.data.vision.CIFAR10(str(tmp_path), train=False)) == 2
    (tmp_path / "test_batch").write_bytes(pickle.dumps({**content, "labels": Hostile()}, protocol=2))
    with pytest.raises(FileError, match="posix.mkdir"):
        gluon.data.vision.CIFAR10(str(tmp_path), train=False)
    assert not (tmp_path / "it ran").exists()


# ---- damaged files

def mutated(data, number):
    """Small damages, the same in every run."""
    chance, data = random.Random(number), bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at:at + chance.randrange(32)]
        elif kind == 3:
            data[at:at] = data[at:at + chance.randrange(32)]
        elif kind == 4:
            data[at:at + 4] = struct.pack("<I", chance.choice([0, 1, 0x7fffffff, 0xffffffff, 1 << 29]))
        else:
            data[at:at] = chance.choice([b"-1", b"99999999999999999999", b"[", b"]", b"{", b'"', b"null", b"NaN", b"\xff", b"1e999"])
    return bytes(data)


MUTATIONS = int(os.environ.get("GLUINO_FUZZ_FILES", 300))


def test_damaged_states(tmp_path):
    net, trainer = trained("adam", {"lr_scheduler": mx.lr_scheduler.FactorScheduler(2, 0.5)})
    trainer.save_states(tmp_path / "states")
    good = (tmp_path / "states").read_bytes()
    for number in range(MUTATIONS):
        try:
            updater = mx.optimizer.get_updater(mx.optimizer.create("adam"))
            updater.set_states(mutated(good, number))
            updater.check_weights(trainer._weights(), complete=True)
        except MXNetError:
            pass


def test_damaged_models(tmp_path):
    net = network(layers=2)
    net.hybridize()
    net(nd.ones((1, 3)))
    net.save(tmp_path / "model")
    good = (tmp_path / "model").read_bytes()
    for number in range(MUTATIONS):
        (tmp_path / "model").write_bytes(mutated(good, number))
        try:
            mx.gluon.symbol_block.load_block(tmp_path / "model")(nd.ones((1, 3)))
        except (MXNetError, AssertionError, ValueError):
            pass


def test_damaged_records(tmp_path):
    path, index = str(tmp_path / "r.rec"), str(tmp_path / "r.idx")
    writer = recordio.MXIndexedRecordIO(index, path, "w")
    for i in range(5):
        writer.write_idx(i, recordio.pack(recordio.IRHeader(0, [1.0] * i, i, 0), b"\x0a\x23\xd7\xce" * i))
    writer.close()
    good = (tmp_path / "r.rec").read_bytes()
    for number in range(MUTATIONS):
        (tmp_path / "r.rec").write_bytes(mutated(good, number))
        try:
            for record in iter(recordio.MXRecordIO(path, "r").read, None):
                recordio.unpack(record)
        except MXNetError:
            pass


def test_a_length_in_a_file_takes_no_memory(tmp_path):
    (tmp_path / "r.rec").write_bytes(struct.pack("<II", 0xCED7230A, (1 << 29) - 1) + b"x" * 32)
    labels = struct.pack("IfQQ", 0xffffffff, 0, 0, 0) + b"x" * 16
    code = f"""
import resource, sys
from gluino import recordio
from gluino.base import FileError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for read in (lambda: recordio.MXRecordIO({str(tmp_path / 'r.rec')!r}, "r").read(), lambda: recordio.unpack({labels!r})):
    try:
        read()
        sys.exit("it was read")
    except FileError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    grown = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert grown < 50_000  # kilobytes; the lengths claim 0.5 and 16 GB
