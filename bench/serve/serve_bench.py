#!/usr/bin/python3
"""gluino serve under load from wrk on the loopback: requests a second and p99 without and with batching, and at overload.

    PYTHONPATH=$(make -s pythonpath) /usr/bin/python3 bench/serve/serve_bench.py [--rounds 3] [--seconds 3] [--only mlp] [--json FILE]

Each request is one row, its tensor as bytes. "one client": a connection that waits for each answer, so that nothing can be joined. "batch 1": many
connections, --max-batch 1. "batching": the same connections, requests joined. The three are asked in turn, round by round, each of a new
server, so that a change of the machine's mood meets all of them; medians. wrk runs on the same machine and takes its share of it: beside requests a
second stands the server's own processor time of a request, which other work does not lengthen much."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import urllib.request

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONNECTIONS = 64


def dense(*sizes):
    from gluino.gluon import nn
    net = nn.HybridSequential()
    net.add(*(nn.Dense(n, activation="relu") for n in sizes[:-1]), nn.Dense(sizes[-1]))
    return net


def lenet():
    from gluino.gluon import nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 5, activation="relu"), nn.MaxPool2D(2), nn.Dense(120, activation="relu"),
            nn.Dense(84, activation="relu"), nn.Dense(10))
    return net


# name: title, network, shape of one row
MODELS = {
    "mlp": ("MLP 512-256-128-2", lambda: dense(256, 128, 2), (1, 512)),
    "lenet": ("LeNet", lenet, (1, 1, 28, 28)),
    "wide": ("MLP 784-2048-2048-10", lambda: dense(2048, 2048, 10), (1, 784)),  # weights beyond the second-level cache
}
# mode: connections, options of the server
MODES = {"one client": (1, []), "batch 1": (CONNECTIONS, ["--max-batch", "1"]), "batching": (CONNECTIONS, [])}
OVERLOAD_CONNECTIONS = 8 * CONNECTIONS
OVERLOAD = ["--max-queue", str(CONNECTIONS), "--max-queue-mb", "16", "--max-connections", "4096"]


class Server:
    def __init__(self, program, model, options):
        self.process = subprocess.Popen([program, "serve", str(model), "--port", "0", *options], stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if found := re.match(r"listening on http://.*:(\d+)$", line):
                self.port = int(found[1])
            if line == "ready\n":
                return
        raise RuntimeError("the server has not started")

    def processor_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self):
        return int(re.search(r"VmRSS:\s*(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) / 1024

    def rows_a_call(self):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics").read().decode()
        counts = [float(re.search(rf"^{name}\{{.*\}} (\S+)$", text, re.M)[1]) for name in ("gluino_inference_rows_total", "gluino_batches_total")]
        return counts[0] / counts[1]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate()
        if self.process.returncode:
            raise RuntimeError(f"the server ended with {self.process.returncode}")


def load(server, name, body, json_bytes, connections, seconds):
    environment = dict(os.environ, BODY=str(body), JSON_BYTES=str(json_bytes))
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(ROOT / "bench/serve/requests.lua"),
               f"http://127.0.0.1:{server.port}/v2/models/{name}/infer"]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def measured(program, folder, name, body, json_bytes, connections, options, seconds):
    server = Server(program, folder / name, options)
    try:
        load(server, name, body, json_bytes, connections, 1)  # plans are made
        before, memory = server.processor_seconds(), server.resident_mb()
        answer = load(server, name, body, json_bytes, connections, seconds)
        answered = max(answer["requests"], 1)
        return {"rps": answer["requests"] / answer["seconds"], "p50_ms": answer["p50_ms"], "p99_ms": answer["p99_ms"], "broken": answer["broken"],
                "refused": answer["refused"] / answered, "server_us": 1e6 * (server.processor_seconds() - before) / answered,
                "rows": server.rows_a_call(), "grown_mb": server.resident_mb() - memory}
    finally:
        server.end()


def export(folder, name):
    """The model's files, and the body of a request: its path and the number of bytes of JSON."""
    import gluino as mx
    _, make, shape = MODELS[name]
    mx.random.seed(1)
    net = make()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.zeros(shape))
    net.export(str(folder / name))
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    head = json.dumps({"inputs": [{"name": "data", "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}],
                       "parameters": {"binary_data_output": True}}).encode()
    (folder / f"{name}.body").write_bytes(head + x.tobytes())
    return folder / f"{name}.body", len(head)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--json", type=pathlib.Path)
    o = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("wrk is needed: tools/setup.sh bench installs it")
    program = str(o.build / "src/gluino")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in o.only.split(","):
            body, json_bytes = export(folder, name)
            rounds = {mode: [] for mode in [*MODES, "overload"]}
            for _ in range(o.rounds):
                for mode, (connections, options) in MODES.items():
                    rounds[mode].append(measured(program, folder, name, body, json_bytes, connections, options, o.seconds))
            rounds["overload"].append(measured(program, folder, name, body, json_bytes, OVERLOAD_CONNECTIONS, OVERLOAD, o.seconds))
            results[name] = {mode: {k: statistics.median(r[k] for r in all_rounds) for k in all_rounds[0]} for mode, all_rounds in rounds.items()}
            print(f"  {name}: " + ", ".join(f"{mode} {row['rps']:.0f}/s" for mode, row in results[name].items()), file=sys.stderr)
    if o.json:
        o.json.write_text(json.dumps(results, indent=1))
    else:
        sys.path.insert(0, str(ROOT / "tools"))
        import bench_report
        print("\n".join(bench_report.serve_section({"serve": results})))


if __name__ == "__main__":
    main()
