#!/usr/bin/env python3
"""How much faster N ranks are than one: a model of what a step costs, as a small simulator, and a check of it against measured runs.

    tools/scaling.py predict --forward 20 --backward 40 --update 3 --megabytes 45     # milliseconds of one rank's step, size of the gradients
    PYTHONPATH=$(make -s pythonpath) tools/scaling.py check --ranks 2 4 8 --gbit 1 10   # runs a network on this machine and compares

The model. Backward computes gradients in the order in which they leave; bucket k is whole when the share of backward that stands before it has
run. One bucket is sent after the other, by a thread beside the one that computes:

    time of a bucket of S bytes = agreement + 2 (latency + (N - 1) message) + 2 (N - 1) / N * S / bandwidth + S / adding
    agreement                   = 2 ceil(log2 N) latency                        all ranks show each other a hash of what they send
    step                        = max(forward + backward, end of the last bucket) + update
    efficiency                  = (forward + backward + update) of one rank / step

`message` is what a rank pays for each message, `adding` the bytes per second at which it adds up what has come. Without overlap the first
bucket leaves when backward is over.
"""
import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

LATENCY, MESSAGE, ADDING = 20e-6, 2e-6, 4e9  # seconds, seconds, bytes per second


def bucket_seconds(size, ranks, gbit, latency=LATENCY, message=MESSAGE, adding=ADDING):
    """How long one bucket of `size` bytes is under way among `ranks`."""
    agreement = 2 * math.ceil(math.log2(ranks)) * latency
    return agreement + 2 * (latency + (ranks - 1) * message) + 2 * (ranks - 1) / ranks * size / (gbit * 1e9 / 8) + size / adding


def step_seconds(forward, backward, update, buckets, ranks, gbit, overlap=True, **network):
    """One step of each of `ranks`; `buckets` are their bytes in the order in which they leave."""
    if ranks == 1:
        return forward + backward + update
    total, done, free = sum(buckets) or 1, 0, 0.0
    for size in buckets:
        done += size
        whole = forward + backward * (done / total if overlap else 1)
        free = max(free, whole) + bucket_seconds(size, ranks, gbit, **network)
    return max(free, forward + backward) + update


def predict(options):
    """Prints the table of efficiencies."""
    count = max(1, round(options.megabytes / options.bucket))
    buckets = [options.megabytes * 2**20 / count] * count
    forward, backward, update = (x / 1000 for x in (options.forward, options.backward, options.update))
    alone = forward + backward + update
    print(f"{count} buckets of {options.megabytes / count:.1f} MB, step of one rank {alone * 1000:.1f} ms; efficiency in %, with overlap (without)")
    print("ranks  " + "".join(f"{f'{g:g} Gbit/s':>16}" for g in options.gbit))
    ranks = 2
    while ranks <= options.most:
        cells = []
        for gbit in options.gbit:
            both = [100 * alone / step_seconds(forward, backward, update, buckets, ranks, gbit, o, latency=options.latency * 1e-6) for o in (True, False)]
            cells.append(f"{both[0]:>9.1f} ({both[1]:.1f})")
        print(f"{ranks:>5}  " + "".join(f"{c:>16}" for c in cells))
        ranks *= 2


# ---- the check: a network that is trained here

LAYERS, WIDTH, BATCH, STEPS = 6, 1024, 16, 12


def worker(kvstore):
    """Trains on every rank; rank 0 prints medians of its times in seconds, as JSON."""
    import gluino as mx
    from gluino import autograd, distributed, gluon
    mx.random.seed(1)
    net = gluon.nn.HybridSequential()
    for _ in range(LAYERS):
        net.add(gluon.nn.Dense(WIDTH, in_units=WIDTH, activation="relu", use_bias=False))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-4}, kvstore=kvstore)
    x = mx.nd.random.normal(shape=(BATCH, WIDTH))
    times = []
    for _ in range(STEPS + 3):
        distributed.barrier()
        start = time.perf_counter()
        with autograd.record():
            loss = net(x).sum()
        loss.wait_to_read()
        forward = time.perf_counter()
        loss.backward()
        backward = time.perf_counter()
        trainer.step(BATCH * distributed.size())
        end = time.perf_counter()
        times.append((forward - start, backward - forward, end - backward, end - start))
    medians = [statistics.median(column) for column in zip(*times[3:])]
    everywhere = distributed.all_reduce(mx.nd.array(medians, dtype="float64"), "mean").asnumpy().tolist()
    if distributed.rank() == 0:
        print("RESULT " + json.dumps(everywhere))


def run_ranks(ranks, kvstore, gbit=None):
    """What rank 0 printed: forward, backward, the rest, the whole step."""
    environment = {**os.environ, "GLUINO_NUM_THREADS": "1", "GLUINO_JIT": "off"}
    if gbit:
        environment["GLUINO_DISTRIBUTED_GBIT"] = str(gbit)
    done = subprocess.run([shutil.which("mpirun"), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), sys.executable,
                           os.path.abspath(__file__), "worker", kvstore], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))[7:])


def check(options):
    """Predicts each run from the same number of ranks that do not talk, which share this machine's cores as those that do."""
    if not shutil.which("mpirun"):
        sys.exit("scaling: mpirun was not found; install openmpi-bin")
    buckets = [WIDTH * WIDTH * 4] * LAYERS
    print(f"{LAYERS} gradients of {buckets[0] / 2**20:.0f} MB, emulated bandwidth; milliseconds per step")
    print("ranks  Gbit/s   silent  predicted  measured  measured/predicted")
    worst = 1.0
    for ranks in options.ranks:
        forward, backward, update, step = run_ranks(ranks, "device")
        for gbit in options.gbit:
            expected = step_seconds(forward, backward, update, buckets, ranks, gbit)
            measured = run_ranks(ranks, "dist_sync", gbit)[3]
            ratio = measured / expected
            worst = max(worst, ratio, 1 / ratio)
            print(f"{ranks:>5}  {gbit:>6g}  {step * 1000:>7.1f}  {expected * 1000:>9.1f}  {measured * 1000:>8.1f}  {ratio:>8.2f}", flush=True)
    print(f"furthest from the model: a factor of {worst:.2f}")


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("predict", help="efficiencies for 2 to 1024 ranks")
    p.add_argument("--forward", type=float, required=True, help="milliseconds")
    p.add_argument("--backward", type=float, required=True, help="milliseconds")
    p.add_argument("--update", type=float, default=0, help="milliseconds")
    p.add_argument("--megabytes", type=float, required=True, help="size of all gradients as they are sent")
    p.add_argument("--bucket", type=float, default=4, help="megabytes of one bucket")
    p.add_argument("--latency", type=float, default=LATENCY * 1e6, help="microseconds of the network")
    p.add_argument("--gbit", type=float, nargs="+", default=[1, 10, 100])
    p.add_argument("--most", type=int, default=1024, help="ranks")
    c = commands.add_parser("check", help="compare with runs on this machine")
    c.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    c.add_argument("--gbit", type=float, nargs="+", default=[0.5, 1, 10])
    commands.add_parser("worker").add_argument("kvstore")
    options = parser.parse_args()
    {"predict": predict, "check": check, "worker": lambda o: worker(o.kvstore)}[options.command](options)


if __name__ == "__main__":
    main()
