#!/usr/bin/python3
"""Times Gluino beside PyTorch and ONNX Runtime in one run and writes build/bench/bench.{json,md,svg}.

Every runner is a process that answers requests (bench/runner.h), asked in turn, several rounds a workload, so that a
change of the machine's mood meets all of them. Peers that are missing are named in the report. docs/performance.md says
how to read the tables."""
import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import bench_languages
import bench_report
import npm_packages

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "bench"
PEERS = ROOT / "bench" / "peers"
PYTHON = "/usr/bin/python3"  # the one that has Debian's torch
ANSWER_SECONDS = 300
CELL_SECONDS = 20  # what has taken as long gets no more rounds

# column: runner, mode
COLUMNS = {
    "gluino_eager": ("gluino", "eager"),
    "gluino": ("gluino", "hybrid"),
    "torch_eager": ("torch", "eager"),
    "torch_script": ("torch", "script"),
    "ort": ("ort", "session"),
    "gluino_single": ("gluino on one thread", "hybrid"),  # beside several threads, asked in the same rounds
}
FASTEST_COLUMNS = ["gluino", "torch_script", "ort"]

# workload: multiply-adds, and bytes that must be read at least: the weights, or the arrays of the chain. A training step
# multiplies three times as often as the forward pass, less the gradient of the images.
WORKLOADS = {
    "mlp_b1": (164_096, 4 * 164_482),
    "mlp_b64": (64 * 164_096, 4 * 164_482),
    "lenet": (4_506_240, 4 * 44_426),
    "chain": (0, 3 * 4_000_000),
    "lstm": (32 * 8 * 1024 * (128 + 256 + 256 + 256), 4 * 921_600),
    "encoder": (4 * 128 * (4 * 256 * 256 + 2 * 256 * 1024 + 2 * 128 * 256), 4 * 3_159_040),
    "resnet18": (1_814_073_344, 4 * 11_689_512),
    "resnet50": (3_857_973_248, 4 * 25_575_912),
    "mobilenet_v2": (313_619_328, 4 * 3_504_960),
    "train_lenet": (3 * 18_024_960 - 5_529_600, 4 * 44_426),
    "train_resnet18": (3 * 1_188_462_592 - 77_070_336, 4 * 11_689_512),
}


def is_training(workload):
    return workload.startswith("train_")


class PeerError(Exception):
    pass


class Runner:
    """A process that is asked for one measurement after the other."""

    def __init__(self, command, threads, environment=None):
        self.log = tempfile.TemporaryFile("w+")
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), **(environment or {}))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=env)

    def ask(self, workload, mode, seconds):
        watch = threading.Timer(ANSWER_SECONDS, self.process.kill)
        watch.start()
        try:
            self.process.stdin.write(f"{workload} {mode} {seconds}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            self.log.seek(0)
            raise PeerError((self.log.read().strip().splitlines() or ["it ended, or did not answer in time"])[-1])
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def quietly(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise PeerError((done.stderr.strip().splitlines() or [f"{command[0]} failed"])[-1])
    return done.stdout


def find_torch():
    try:
        version = quietly([PYTHON, "-c", "import torch; print(torch.__version__)"]).strip()
    except PeerError as e:
        raise PeerError(f"{e}; tools/setup.sh bench installs python3-torch") from e
    return [PYTHON, PEERS / "torch_peer.py", "{threads}"], version


def find_ort(build):
    """Fetches the runtime with npm and lets PyTorch write the models, where they are not there yet."""
    models = OUT / "models"
    try:
        library, version = npm_packages.onnx_runtime()
    except npm_packages.FetchError as e:
        raise PeerError(str(e)) from e
    script = PEERS / "torch_peer.py"
    stale = [w for w in WORKLOADS if not is_training(w) and
             not ((models / f"{w}.onnx").exists() and (models / f"{w}.onnx").stat().st_mtime > script.stat().st_mtime)]
    if stale:
        quietly([PYTHON, script, "--export", models, *stale])
    return [build / "bench" / "ort_peer", "{threads}", library, models], version


def find_runners(build):
    """Commands and versions by runner, and for what is missing the reason."""
    commands, versions, missing = {"gluino": [build / "bench" / "workloads", "{threads}"]}, {}, {}
    for name, find in {"torch": find_torch, "ort": lambda: find_ort(build)}.items():
        try:
            commands[name], versions[name] = find()
        except PeerError as e:
            missing[name] = str(e)
    return commands, versions, missing


def start(commands, name, threads, environment=None):
    return Runner([str(part).format(threads=threads) for part in commands[name]], threads, environment)


def summary(answers, threads):
    """All rounds and their median, the clock the processor's at one thread, because other work on the machine does not stop that one."""
    clocks = {clock: [a[clock] for a in answers] for clock in ("wall_us", "processor_us")}
    times = clocks["processor_us" if threads == 1 else "wall_us"]
    median = statistics.median(times)
    return {**answers[0], **clocks, "rounds_us": times, "us": median, "spread": (max(times) - min(times)) / median}


def compare(commands, workloads, threads, rounds, seconds, columns):
    """All workloads at one number of threads: {workload: {column: summary or {"error": text}}}."""
    starts = {name: lambda name=name: start(commands, name, threads) for name in commands}
    if threads > 1:
        starts[COLUMNS["gluino_single"][0]] = lambda: start(commands, "gluino", 1)
    runners = {name: begin() for name, begin in starts.items()}
    table = {}
    for workload in workloads:
        asked = [c for c in columns if COLUMNS[c][0] in runners and not (c == "ort" and is_training(workload))]
        answers, row, spent = {c: [] for c in asked}, {}, dict.fromkeys(asked, 0.0)
        for turn in range(rounds):
            for column in asked[::-1] if turn % 2 else asked:
                name, mode = COLUMNS[column]
                if column in row or spent[column] > CELL_SECONDS:
                    continue
                begin = time.monotonic()
                try:
                    answers[column].append(runners[name].ask(workload, mode, seconds))
                except PeerError as e:
                    row[column] = {"error": str(e)}
                    if runners[name].process.poll() is not None:
                        runners[name] = starts[name]()
                spent[column] += time.monotonic() - begin
        row.update({c: summary(a, threads) for c, a in answers.items() if c not in row})
        table[workload] = row
        print(f"  {workload}: " + ", ".join(f"{c} {r['us']:.0f}" if "us" in r else f"{c} failed" for c, r in row.items()), file=sys.stderr)
    for runner in runners.values():
        runner.close()
    return table


def compare_beside_a_busy_core(*arguments):
    """The same while another process spins on one core."""
    core = min(os.sched_getaffinity(0))
    spinner = subprocess.Popen([PYTHON, "-c", f"import os\nwhile os.getppid() == {os.getpid()}: pass"])  # ends with us
    try:
        os.sched_setaffinity(spinner.pid, {core})
        return compare(*arguments)
    finally:
        spinner.kill()
        spinner.wait()


def measure_limits(build, workloads, threads):
    """Microseconds that arithmetic and memory need at least: {workload: us}, and the rates behind them."""
    sizes = sorted({WORKLOADS[w][1] for w in workloads})
    rates = json.loads(quietly([str(build / "bench" / "limits"), str(threads), *map(str, sizes)]))
    limits = {}
    for w in workloads:
        multiply_adds, size = WORKLOADS[w]
        limits[w] = max(2e-3 * multiply_adds / rates["gflops"], 1e-3 * size / rates["read_gbps"][str(size)])
    return limits, rates


def first_calls(commands, rounds, seconds):
    """ResNet-50's first call in a process with an empty cache folder, and in the next one, beside the call that follows."""
    cache = OUT / "cache"
    environment = {"XDG_CACHE_HOME": str(cache)}

    def ask(column):
        name, mode = COLUMNS[column]
        runner = start(commands, name, 1, environment)
        try:
            return runner.ask("resnet50", mode, seconds)
        finally:
            runner.close()

    answers = {c: {"first": [], "second": []} for c in ["gluino_eager", *FASTEST_COLUMNS] if COLUMNS[c][0] in commands}
    for _ in range(rounds):
        for column, both in answers.items():
            shutil.rmtree(cache, ignore_errors=True)
            try:
                for answer in both.values():
                    answer.append(ask(column))
            except PeerError:
                continue
    return {column: {process: {k: statistics.median(a[k] for a in given) for k in ("first_us", "wall_us")} for process, given in both.items()}
            for column, both in answers.items() if both["second"]}


def operator_overhead(build, rounds):
    """Nanoseconds of one eager operator on 16 floats, in C++ on both sides."""
    times = {}
    for _ in range(rounds):
        for name, program in {"gluino": "eager_bench", "torch": "torch_bench"}.items():
            if not (build / "bench" / program).exists():
                continue
            text = quietly([str(build / "bench" / program), "--benchmark_filter=add_16", "--benchmark_format=json"],
                           env=dict(os.environ, GLUINO_NUM_THREADS="1", OMP_NUM_THREADS="1"))
            for b in json.loads(text)["benchmarks"]:
                times.setdefault(b["name"], {}).setdefault(name, []).append(b["cpu_time"])
    return {op: {name: statistics.median(t) for name, t in row.items()} for op, row in times.items()}


def generation(build, rounds):
    """Microseconds of a token of a 12-layer decoder, eager and hybridized, and how many plans the later run still made."""
    runs = [json.loads(quietly([str(build / "bench" / "generation_bench")])) for _ in range(rounds)]
    return {kind: {k: statistics.median(r[kind][k] for r in runs) for k in row} for kind, row in runs[0].items()}


def operator_rows(build, quick):
    """Single operators beside their limits: what bench/operators.py measures."""
    rows = OUT / "operators.json"
    quietly([PYTHON, str(ROOT / "bench" / "operators.py"), "--json", str(rows), *(["--quick"] if quick else [])],
            env=dict(os.environ, PYTHONPATH=str(build / "python")))
    return json.loads(rows.read_text())


def served(build, rounds):
    """The server under load: what bench/serve/serve_bench.py measures; nothing where wrk is missing."""
    if not shutil.which("wrk"):
        print("  serve: wrk is needed; tools/setup.sh bench installs it", file=sys.stderr)
        return {}
    rows = OUT / "serve.json"
    quietly([PYTHON, str(ROOT / "bench" / "serve" / "serve_bench.py"), "--build", str(build), "--rounds", str(rounds), "--json", str(rows)],
            env=dict(os.environ, PYTHONPATH=str(build / "python")))
    return json.loads(rows.read_text())


def distributed_rows(build, rounds):
    """Ranks beside one process: what bench/distributed.py measures; nothing where there is no mpirun."""
    if not shutil.which("mpirun"):
        print("mpirun was not found: ranks are not measured", file=sys.stderr)
        return {}
    rows = OUT / "distributed.json"
    quietly([PYTHON, str(ROOT / "bench" / "distributed.py"), "--json", str(rows), "--rounds", str(rounds)], env=dict(os.environ, PYTHONPATH=str(build / "python")))
    return json.loads(rows.read_text())


def onnx_models(build, rounds):
    """The same .onnx files in ONNX Runtime and here: what bench/onnx_models.py measures."""
    rows = OUT / "onnx.json"
    subprocess.run([PYTHON, str(ROOT / "bench" / "onnx_models.py"), "--json", str(rows), "--rounds", str(rounds)], check=True,
                   env=dict(os.environ, PYTHONPATH=str(build / "python")))
    return json.loads(rows.read_text())


def machine():
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}


def write(results):
    """Writes the files, after every part, so that a long run that is stopped leaves what it has; returns the report."""
    text = json.dumps(results, indent=1)
    (OUT / "bench.json").write_text(text)
    results = json.loads(text)  # as a reader of the file finds it
    report = bench_report.markdown(results)
    (OUT / "bench.md").write_text(report)
    if results["threads"]:
        (OUT / "bench.svg").write_text(bench_report.svg(results))
    return report


def main():
    cores = len(os.sched_getaffinity(0))
    sections = ["table", "busy", "first", "overhead", "generation", "operators", "languages", "serve", "distributed", "onnx"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="workloads, separated by commas: " + ", ".join(WORKLOADS))
    parser.add_argument("--sections", default=",".join(sections), help="which parts to run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--quick", action="store_true", help="short measurements of single operators, and not hybridized")
    parser.add_argument("--seconds", type=float, default=0.15, help="of each measurement; at least two calls are made")
    both = ",".join(map(str, dict.fromkeys([1, cores])))
    parser.add_argument("--threads", default=both, help="numbers of threads (default: %(default)s)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    o = parser.parse_args()
    o.build = o.build.resolve()
    workloads = o.only.split(",") if o.only else list(WORKLOADS)
    chosen, threads = o.sections.split(","), [int(t) for t in o.threads.split(",")]
    for unknown in [w for w in workloads if w not in WORKLOADS] + [s for s in chosen if s not in sections]:
        parser.error(f"there is no '{unknown}'")

    OUT.mkdir(parents=True, exist_ok=True)
    commands, versions, missing = find_runners(o.build)
    results = {"machine": machine(), "versions": versions, "missing": missing, "rounds": o.rounds, "seconds": o.seconds,
               "threads": {}, "limits": {}, "rates": {}, "busy": {}, "first": {}, "overhead": {}, "generation": {}, "operators": {},
               "languages": {}, "serve": {}, "distributed": {}, "onnx": {}}
    if "table" in chosen:
        for n in threads:
            print(bench_report.count(str(n)), file=sys.stderr)
            results["limits"][n], results["rates"][n] = measure_limits(o.build, workloads, n)
            results["threads"][n] = compare(commands, workloads, n, o.rounds, o.seconds, COLUMNS)
            write(results)
    if "busy" in chosen and cores > 1 and max(threads) > 1:
        print("one core busy", file=sys.stderr)
        results["busy"] = compare_beside_a_busy_core(commands, workloads, cores, min(o.rounds, 5), o.seconds, [*FASTEST_COLUMNS, "gluino_single"])
        write(results)
    if "first" in chosen and "resnet50" in workloads:
        results["first"] = first_calls(commands, min(o.rounds, 3), o.seconds)
    if "overhead" in chosen:
        results["overhead"] = operator_overhead(o.build, min(o.rounds, 3))
    if "languages" in chosen:
        rows, without = bench_languages.measure(o.build)
        results["languages"] = {"rows": rows, "missing": without}
    if "generation" in chosen:
        results["generation"] = generation(o.build, min(o.rounds, 3))
    if "operators" in chosen:
        results["operators"] = operator_rows(o.build, o.quick)
    if "serve" in chosen:
        results["serve"] = served(o.build, min(o.rounds, 5))
    if "distributed" in chosen:
        results["distributed"] = distributed_rows(o.build, min(o.rounds, 3))
    if "onnx" in chosen:
        results["onnx"] = onnx_models(o.build, min(o.rounds, 5))
    print(write(results))
    print(f"written: {OUT.relative_to(ROOT)}/bench.json, bench.md, bench.svg", file=sys.stderr)


if __name__ == "__main__":
    main()
