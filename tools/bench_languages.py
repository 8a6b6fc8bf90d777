#!/usr/bin/python3
"""What one call of the perceptron at batch 1 costs from each language, on one thread: microseconds, the best of many rounds.

    tools/bench_languages.py --build build/release

A part of tools/bench.py. The packages of bindings/ bring a bench.sh each, which is given the model and answers with a line of JSON; what cannot
run here is named with its reason. Beside them ONNX Runtime's package for Node, where npm can fetch it, on a network of the same layers."""
import argparse
import array
import json
import math
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77
EXPORT = """
import sys, time
import gluino as mx
from gluino.gluon import nn
net = nn.HybridSequential()
net.add(nn.Dense(256, activation="relu"), nn.Dense(128, activation="relu"), nn.Dense(2))
net.initialize()
net.hybridize()
x = mx.nd.zeros((1, 512))
net(x)
net.export(sys.argv[1])
def one_round(calls=2000):
    start = time.process_time()
    for _ in range(calls):
        net(x)
    return (time.process_time() - start) / calls * 1e6
print('{"Python": %.3f}' % min(one_round() for _ in range(30)))
"""


def message(number, content):
    """A field of a protobuf message: a whole number, or bytes and texts with their length."""
    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def onnx_perceptron(path):
    """The perceptron in ONNX's format; the values of the weights do not matter for the time."""
    def value(name, *shape):
        extents = b"".join(message(1, message(1, n)) for n in shape)
        return message(1, name) + message(2, message(1, message(1, FLOAT) + message(2, extents)))

    def tensor(name, *shape):
        count = math.prod(shape)
        return b"".join(message(1, n) for n in shape) + message(2, FLOAT) + message(8, name) + message(9, (array.array("f", [0.01]) * count).tobytes())

    def node(op, inputs, output, attributes=b""):
        return message(1, b"".join(message(1, i) for i in inputs) + message(2, output) + message(4, op) + attributes)

    FLOAT, INT = 1, 2
    transposed = message(5, message(1, "transB") + message(3, 1) + message(20, INT))
    graph, before, last = b"", 512, "data"
    for i, width in enumerate([256, 128, 2]):
        graph += message(5, tensor(f"w{i}", width, before)) + message(5, tensor(f"b{i}", width))
        graph += node("Gemm", [last, f"w{i}", f"b{i}"], f"y{i}", transposed)
        last = f"y{i}"
        if i < 2:
            graph += node("Relu", [last], f"r{i}")
            last = f"r{i}"
        before = width
    graph += message(2, "perceptron") + message(11, value("data", 1, 512)) + message(12, value(last, 1, 2))
    path.write_bytes(message(1, 8) + message(8, message(2, 13)) + message(7, graph))


def ort_for_node(folder):
    """The folder of ONNX Runtime's package, fetched with npm; None where that is not possible."""
    package = folder / "node_modules" / "onnxruntime-node"
    if not package.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["npm", "install", "--silent", "--no-save", "--ignore-scripts", "--prefix", folder, "onnxruntime-node"],
                           capture_output=True, timeout=300, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
    return package


def measure(build):
    """({row: microseconds}, {language: why it has none})."""
    out = ROOT / "build" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    stem, onnx = out / "languages_mlp", out / "languages_mlp.onnx"
    env = dict(os.environ, OMP_NUM_THREADS="1", GLUINO_NUM_THREADS="1", PYTHONPATH=str(build / "python"), GLUINO_LIB=str(build / "src"),
               GLUINO_INCLUDE=str(ROOT / "include"))
    commands = {"Python": ["/usr/bin/python3", "-c", EXPORT, stem], "C and C++": [build / "bench" / "call_cost", stem]}
    for script in sorted((ROOT / "bindings").glob("*/bench.sh")):
        commands[script.parent.name] = ["bash", script, f"{stem}-symbol.json"]
    if "node" in commands and (package := ort_for_node(out / "onnxruntime-for-node")):
        onnx_perceptron(onnx)
        env["GLUINO_ORT"] = str(package)
        commands["node"].append(onnx)
    rows, missing = {}, {}
    for name, command in commands.items():
        try:
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env, timeout=600)
            answer = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["it said nothing"]
            if done.returncode:
                missing[name] = answer[-1] if done.returncode == SKIPPED else (done.stderr.strip().splitlines() or answer)[-1]
            else:
                rows.update(json.loads(answer[-1]))
        except (OSError, subprocess.SubprocessError, ValueError) as e:
            missing[name] = str(e)
    return rows, missing


def markdown(rows, missing):
    """The table, with what each row costs beyond the call in C++."""
    base = rows.get("C++", 0)
    lines = ["| from | µs | beyond C++ |", "|---|---:|---:|"]
    lines += [f"| {name} | {us:.2f} | {us - base:.2f} |" for name, us in sorted(rows.items(), key=lambda row: row[1])]
    lines += [f"\nNot measured: {name}: {why}" for name, why in missing.items()]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    print(markdown(*measure(parser.parse_args().build.resolve())))


if __name__ == "__main__":
    main()
