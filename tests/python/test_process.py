"""Interpreter exit, threads, forked workers, memory: no crash, no leak."""
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_exit_with_everything_alive():
    assert run("""
import mxnet as mx
from mxnet import gluon, nd, autograd
from mxnet.gluon import nn
class F(autograd.Function):
    def forward(self, x): return x * 2
    def backward(self, dy): return dy * 2
net = nn.Dense(2); net.initialize(); net.hybridize()
x = nd.ones((1, 3)); x.attach_grad()
with autograd.record():
    y = F()(net(x))
f = mx.hybrid(lambda a: a + 1); f(x)
leaked = [net, y, f, x]
leaked.append(leaked)
print('done')
""") == "done\n"


def test_exit_while_a_thread_computes():
    assert run("""
import threading, mxnet as mx
from mxnet import nd
def work():
    x = nd.ones((300, 300))
    while True: x = nd.dot(x, x) * 0
threading.Thread(target=work, daemon=True).start()
print('done')
""") == "done\n"


def test_many_threads_share_a_network():
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu"), nn.Dense(4))
    net.initialize()
    xs = [nd.random.normal(shape=(1 + i % 3, 8)) for i in range(8)]
    want = [net(x).asnumpy() for x in xs]
    net.hybridize()
    errors = []

    def work(number):
        try:
            for _ in range(40):
                x, w = xs[number], want[number]
                np.testing.assert_allclose(net(x).asnumpy(), w, rtol=1e-5, atol=1e-6)
                y = x.copy()
                y.attach_grad()
                with autograd.record():
                    z = (y * y).sum()
                z.backward()
                np.testing.assert_allclose(y.grad.asnumpy(), 2 * x.asnumpy(), rtol=1e-6)
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


class Squares(gluon.data.Dataset):
    """Items computed by the engine, in whichever process asks."""

    def __len__(self):
        return 20

    def __getitem__(self, i):
        if i == getattr(self, "bad", None):
            raise ValueError(f"item {i} is bad")
        return nd.dot(nd.ones((3, 3)) * i, nd.ones((3, 3))), np.float32(os.getpid())


@pytest.mark.parametrize("threads", [False, True], ids=["processes", "threads"])
def test_data_loader_workers(threads):
    nd.dot(nd.ones((64, 64)), nd.ones((64, 64)))  # the parent's thread pools exist before the fork
    loader = gluon.data.DataLoader(Squares(), batch_size=4, num_workers=2, thread_pool=threads)
    values, processes = zip(*list(loader))
    got = np.concatenate([v.asnumpy() for v in values])
    assert got.shape == (20, 3, 3) and (got[:, 0, 0] == 3 * np.arange(20)).all()
    here = {np.float32(os.getpid())}
    assert (set(np.concatenate([p.asnumpy() for p in processes]).tolist()) == here) == threads


def test_an_exception_of_a_worker_comes_back():
    data = Squares()
    data.bad = 7
    with pytest.raises(ValueError, match="item 7 is bad"):
        list(gluon.data.DataLoader(data, batch_size=4, num_workers=1))


def test_blocks_and_programs_are_collected():
    net = nn.HybridSequential()
    net.add(nn.Dense(4), nn.Dense(2))
    net.initialize()
    net.hybridize()
    with autograd.record():
        net(nd.ones((1, 3))).backward()
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_memory_does_not_grow():
    net = nn.Dense(8)
    net.initialize()
    x = nd.ones((16, 8))

    def work(times):
        for i in range(times):
            if i % 10 == 0:
                net.hybridize(i % 20 == 0)
            with autograd.record():
                loss = (net(x) * nd.ones((8,))).sum()
            loss.backward()
            f = mx.hybrid(lambda a: a * 2 + x)
            f(x)
    work(60)
    gc.collect()
    before = mx._core.memory_stats(0)["live"]
    work(60)
    gc.collect()
    assert mx._core.memory_stats(0)["live"] <= before


def is_running(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_workers_end_with_a_killed_parent():
    code = """
import os, time
from gluino import gluon
class Data(gluon.data.Dataset):
    def __len__(self): return 1000000
    def __getitem__(self, i): return float(os.getpid())
batches = iter(gluon.data.DataLoader(Data(), batch_size=2, num_workers=2))
seen = set()
while len(seen) < 2: seen.add(int(next(batches)[0].asscalar()))
print(*seen, flush=True)
if os.fork() == 0:  # another child, which lives on, does not keep them
    time.sleep(60)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 2 and all(map(is_running, workers))
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [worker for worker in workers if is_running(worker)]
    os.killpg(parent.pid, signal.SIGKILL)
    parent.stdout.close()
    assert not left


def test_a_forked_child_computes_while_threads_did():
    assert run("""
import os, signal, threading, time
from gluino import nd
a, x, w = nd.random.normal(shape=(300, 300)), nd.random.normal(shape=(2, 8, 20, 20)), nd.random.normal(shape=(8, 8, 3, 3))
def compute():
    nd.dot(a, a).sum().asscalar(); nd.random.normal(shape=(100,)); (a * 2 + 1).softmax()
    nd.Convolution(x, w, no_bias=True, kernel=(3, 3), num_filter=8)
def work():
    while True: compute()
for _ in range(3): threading.Thread(target=work, daemon=True).start()
ends = set()
for _ in range(30):
    time.sleep(0.002)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        compute()
        os._exit(0)
    ends.add(os.waitpid(child, 0)[1])
print(ends, flush=True)
os._exit(0)
""") == "{0}\n"
