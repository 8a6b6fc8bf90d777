"""Members without a place in MXNet's documents that libraries over it read and set."""
import hashlib
import subprocess
import sys

import pytest

import gluino as mx
from gluino import gluon, nd


def test_hashes_of_networks_that_a_library_enters(tmp_path, monkeypatch):
    from gluino.gluon.model_zoo import model_store
    monkeypatch.setattr(model_store, "_model_sha1", dict(model_store._model_sha1))
    content = b"weights"
    model_store._model_sha1.update({"my_net": hashlib.sha1(content).hexdigest(), "damaged": "0" * 40, "absent": "1" * 40})
    assert model_store.short_hash("my_net") == hashlib.sha1(content).hexdigest()[:8] and model_store.short_hash("absent") == "1" * 8
    for name in ("my_net", "damaged", "other"):
        hashed = model_store._model_sha1.get(name, "12345678")[:8]
        (tmp_path / f"{name}-{hashed}.params").write_bytes(content)
    assert model_store.get_model_file("my_net", str(tmp_path)).endswith(f"my_net-{hashlib.sha1(content).hexdigest()[:8]}.params")
    assert model_store.get_model_file("other", str(tmp_path)).endswith("other-12345678.params")
    with pytest.raises(mx.base.FileError, match="damaged"):
        model_store.get_model_file("damaged", str(tmp_path))
    with pytest.raises(mx.base.FileError, match="not downloaded"):
        model_store.get_model_file("absent", str(tmp_path))
    (tmp_path / "absent.params").write_bytes(content)
    assert model_store.get_model_file("absent", str(tmp_path)).endswith("absent.params")
    model_store.purge(str(tmp_path))
    assert not list(tmp_path.iterdir())


AMP = """
from gluino.contrib.amp import amp
from gluino import gluon
assert amp._amp_initialized is False and amp._amp_loss_scale_initialized is False and amp._loss_scaler is None
amp.init("bfloat16")
assert amp._amp_initialized is True and amp._amp_loss_scale_initialized is False
net = gluon.nn.Dense(1, in_units=1)
trainers = [gluon.Trainer(net.collect_params(), "sgd") for _ in range(2)]
for trainer in trainers:
    amp.init_trainer(trainer)
assert amp._amp_loss_scale_initialized is True and amp._loss_scaler is trainers[0]._amp_loss_scaler
"""


def test_amp_says_whether_it_is_on():
    subprocess.run([sys.executable, "-c", AMP], check=True)


@pytest.mark.parametrize("contexts", (1, 2))
@pytest.mark.parametrize("on_store", (None, False))
def test_what_a_trainer_does_before_its_first_step(contexts, on_store, tmp_path):
    net = gluon.nn.Dense(2)
    net.initialize(ctx=[mx.cpu(i) for i in range(contexts)])
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1}, kvstore="device", update_on_kvstore=on_store)
    assert trainer._kv_initialized is False and trainer._params_to_init == list(net.collect_params().values())
    trainer._init_kvstore()
    assert trainer._kv_initialized and trainer._update_on_kvstore is False and trainer._distributed is False
    trainer._init_params()
    assert trainer._params_to_init == [net.weight]  # whose shape is not known
    with mx.autograd.record():
        losses = [net(nd.ones((4, 3), ctx=mx.cpu(i))).sum() for i in range(contexts)]
    mx.autograd.backward(losses)
    trainer.step(4)
    assert trainer._params_to_init == [] and len(trainer._updaters) == contexts
    (tmp_path / "states").write_bytes(trainer._updaters[0].get_states(dump_optimizer=False))
    trainer.load_states(str(tmp_path / "states"))
    trainer._reset_kvstore()
    assert trainer._kv_initialized is False and len(trainer._params_to_init) == 2


def test_steps_of_a_trainer_that_libraries_replace():
    """Horovod's and BytePS's trainers exchange gradients in _allreduce_grads."""
    class Exchanging(gluon.Trainer):
        def _allreduce_grads(self):
            seen.append("exchanged")
            for parameter in self._params:
                parameter.grad()[:] = 0

        def _init_params(self):
            seen.append([parameter.name for parameter in self._params_to_init])
            super()._init_params()
    seen, net = [], gluon.nn.Dense(1, in_units=1, use_bias=False)
    net.initialize(mx.init.One())
    trainer = Exchanging(net.collect_params(), "sgd", {"learning_rate": 1})
    for _ in range(2):
        with mx.autograd.record():
            loss = net(nd.ones((1, 1)))
        loss.backward()
        trainer.step(1)
    assert seen == [[net.weight.name], "exchanged", "exchanged"] and net.weight.data().asscalar() == 1
    trainer.allreduce_grads()
    assert len(seen) == 4
