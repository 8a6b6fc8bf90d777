"""What the tests of the command line share: the program, small models made on the spot, and the folder of models computed elsewhere."""
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

import gluino as mx
from gluino.gluon import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("GLUINO_PROGRAM", str(ROOT / "build/release/src/gluino"))


class Answer:
    """What a run of the program gave."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(scope="session")
def gluino():
    """gluino("inspect", model): runs the program; raises when it fails, unless code= says how it must."""

    def run(*arguments, code=0, **environment):
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, env={**os.environ, **environment})
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return Answer(done)

    return run


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A folder with an exported convolution network: net-symbol.json, net-0000.params, x.npy and what the network answers, y.npy."""
    folder = tmp_path_factory.mktemp("models")
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    x = mx.nd.random.normal(shape=(2, 3, 8, 8))
    with mx.autograd.record():
        net(x)  # the running statistics of the normalisation move away from 0 and 1
    net.hybridize()
    y = net(x)
    net.export(str(folder / "net"))
    np.save(folder / "x.npy", x.asnumpy())
    np.save(folder / "y.npy", y.asnumpy())
    return folder


@pytest.fixture(scope="session")
def shared():
    """The folder of models computed by MXNet, beside the checkout or named by GLUINO_SHARED."""
    for folder in (os.environ.get("GLUINO_SHARED"), ROOT / "../shared"):
        if folder and (pathlib.Path(folder) / "models").is_dir():
            return pathlib.Path(folder) / "models"
    pytest.skip("no folder of models: set GLUINO_SHARED to run this")
