"""What the tests of the server share: servers on ports that the system chooses, small models, and a client of the protocol."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

import gluino as mx
from gluino.gluon import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("GLUINO_PROGRAM", str(ROOT / "build/release/src/gluino"))
DATATYPES = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "int64": "INT64", "int32": "INT32", "int8": "INT8", "uint8": "UINT8", "bool": "BOOL"}
LONG = 120  # seconds after which something hangs


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, {k.lower(): v for k, v in headers}, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def outputs(self):
        """The tensors of an answer by name, whether they are in the JSON or behind it."""
        size = int(self.headers.get("inference-header-content-length", len(self.body)))
        head, rest, found = json.loads(self.body[:size]), self.body[size:], {}
        for o in head["outputs"]:
            dtype = next(k for k, v in DATATYPES.items() if v == o["datatype"])
            if "parameters" in o:
                count = o["parameters"]["binary_data_size"]
                found[o["name"]], rest = np.frombuffer(rest[:count], dtype).reshape(o["shape"]), rest[count:]
            else:
                found[o["name"]] = np.array(o["data"], dtype).reshape(o["shape"])
        assert not rest
        return found

    @property
    def output(self):
        (only,) = self.outputs.values()
        return only


def json_body(**inputs):
    return json.dumps({"inputs": [{"name": n, "shape": x.shape, "datatype": DATATYPES[str(x.dtype)], "data": x.ravel().tolist()} for n, x in inputs.items()]}).encode()


def binary_body(binary_output=True, parameters=None, **inputs):
    """The body, and the header that says where its JSON ends."""
    head = json.dumps({"parameters": {"binary_data_output": binary_output, **(parameters or {})},
                       "inputs": [{"name": n, "shape": x.shape, "datatype": DATATYPES[str(x.dtype)], "parameters": {"binary_data_size": x.nbytes}}
                                  for n, x in inputs.items()]}).encode()
    return head + b"".join(x.tobytes() for x in inputs.values()), {"Inference-Header-Content-Length": str(len(head))}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


class Server:
    def __init__(self, *arguments, port=True, program=(PROGRAM,), **environment):
        self.process = subprocess.Popen([*program, "serve", *map(str, arguments), *(["--port", "0"] if port else ["--no-port"])], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment})
        self.lines, self.port = [], None
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if found := re.match(r"listening on https?://.*:(\d+)$", line):
                self.port = int(found[1])
            if line == "ready\n":
                break
        else:
            self.process.wait()
            raise AssertionError(f"the server has not started: {self.process.stderr.read()}")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)

    def ask(self, method, path, body=None, headers=(), connection=None):
        connection = connection or self.connect()
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return Reply(answer.status, answer.getheaders(), answer.read())

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def infer(self, model, connection=None, headers=(), **inputs):
        body, length = binary_body(**inputs)
        return self.ask("POST", f"/v2/models/{model}/infer", body, {**length, **dict(headers)}, connection)

    def metrics(self):
        """{name{labels}: value}"""
        text = self.get("/metrics").body.decode()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if not line.startswith("#")}

    def metric(self, name, model, **labels):
        more = "".join(f',{k}="{v}"' for k, v in labels.items())
        return self.metrics()[f'{name}{{model="{model}",version="1"{more}}}']

    def end(self, sign=signal.SIGTERM):
        """Ends it; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        out, self.err = self.process.communicate(timeout=LONG)
        self.lines += out.splitlines()
        return self.process.returncode


@pytest.fixture
def serve():
    """serve(model, ...): a server, which must end well unless the test ends it itself."""
    servers = []

    def start(*arguments, **options):
        servers.append(Server(*arguments, **options))
        return servers[-1]

    yield start
    for server in servers:
        was_running = server.process.poll() is None
        code = server.end()
        assert not was_running or code == 0, f"exit code {code}: {server.err}"


def export(net, path, *shapes):
    """Exports the network, and returns what the exported one computes, on NumPy arrays."""
    mx.random.seed(3)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(*(mx.nd.random.normal(shape=s) for s in shapes))
    net.export(str(path))
    again = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"] if len(shapes) == 1 else [f"data{i}" for i in range(len(shapes))],
                                         f"{path}-0000.params")
    again.hybridize()

    def compute(*arrays):
        answer = again(*(mx.nd.array(a, dtype=a.dtype) for a in arrays))
        return answer.asnumpy() if isinstance(answer, mx.nd.NDArray) else [a.asnumpy() for a in answer]

    return compute


def perceptron(classes=3):
    net = nn.HybridSequential()
    net.add(nn.Dense(32, activation="relu"), nn.Dense(classes))
    return net


class Models:
    """A folder with exported models, and the functions that they are: mlp (n, 8), conv (n, 3, 8, 8)."""

    def __init__(self, folder):
        self.folder = folder
        self.mlp = export(perceptron(), folder / "mlp", (1, 8))
        conv = nn.HybridSequential()
        conv.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2), nn.Dense(5))
        self.conv = export(conv, folder / "conv", (2, 3, 8, 8))


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return Models(tmp_path_factory.mktemp("models"))


def at_once(count, work):
    """Runs work(0), work(1), ... in threads of their own; returns what they returned. The first exception is raised again."""
    results, errors = [None] * count, []

    def run(i):
        try:
            results[i] = work(i)
        except BaseException as e:  # noqa: BLE001  it is raised in the test's thread
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return results


def wait_until(holds):
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def random_array(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
