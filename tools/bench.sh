#!/usr/bin/env bash
# Runs the benchmarks of a build folder and prints one table: gluino, libtorch where it was built, and the ratio.
# Takes the best of several runs, because other work on the machine only ever adds time, and for the same reason counts
# processor time when there is one thread, which is what it uses unless told otherwise.
set -euo pipefail
build=${1:-build/release}
export GLUINO_NUM_THREADS=${GLUINO_NUM_THREADS:-1} OMP_NUM_THREADS=${GLUINO_NUM_THREADS:-1}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for program in eager hybrid torch; do
  [ -x "$build/bench/${program}_bench" ] || continue
  "$build/bench/${program}_bench" --benchmark_repetitions="${REPETITIONS:-5}" --benchmark_min_time=0.2 \
    --benchmark_out_format=json --benchmark_out="$out/$program.json" > /dev/null 2>&1
done
/usr/bin/python3 - "$out" "$GLUINO_NUM_THREADS" <<'PY'
import json, pathlib, sys

CLOCK = "cpu_time" if sys.argv[2] == "1" else "real_time"

def best(path):
    times, rates = {}, {}
    if not path.exists():
        return times, rates
    for b in json.loads(path.read_text())["benchmarks"]:
        if b["run_type"] != "iteration":
            continue
        name = b["run_name"].replace("/real_time", "")
        time = b[CLOCK]
        times[name] = min(times.get(name, float("inf")), time)
        rates[name] = max(rates.get(name, 0), b.get("bytes_per_second", 0) * b["real_time"] / time)
    return times, rates

folder = pathlib.Path(sys.argv[1])
times, rates = best(folder / "eager.json")
for mine, more in zip((times, rates), best(folder / "hybrid.json")):
    mine.update(more)
other, other_rates = best(folder / "torch.json")
print(f"{'benchmark':32}{'gluino':>14}{'GB/s':>8}{'of a copy':>11}{'libtorch':>14}{'libtorch/gluino':>17}")
for name, ns in times.items():
    size = name.partition("/")[2]
    copy = rates.get(f"copy_loop/{size}", 0)
    rate = f"{rates[name] / 1e9:.1f}" if rates[name] else ""
    share = f"{rates[name] / copy:.2f}" if rates[name] and copy else ""
    theirs = f"{other[name]:.0f} ns" if name in other else ""
    ratio = f"{other[name] / ns:.2f}" if name in other else ""
    print(f"{name:32}{ns:>11.0f} ns{rate:>8}{share:>11}{theirs:>14}{ratio:>17}")
if "hybridized_call" in times and "bare_kernels" in times:
    print(f"a cached call of a three-layer perceptron costs {times['hybridized_call'] - times['bare_kernels']:.0f} ns beyond its kernels")
if not other:
    print("libtorch was not found: install libtorch-dev to compare with it")
PY
