"""Under load: requests are joined, too many are refused, none that was accepted is lost, whether the server ends or loads a model again."""
import os
import signal
import threading

import numpy as np
import pytest

import gluino as mx
from conftest import Server, at_once, export, perceptron, random_array, wait_until
from gluino.gluon import nn


def heavy(folder):
    """A model of which a call takes long enough that requests meet in the queue."""
    net = nn.HybridSequential()
    net.add(nn.Dense(2000, activation="relu"), nn.Dense(2000, activation="relu"), nn.Dense(3))
    return export(net, folder / "heavy", (1, 500))


@pytest.fixture(scope="session")
def heavy_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heavy")
    return folder / "heavy", heavy(folder)


def agree(answer, wanted):
    """Rows beside other rows may be summed in another order."""
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-4)


def test_requests_are_joined(serve, heavy_model):
    path, compute = heavy_model
    server = serve(path, "--max-batch", "16", "--workers", "1")
    inputs = [random_array(i, 1 + i % 3, 500) for i in range(24)]
    for _ in range(5):
        for x, reply in zip(inputs, at_once(24, lambda i: server.infer("heavy", data=inputs[i]))):
            agree(reply.output, compute(x))
    done = server.metric("gluino_inference_requests_total", "heavy", outcome="done")
    assert done == 120 and server.metric("gluino_batches_total", "heavy") < done
    assert server.metrics()['gluino_batch_rows_bucket{model="heavy",version="1",le="16"}'] == server.metric("gluino_batches_total", "heavy")


def test_batch_1_joins_nothing(serve, heavy_model):
    path, compute = heavy_model
    server = serve(path, "--max-batch", "1")
    inputs = [random_array(i, 2, 500) for i in range(16)]
    for x, reply in zip(inputs, at_once(16, lambda i: server.infer("heavy", data=inputs[i]))):
        np.testing.assert_array_equal(reply.output, compute(x))
    assert server.metric("gluino_batches_total", "heavy") == 16


def test_a_delay_fills_batches(serve, models):
    server = serve(models.folder / "mlp", "--max-batch", "8", "--max-delay", "60000", "--timeout", "600")
    inputs = [random_array(i, 1, 8) for i in range(8)]
    for round_number in range(3):  # each waits for the others, and would wait for a minute
        for x, reply in zip(inputs, at_once(8, lambda i: server.infer("mlp", data=inputs[i]))):
            agree(reply.output, models.mlp(x))
    assert server.metric("gluino_batches_total", "mlp") == 3


def test_different_kinds_are_not_joined(serve, tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3), nn.GlobalAvgPool2D(), nn.Flatten())
    compute = export(net, tmp_path / "net", (1, 3, 8, 8))
    server = serve(tmp_path / "net", "--workers", "1", "--max-delay", "5")
    inputs = [random_array(i, 1, 3, 8 + i % 2, 8 + i % 3) for i in range(24)]
    for x, reply in zip(inputs, at_once(24, lambda i: server.infer("net", data=inputs[i]))):
        agree(reply.output, compute(x))


@pytest.mark.parametrize("make", [lambda x: mx.sym.broadcast_sub(x, mx.sym.mean(x, axis=0, keepdims=True)), lambda x: mx.sym.softmax(x, axis=0),
                                  lambda x: mx.sym.sum(x), lambda x: mx.sym.transpose(x)], ids=["mean", "softmax", "sum", "transpose"])
def test_models_that_mix_rows_are_not_joined(serve, tmp_path, make):
    make(mx.sym.var("data")).save(str(tmp_path / "mix-symbol.json"))
    mx.nd.save(str(tmp_path / "mix-0000.params"), {"arg:unused": mx.nd.zeros(1)})
    net = mx.gluon.SymbolBlock.imports(str(tmp_path / "mix-symbol.json"), ["data"])
    server = serve(tmp_path / "mix", "--workers", "1", "--max-delay", "20")
    inputs = [random_array(i, 2, 4) for i in range(16)]
    for _ in range(2):
        for x, reply in zip(inputs, at_once(16, lambda i: server.infer("mix", data=inputs[i]))):
            np.testing.assert_array_equal(reply.output, net(mx.nd.array(x)).asnumpy())


def test_only_the_wrong_one_of_a_batch_fails(serve, tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Embedding(10, 4), nn.Dense(3, flatten=False))
    compute = export(net, tmp_path / "words", (1, 5))
    server = serve(tmp_path / "words", "--workers", "1", "--max-delay", "20")
    inputs = [np.full((1, 5), i % 10, np.float32) for i in range(16)]
    for _ in range(2):
        for x, reply in zip(inputs, at_once(16, lambda i: server.infer("words", data=inputs[i]))):
            agree(reply.output, compute(x))


def test_a_full_queue_refuses(serve, heavy_model):
    path, compute = heavy_model
    server = serve(path, "--max-queue", "2", "--workers", "1", "--max-batch", "1")
    x = random_array(0, 64, 500)
    wanted = compute(x)

    def ask(_):
        replies = []
        connection = server.connect()
        for _ in range(10):
            replies.append(server.infer("heavy", connection, data=x))
        return replies

    replies = sum(at_once(12, ask), [])
    refused = [r for r in replies if r.status == 429]
    assert refused and all(r.headers["retry-after"] for r in refused)
    for r in replies:
        if r.status != 429:
            np.testing.assert_array_equal(r.output, wanted)
    assert server.metric("gluino_inference_requests_total", "heavy", outcome="refused") == len(refused)
    assert server.infer("heavy", data=x).status == 200


def test_bodies_in_memory_are_bounded(serve, heavy_model):
    path, _ = heavy_model
    server = serve(path, "--max-queue-mb", "1", "--workers", "1", "--max-batch", "1")
    x = random_array(0, 200, 500)  # 400 kB: two fit
    statuses = sum(at_once(8, lambda i: [server.infer("heavy", data=x).status for _ in range(4)]), [])
    assert set(statuses) == {200, 429}
    wait_until(lambda: server.metrics()["gluino_buffered_bytes"] == 0)  # an answer may arrive before its request is forgotten


def test_a_request_s_time_limit(serve, heavy_model):
    path, _ = heavy_model
    server = serve(path, "--workers", "1", "--max-batch", "1")
    from conftest import binary_body
    body, header = binary_body(data=random_array(0, 2000, 500), parameters={"timeout": 1})
    statuses = [r.status for r in at_once(4, lambda i: server.ask("POST", "/v2/models/heavy/infer", body, header))]
    assert set(statuses) <= {200, 504} and 504 in statuses
    assert server.infer("heavy", data=random_array(0, 1, 500)).status == 200


class Clients:
    """Threads that ask on connections that they keep, until the server says that it closes them; every request they send must be answered."""

    def __init__(self, server, model, x, count=8):
        self.server, self.model, self.x, self.stop = server, model, x, False
        self.replies, self.errors, self.connected = [], [], []
        self.threads = [threading.Thread(target=self.run) for _ in range(count)]
        for t in self.threads:
            t.start()

    def run(self):
        connection = self.server.connect()
        try:
            connection.connect()
            self.connected.append(connection)
            while not self.stop:
                reply = self.server.infer(self.model, connection, data=self.x)
                self.replies.append(reply)
                if reply.headers.get("connection") == "close":
                    return
        except Exception as e:  # noqa: BLE001  all of them are lost requests
            self.errors.append(e)

    def wait_for(self, count):
        """Until so many replies have come, and nobody is on the way to a server that is about to end."""
        wait_until(lambda: len(self.replies) >= count and len(self.connected) == len(self.threads) or self.errors)

    def join(self):
        for t in self.threads:
            t.join()
        assert not self.errors, self.errors
        return self.replies


@pytest.mark.parametrize("turn", range(3))
def test_the_end_under_load_loses_nothing(heavy_model, turn):
    path, compute = heavy_model
    server = Server(path, "--max-batch", "4")
    x = random_array(turn, 3, 500)
    clients = Clients(server, "heavy", x)
    clients.wait_for(20 + 7 * turn)
    assert server.end(signal.SIGINT if turn == 2 else signal.SIGTERM) == 0
    for reply in clients.join():
        assert reply.status == 200
        agree(reply.output, compute(x))
    assert server.lines[-1] == "ended"


def test_loading_again_under_load_loses_nothing(serve, tmp_path):
    first = export(perceptron(3), tmp_path / "net", (1, 8))
    server = serve(tmp_path / "net")
    x = random_array(0, 2, 8)
    before = first(x)
    clients = Clients(server, "net", x)
    clients.wait_for(50)
    after = export(perceptron(4), tmp_path / "net", (1, 8))(x)
    assert server.ask("POST", "/v2/repository/models/net/load", b"{}").status == 200
    agree(server.infer("net", data=x).output, after)
    for _ in range(5):
        assert server.ask("POST", "/v2/repository/models/net/load", b"{}").status == 200
    server.process.send_signal(signal.SIGHUP)
    clients.wait_for(len(clients.replies) + 50)
    clients.stop = True
    replies = clients.join()
    for r in replies:
        assert r.status == 200
        agree(r.output, before if r.output.shape == before.shape else after)
    assert {r.output.shape for r in replies} == {before.shape, after.shape}


def test_unload_and_load(serve, models):
    server = serve(models.folder / "mlp")
    x = random_array(0, 1, 8)
    assert server.infer("mlp", data=x).status == 200
    assert server.ask("POST", "/v2/repository/models/mlp/unload").status == 200
    assert server.infer("mlp", data=x).status == server.get("/v2/models/mlp/ready").status == server.get("/v2/health/ready").status == 503
    assert server.ask("POST", "/v2/repository/index").json[0]["state"] == "UNAVAILABLE"
    assert server.ask("POST", "/v2/repository/models/mlp/load").status == 200
    np.testing.assert_array_equal(server.infer("mlp", data=x).output, models.mlp(x))


def test_a_model_that_cannot_be_loaded_again_stays(serve, tmp_path):
    compute = export(perceptron(3), tmp_path / "net", (1, 8))
    server = serve(tmp_path / "net")
    x = random_array(0, 2, 8)
    (tmp_path / "net-symbol.json").write_text("{")
    reply = server.ask("POST", "/v2/repository/models/net/load")
    assert reply.status == 400 and "net-symbol.json" in reply.json["error"]
    np.testing.assert_array_equal(server.infer("net", data=x).output, compute(x))


def resident(process):
    return next(int(line.split()[1]) for line in open(f"/proc/{process.pid}/status") if line.startswith("VmRSS")) * 1024


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the address sanitizer keeps memory that was given back")
def test_memory_stays_flat_at_overload(serve, heavy_model):
    path, _ = heavy_model
    server = serve(path, "--max-queue", "8", "--workers", "1", "--max-queue-mb", "4")
    x = random_array(0, 32, 500)  # 64 kB

    def ask(_):
        connection = server.connect()
        return [server.infer("heavy", connection, data=x).status for _ in range(10)]

    at_once(16, ask)  # pools and plans are made
    before = resident(server.process)
    statuses = sum((s for _ in range(3) for s in at_once(16, ask)), [])
    assert 429 in statuses and 200 in statuses and set(statuses) == {200, 429}
    # 480 requests have come, 31 MB; what waits may hold 4.
    assert resident(server.process) - before < 8 << 20
