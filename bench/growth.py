#!/usr/bin/env python3
"""How costs grow with a network's length, from Python: what bench/growth.cc measures in C++.

    PYTHONPATH=$(make -s pythonpath) /usr/bin/python3 bench/growth.py [N...]
"""
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("GLUINO_NUM_THREADS", "1")

import gluino as mx  # noqa: E402
from gluino import autograd, gluon  # noqa: E402
from gluino.gluon import nn  # noqa: E402


def milliseconds(function):
    start = time.process_time()
    function()
    return (time.process_time() - start) * 1e3


def fastest(function):
    return min(milliseconds(function) for _ in range(5))


def measure(layers):
    x = mx.nd.ones((4, 8))

    def network():
        net = nn.HybridSequential()
        for _ in range(layers):
            net.add(nn.Dense(8, in_units=8), nn.LayerNorm(in_channels=8))
        net.initialize()
        return net
    rows, made = {}, []
    rows["build"] = milliseconds(lambda: made.append(network()))
    net = made.pop()

    def step():
        with autograd.record():
            y = net(x)
        y.backward()
    net(x)
    rows["eager step"] = fastest(step)
    net.hybridize()
    rows["first call"] = milliseconds(lambda: net(x))
    rows["cached call"] = fastest(lambda: net(x))
    rows["first step"] = milliseconds(step)
    rows["cached step"] = fastest(step)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    rows["first update"] = milliseconds(lambda: trainer.step(1))
    rows["update"] = fastest(lambda: trainer.step(1, ignore_stale_grad=True))
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "net")
        rows["export"] = milliseconds(lambda: net.export(path))
        rows["import"] = milliseconds(lambda: gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")(x))
    return rows


def main():
    lengths = [int(a) for a in sys.argv[1:]] or [50, 200, 800, 3200]
    measure(2)  # what only the first call of a process does
    columns = [measure(n) for n in lengths]
    print(f"{'layers':14}" + "".join(f"{n:11}" for n in lengths) + f"{'per layer':>14}")
    for name in columns[0]:
        second = min(1, len(columns) - 1)
        ratio = (columns[-1][name] / lengths[-1]) / (columns[second][name] / lengths[second])
        print(f"{name:14}" + "".join(f"{c[name]:11.2f}" for c in columns) + f"{ratio:14.2f}")


if __name__ == "__main__":
    main()
