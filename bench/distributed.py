#!/usr/bin/env python3
"""Ranks beside one process, one thread each: samples per second of training LeNet with batch 64 and ResNet-18 with 8 pictures of 64 x 64 per rank.

    PYTHONPATH=$(make -s pythonpath) bench/distributed.py [--ranks 2] [--rounds 5] [--json rows.json] [--trace folder]

--trace: one more run, whose timeline is written to folder/rank*.json for chrome://tracing: buckets of gradients beside backward.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

WORKLOADS = {"LeNet, batch 64": ("lenet", (64, 1, 28, 28)), "ResNet-18, 8 x 64 x 64": ("resnet18", (8, 3, 64, 64))}


def build(name):
    """The network."""
    from gluino.gluon import model_zoo, nn
    if name == "resnet18":
        return model_zoo.vision.resnet18_v1(classes=10)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="relu"), nn.MaxPool2D(2, 2),
            nn.Dense(500, activation="relu"), nn.Dense(10))
    return net


def worker(workload, seconds, trace):
    """Trains for a while on this rank; rank 0 prints the samples per second of all."""
    import gluino as mx
    from gluino import autograd, distributed, gluon
    name, shape = WORKLOADS[workload]
    mx.random.seed(1)
    net = build(name)
    net.initialize(mx.init.Xavier())
    x, y = mx.nd.random.normal(shape=shape), mx.nd.zeros((shape[0],))
    net(x)
    net.hybridize()
    loss_of, ranks = gluon.loss.SoftmaxCrossEntropyLoss(), distributed.size()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9}, kvstore="dist_sync" if ranks > 1 else "device")

    def step():
        with distributed.mark_timeline("forward"), autograd.record():
            loss = loss_of(net(x), y)
        with distributed.mark_timeline("backward"):
            loss.backward()
        with distributed.mark_timeline("step"):
            trainer.step(shape[0] * ranks)

    for _ in range(5):
        step()
    steps = 0
    if trace:
        distributed.start_timeline()
    distributed.barrier()
    start, used = time.perf_counter(), time.process_time()
    # All ranks make as many steps: rank 0 says when it is enough.
    while True:
        for _ in range(5):
            step()
        steps += 5
        enough = bool(trace) or time.perf_counter() - start >= seconds
        if distributed.broadcast(mx.nd.array([float(enough)])).asscalar():
            break
    elapsed, used = time.perf_counter() - start, time.process_time() - used
    if trace:
        distributed.write_timeline(os.path.join(trace, f"rank{distributed.rank()}.json"))
    if distributed.rank() == 0:
        print(f"RESULT {steps * shape[0] * ranks / elapsed} {used / (steps * shape[0])}")


def run(workload, ranks, seconds, trace=""):
    """Samples per second of all ranks, and the seconds of processor time that rank 0 took for one of its own."""
    launcher = [shutil.which("mpirun"), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*launcher, sys.executable, os.path.abspath(__file__), "--worker", workload, "--seconds", str(seconds), "--trace", trace],
                          env={**os.environ, "GLUINO_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True, check=True)
    return [float(x) for x in next(line for line in done.stdout.splitlines() if line.startswith("RESULT ")).split()[1:]]


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--json")
    parser.add_argument("--trace", default="")
    parser.add_argument("--worker", choices=list(WORKLOADS), help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.worker:
        worker(o.worker, o.seconds, o.trace)
        return
    if not shutil.which("mpirun"):
        sys.exit("mpirun was not found; install openmpi-bin")
    rows = {}
    for workload in WORKLOADS:
        # Side by side: what else the machine does at a moment meets both.
        rounds = [(run(workload, 1, o.seconds), run(workload, o.ranks, o.seconds)) for _ in range(o.rounds)]
        alone, together = (statistics.median(rate for rate, _ in column) for column in zip(*rounds))
        # By processor time: what ranks would reach if each had a core of its own and none waited for another. Beside other programs it says
        # more than the clock does.
        rows[workload] = {"ranks": o.ranks, "alone": alone, "together": together, "times": statistics.median(t[0] / a[0] for a, t in rounds),
                          "by_processor_time": statistics.median(o.ranks * a[1] / t[1] for a, t in rounds), "load": os.getloadavg()[0]}
        row = rows[workload]
        print(f"{workload}: one process {alone:.0f} samples/s, {o.ranks} ranks {together:.0f}: {row['times']:.2f} times, {row['by_processor_time']:.2f} by "
              f"processor time (load {row['load']:.1f}, {os.cpu_count()} cores)", flush=True)
        if o.trace:
            pathlib.Path(o.trace).mkdir(parents=True, exist_ok=True)
            run(workload, o.ranks, o.seconds, o.trace)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
