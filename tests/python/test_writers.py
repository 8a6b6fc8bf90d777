"""Everything that writes files: killed, or on a full disk, it leaves the old file or the new one, whole."""
import logging
import os
import random
import resource
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

import gluino as mx
from gluino import gluon, nd, recordio
from gluino.base import FileError, MXNetError

from test_files import network, train


def records(path, value):
    writer = recordio.MXIndexedRecordIO(f"{path}.idx", f"{path}.rec", "w")
    for i in range(50):
        writer.write_idx(i, bytes([value]) * (2000 + i))
    writer.close()


def read_records(path):
    reader = recordio.MXIndexedRecordIO(f"{path}.idx", f"{path}.rec", "r")
    if not reader.keys:  # killed after the old index went: it can be made again
        reader.make_index()
    all_records = [reader.read_idx(key) for key in reader.keys]
    assert [len(r) for r in all_records] == [2000 + i for i in range(50)]
    values = {byte for r in all_records for byte in r}
    assert len(values) == 1
    return values.pop()


class Writers:
    """Everything that writes files: each writes the value 1 or 2, and gives it back when it reads."""

    def __init__(self, folder):
        self.folder = folder
        self.nets = {value: network(units=300 + value, inputs=40) for value in (1, 2)}
        for value, net in self.nets.items():
            net.hybridize()
            net.trainer = gluon.Trainer(net.collect_params(), "adam")
            train(net, net.trainer, 1)
            net[0].weight.set_data(nd.full((300 + value, 40), value))
        self.all = {name[6:]: getattr(self, name) for name in dir(self) if name.startswith("write_")}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, value):
        self.all[name](value)

    def read(self, name):
        return getattr(self, "read_" + name)()

    def _array(self, value):
        return nd.full((300, 100), value)

    @staticmethod
    def _only(array):
        values = np.unique(array.asnumpy() if hasattr(array, "asnumpy") else array)
        assert len(values) == 1
        return int(values[0])

    def write_params(self, value):
        nd.save(self.path("a.params"), {"x": self._array(value), "y": self._array(value)})

    def read_params(self):
        loaded = nd.load(self.path("a.params"))
        assert self._only(loaded["x"]) == self._only(loaded["y"])
        return self._only(loaded["x"])

    def write_npz(self, value):
        nd.save(self.path("a.npz"), {"x": self._array(value)})

    def read_npz(self):
        return self._only(nd.load(self.path("a.npz"))["x"])

    def write_np_save(self, value):
        mx.np.save(self.path("b"), mx.np.full((200, 200), value))

    def read_np_save(self):
        return self._only(np.load(self.path("b.npy")))

    def write_np_savez(self, value):
        mx.np.savez(self.path("c"), x=mx.np.full((200, 200), value))

    def read_np_savez(self):
        return self._only(np.load(self.path("c.npz"))["x"])

    def write_states(self, value):
        self.nets[value].trainer.save_states(self.path("d.states"))

    def read_states(self):
        for value, net in self.nets.items():
            try:
                net.trainer.load_states(self.path("d.states"))
                return value
            except FileError:
                raise
            except MXNetError:
                pass
        raise AssertionError("of neither network")

    def write_export(self, value):
        self.nets[value].export(self.path("e"))

    def read_export(self):
        loaded = gluon.SymbolBlock.imports(self.path("e-symbol.json"), ["data"], self.path("e-0000.params"))
        value = int(loaded(nd.ones((1, 40))).shape[1]) - 300
        assert [self._only(p.data()) for name, p in loaded.collect_params().items() if name.endswith("weight")] == [value]
        return value

    def write_model(self, value):
        self.nets[value].save(self.path("f.model"))

    def read_model(self):
        return int(mx.gluon.symbol_block.load_block(self.path("f.model"))(nd.ones((1, 40))).shape[1]) - 300

    def write_records(self, value):
        records(self.path("g"), value)

    def read_records(self):
        return read_records(self.path("g"))

    def write_symbol(self, value):
        mx.sym.Group([mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=value, name=f"f{i}") for i in range(300)]).save(self.path("h.json"))

    def read_symbol(self):
        hidden = {attrs["num_hidden"] for name, attrs in mx.sym.load(self.path("h.json")).attr_dict().items() if "num_hidden" in attrs and name[1:].isdigit()}
        assert len(hidden) == 1
        return int(hidden.pop())


NAMES = [name[6:] for name in dir(Writers) if name.startswith("write_")]


def strays(folder):
    return [name for name in os.listdir(folder) if name.startswith(".gluino-")]


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_leaves_the_old_file(name, tmp_path):
    writers = Writers(str(tmp_path))
    writers.write(name, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (0, 1000, 20000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))  # Python ignores the signal: writing fails
        try:
            with pytest.raises(OSError):
                writers.write(name, 2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert writers.read(name) == 1 and not strays(tmp_path)
    writers.write(name, 2)
    assert writers.read(name) == 2


def write_for_ever(folder):
    """Not a test: the process that the next one kills."""
    writers = Writers(folder)
    print("ready", flush=True)
    for turn in range(1 << 30):
        for name in NAMES:
            writers.write(name, 1 + turn % 2)


def test_killed_at_any_moment(tmp_path):
    kills, chance = int(os.environ.get("GLUINO_KILLS", 12)), random.Random(1)
    writers, caught, killed = Writers(str(tmp_path)), 0, 0
    for name in NAMES:
        writers.write(name, 1)
    while killed < kills or caught < kills // 4:  # on a busy machine a child may do little before its end
        assert killed < 10 * kills, "the children must be caught in the middle"
        killed += 1
        code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_writers; test_writers.write_for_ever({str(tmp_path)!r})"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"ready\n"
        time.sleep(chance.random() * 0.3)
        child.kill()
        child.wait()
        child.stdout.close()
        caught += bool(strays(tmp_path))
        for name in NAMES:
            try:
                assert writers.read(name) in (1, 2), name
            except (AssertionError, ValueError, MXNetError) as error:
                # Between the two renames of a pair: told when it is loaded, never mixed.
                assert name == "export" and any(text in str(error) for text in ("do not belong together", "has none of the parameters", "shape")), \
                    (name, error)
    for name in NAMES:
        writers.write(name, 2)
        assert writers.read(name) == 2
    assert not strays(tmp_path)


def test_links_and_permissions(tmp_path):
    (tmp_path / "other").write_text("other")
    os.symlink(tmp_path / "other", tmp_path / "a.params")
    nd.save(str(tmp_path / "a.params"), [nd.ones(2)])
    assert (tmp_path / "other").read_text() == "other"
    os.chmod(tmp_path / "a.params", 0o600)
    nd.save(str(tmp_path / "a.params"), [nd.ones(2)])
    assert stat.S_IMODE(os.stat(tmp_path / "a.params").st_mode) == 0o600


def test_records_of_a_writer_that_failed_are_not_taken(tmp_path):
    records(tmp_path / "g", 1)
    code = f"""
import os
from gluino import recordio
writer = recordio.MXIndexedRecordIO({str(tmp_path / 'g.idx')!r}, {str(tmp_path / 'g.rec')!r}, "w")
writer.write_idx(0, b"of the parent")
if os.fork() == 0:
    writer.close()
    os._exit(0)
os.wait()
os._exit(0)  # never closed
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert read_records(tmp_path / "g") == 1


def test_an_index_can_be_made_again(tmp_path):
    records(tmp_path / "g", 1)
    os.remove(tmp_path / "g.idx")
    data = gluon.data.RecordFileDataset(str(tmp_path / "g.rec"))
    assert len(data) == 50 and data[49] == b"\1" * 2049
    (tmp_path / "g.idx").write_text("no index\n")
    with pytest.raises(FileError, match="line 1: 'no index' is not a key and an offset"):
        gluon.data.RecordFileDataset(str(tmp_path / "g.rec"))


def test_a_checkpoint_without_states_does_not_count(tmp_path):
    from gluino.gluon.contrib.estimator import CheckpointHandler
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    train(net, trainer)
    estimator = type("Estimator", (), {"net": net, "trainer": trainer, "context": mx.cpu(), "max_epoch": 5, "max_batch": None,
                                         "logger": logging.getLogger()})()
    handler = CheckpointHandler(str(tmp_path))
    handler._write(estimator, "model-epoch0batch3")
    net.save_parameters(str(tmp_path / "model-epoch1batch6.params"))  # killed before the states, by an older version
    resumed = CheckpointHandler(str(tmp_path), resume_from_checkpoint=True)
    resumed.train_begin(estimator)
    assert resumed.trained_epoch == 0 and estimator.max_epoch == 4
