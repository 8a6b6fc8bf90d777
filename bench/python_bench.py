#!/usr/bin/env python3
"""What a call costs from Python, beside PyTorch where it is installed: best of several rounds, on one thread.

    PYTHONPATH=$(make -s pythonpath) /usr/bin/python3 bench/python_bench.py
"""
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLUINO_NUM_THREADS", "1")

import gluino as mx  # noqa: E402
from gluino.gluon import nn  # noqa: E402


def best(function, calls, rounds=7):
    """Processor time of one call in microseconds: other work on the machine does not count."""
    function()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(calls):
            function()
        times.append((time.process_time() - start) / calls * 1e6)
    return min(times)


def gluino_rows():
    a, b = mx.nd.ones((16,)), mx.nd.ones((16,))
    x = mx.nd.random.normal(shape=(1, 512))
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu"), nn.Dense(128, activation="relu"), nn.Dense(2))
    net.initialize()
    net(x)
    rows = {"add, 16 floats": best(lambda: mx.nd.add(a, b), 50000), "a + b, 16 floats": best(lambda: a + b, 50000),
            "sum(axis=0), 16 floats": best(lambda: mx.nd.sum(a, axis=0), 20000), "MLP, eager": best(lambda: net(x), 2000)}
    net.hybridize()
    rows["MLP, compiled"] = best(lambda: net(x), 5000)
    # The network of hybrid_bench's hybridized_call: almost nothing but the call itself.
    small, y = nn.HybridSequential(), mx.nd.ones((1, 4))
    small.add(nn.Dense(4, activation="relu"), nn.Dense(4, activation="relu"), nn.Dense(2))
    small.initialize()
    small.hybridize()
    small(y)
    rows["hybridized_call"] = best(lambda: small(y), 50000)
    return rows


def torch_rows():
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    a, b = torch.ones(16), torch.ones(16)
    x = torch.randn(1, 512)
    net = torch.nn.Sequential(torch.nn.Linear(512, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2))
    with torch.no_grad():
        rows = {"add, 16 floats": best(lambda: torch.add(a, b), 50000), "a + b, 16 floats": best(lambda: a + b, 50000),
                "sum(axis=0), 16 floats": best(lambda: torch.sum(a, dim=0), 20000), "MLP, eager": best(lambda: net(x), 2000)}
        script = torch.jit.script(net)
        rows["MLP, compiled"] = best(lambda: script(x), 5000)
    return rows


def main():
    """Prints the table."""
    ours, theirs = gluino_rows(), torch_rows()
    print(f"{'from Python':<28}{'gluino':>12}{'PyTorch':>12}{'PyTorch/gluino':>17}")
    for name, value in ours.items():
        other = f"{theirs[name]:.2f} us" if name in theirs else ""
        ratio = f"{theirs[name] / value:.2f}" if name in theirs else ""
        print(f"{name:<28}{value:>9.2f} us{other:>12}{ratio:>17}")
    print(f"hybridize() makes the MLP {ours['MLP, eager'] / ours['MLP, compiled']:.1f} times as fast")
    if not theirs:
        print("PyTorch was not found: install python3-torch to compare with it")


if __name__ == "__main__":
    main()
