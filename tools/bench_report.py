"""Turns what tools/bench.py measured into Markdown tables and a plot."""
import math
import statistics

import bench_languages

TITLES = {
    "mlp_b1": "MLP 512-256-128-2, batch 1",
    "mlp_b64": "MLP 512-256-128-2, batch 64",
    "lenet": "LeNet, batch 16",
    "chain": "10 elementwise operators on 1M",
    "lstm": "LSTM 128→256 ×2, T 32, batch 8",
    "encoder": "transformer encoder 4×256, T 128",
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "mobilenet_v2": "MobileNetV2",
    "train_lenet": "training step, LeNet batch 64",
    "train_resnet18": "training step, ResNet-18 8×3×64×64",
}
COLUMNS = {
    "gluino_eager": "Gluino eager",
    "gluino": "Gluino hybridized",
    "torch_eager": "PyTorch eager",
    "torch_script": "PyTorch script",
    "ort": "ONNX Runtime",
}
PEERS = {"torch": "PyTorch", "ort": "ONNX Runtime"}
# The ratios that the project wants at one thread: to ONNX Runtime and to PyTorch.
WANTED = {
    "mlp_b1": (1.6, 5), "mlp_b64": (1.0, 1.0), "lenet": (1.4, 3), "chain": (1.8, 4), "lstm": (1.1, 2.2), "encoder": (1.4, 1.0),
    "resnet18": (1.2, 1.4), "resnet50": (1.05, 1.2), "mobilenet_v2": (1.0, 1.15), "train_lenet": (None, 3), "train_resnet18": (None, 1.6),
}


def count(threads):
    return f"{threads} thread" + "s" * (threads != "1")


def us(cell):
    """The median of the rounds."""
    return cell.get("us") if cell else None


def number(x):
    return "–" if x is None else f"{x:,.0f}" if x >= 100 else f"{x:.1f}"


def timed(cell):
    if cell and "error" in cell:
        return "failed"
    return "–" if us(cell) is None else f"{number(cell['us'])} ±{50 * cell['spread']:.0f}%"


def torch_columns(workload):
    """TorchScript; of a training step, the better of both ways."""
    return ["torch_script", "torch_eager"] if workload.startswith("train_") else ["torch_script"]


def ratios(workload, row, ratio):
    """Time of the peer / time of Gluino hybridized, for ONNX Runtime and PyTorch; `ratio` makes one of two cells."""
    mine = row.get("gluino")
    found = [[ratio(row[c], mine) for c in columns if us(row.get(c)) and us(mine)] for columns in (["ort"], torch_columns(workload))]
    return [min(of_peer, default=None) for of_peer in found]


def by_rounds(theirs, mine):
    """The median of the ratios within one round: what slows the machine for a while slows both."""
    return statistics.median(t / m for t, m in zip(theirs["rounds_us"], mine["rounds_us"]))


def of_fastest(theirs, mine):
    return min(theirs["rounds_us"]) / min(mine["rounds_us"])


def ratio_cell(x, fastest, wanted):
    return "–" if x is None else f"{x:.2f}, fastest {fastest:.2f}" + (f" (≥ {wanted:g})" if wanted else "")


def agreement(row):
    """Whether all columns computed the same: parameters, shape of the output, and its product with fixed numbers."""
    mine = row.get("gluino")
    if us(mine) is None:
        return "–"
    different = []
    for column, theirs in row.items():
        if us(theirs) is None:
            continue
        same_size = theirs["parameters"] in (0, mine["parameters"]) and theirs["shape"] == mine["shape"]
        if not same_size or abs(theirs["dot"] - mine["dot"]) > 1e-3 * mine["norm"]:
            different.append(COLUMNS.get(column, column))
    return "NO: " + ", ".join(different) if different else "yes" if len(row) > 1 else "–"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def threads_section(results, threads):
    rows, many = results["threads"][threads], threads != "1"
    header = ["µs", *COLUMNS.values(), "limit", "ONNX Runtime / Gluino", "PyTorch / Gluino", "same result"] + ["speedup"] * many
    body = []
    for w, row in rows.items():
        wanted = WANTED[w] if threads == "1" else (None, None)
        line = [TITLES[w], *(timed(row.get(c)) for c in COLUMNS), number(results["limits"][threads][w])]
        line += [ratio_cell(*cell) for cell in zip(ratios(w, row, by_rounds), ratios(w, row, of_fastest), wanted)] + [agreement(row)]
        if many:
            one, now = row.get("gluino_single"), row.get("gluino")
            line.append(f"{by_rounds(one, now):.2f}" if us(one) and us(now) else "–")
        body.append(line)
    rates = results["rates"][threads]
    speeds = sorted((int(size) / 1e6, rate) for size, rate in rates["read_gbps"].items())
    read = ", ".join(f"{rate:.0f} from {size:.1f} MB" for size, rate in speeds)
    note = f"Measured for the limit: {rates['gflops']:.0f} GFLOP/s; GB/s read: {read}."
    clock = ", processor time" if threads == "1" else ", time that passed"
    return [f"## {count(threads)}{clock}", "", *table(header, body), note, ""]


def busy_section(results):
    columns = ["gluino", "torch_script", "ort"]
    single, body = results["threads"].get("1", {}), []
    for w, row in results["busy"].items():
        line = [TITLES[w]]
        for c in columns:
            alone, beside = single.get(w, {}).get(c), row.get(c)
            times = us(beside) / us(alone) if us(alone) and us(beside) else None
            if c == "gluino" and us(row.get("gluino_single")) and us(beside):
                times = by_rounds(beside, row["gluino_single"])
            line.append(timed(beside) + (f" = {times:.2f} × 1 thread" if times else ""))
        body.append(line)
    header = ["µs", *(COLUMNS[c] for c in columns)]
    return [f"## {results['machine']['cores']} threads while another process keeps one core busy", "", *table(header, body)]


def first_section(results):
    first, body = results["first"], []
    eager = first.get("gluino_eager", {}).get("second", {}).get("wall_us")
    for column, processes in first.items():
        line = [COLUMNS[column]]
        for p in processes.values():
            extra = p["first_us"] - p["wall_us"]
            line += [number(p["first_us"]), number(p["wall_us"]), f"{extra / eager:.2f}" if eager else "–"]
        body.append(line)
    kinds = ["first call", "later calls", "beyond, in eager calls"]
    header = ["ResNet-50, µs", *kinds, *(f"{kind}, 2nd process" for kind in kinds)]
    return ["## First call", "", *table(header, body)]


def generation_section(results):
    body = [[kind, number(row["eager_us"]), number(row["hybridized_us"]), f"{row['eager_us'] / row['hybridized_us']:.2f}", number(row["first_us"]),
             number(row["second_us"]), str(int(row["traces"])), str(int(row["plans_first"])), str(int(row["plans_later"]))] for kind, row in results["generation"].items()]
    header = ["µs a token", "eager", "hybridized (the third 200)", "eager / hybridized", "the first 200", "the second 200", "traces", "plans for the first 200",
              "for the third"]
    return ["## A 12-layer decoder generates 200 tokens, one thread", "", *table(header, body)]


def overhead_section(results):
    body = []
    for op, row in results["overhead"].items():
        mine, theirs = row.get("gluino"), row.get("torch")
        body.append([op, number(mine), number(theirs), f"{theirs / mine:.2f}" if mine and theirs else "–"])
    return ["## One eager operator on 16 floats", "", *table(["ns", "Gluino", "libtorch", "libtorch / Gluino"], body)]


def distributed_section(results):
    body = [[name, number(row["alone"]), str(row["ranks"]), number(row["together"]), f"{row['times']:.2f}", f"{row['by_processor_time']:.2f}",
             f"{row['load']:.1f}"] for name, row in results["distributed"].items()]
    header = ["samples a second", "one process", "ranks", "together", "times", "times by processor time", "load of the machine"]
    return ["## Training on ranks, one thread each", "", *table(header, body)]


def operators_section(results):
    """Single operators, the furthest from its limit first."""
    rows = results["operators"]
    columns = ["limit", "share", "eager", "hybridized", "step", "torch_eager", "ratio", "torch_step", "step_ratio"]
    columns = [c for c in columns if any(c in row for row in rows.values())]

    def cell(row, column):
        if column not in row:
            return "–"
        return f"{row[column]:.2f}" if column in ("share", "ratio", "step_ratio") else number(row[column])
    lines = ["## Single operators", "", "| operator | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for name, row in rows.items():
        cells = [row["error"][:80]] + [""] * (len(columns) - 1) if "error" in row else [cell(row, c) for c in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines.append("")
    for title, key in {"share of the limit": "share", "PyTorch / Gluino": "ratio", "the same with backward": "step_ratio"}.items():
        values = [row[key] for row in rows.values() if key in row]
        if values:
            mean = math.exp(statistics.fmean(map(math.log, values)))
            lines.append(f"- {title}: geometric mean {mean:.2f} of {len(values)} operators, lowest {min(values):.2f}")
    return [*lines, ""]


SERVED = {"mlp": "MLP 512-256-128-2", "lenet": "LeNet", "wide": "MLP 784-2048-2048-10"}


def serve_section(results):
    """The server under load: without and with batching, and at overload."""
    body = []
    for name, modes in results["serve"].items():
        for mode, row in modes.items():
            ratios = [f"{row['rps'] / modes[other]['rps']:.2f}" if mode == "batching" else "–" for other in ("batch 1", "one client")]
            body.append([f"{SERVED[name]}, {mode}", number(row["rps"]), *ratios, f"{row['p50_ms']:.2f}", f"{row['p99_ms']:.2f}", f"{row['rows']:.1f}",
                         f"{row['server_us']:.0f}", f"{100 * row['refused']:.0f} %", f"{row['grown_mb']:+.1f}", str(int(row["broken"]))])
    header = ["`gluino serve`, one row a request", "requests/s", "/ batch 1", "/ one client", "p50 ms", "p99 ms", "rows a call", "server µs a request", "refused",
              "memory MB", "broken"]
    return ["## The server, load from wrk on the same machine", "", *table(header, body)]


def onnx_section(results):
    """The same files in ONNX Runtime and in Gluino; later calls as processor time at one thread, and as time that passed at several."""
    all_threads = list(next(iter(results["onnx"].values())))
    header = ["", *(f"{what}{count(t) if len(all_threads) > 1 else ''}: Gluino, ONNX Runtime, ratio" for t in all_threads for what in ("µs a call, ",)),
              "ms to create", "ms of the first call", "MB"]
    body, ratios = [], {t: [] for t in all_threads}
    for name, row in results["onnx"].items():
        line = [name]
        for t in all_threads:
            mine, theirs = (row[t][engine].get("us") for engine in ("gluino", "ort"))
            if mine and theirs:
                ratios[t].append(theirs / mine)
            line.append(f"{number(mine)}, {number(theirs)}, {theirs / mine:.2f}" if mine and theirs else "; ".join(
                f"{engine}: {cell['error']}" for engine, cell in row[t].items() if "error" in cell))
        one = row[all_threads[0]]
        line += [", ".join(f"{one[e][key]:.0f}" if key in one[e] else "–" for e in ("gluino", "ort")) for key in ("create_ms", "first_ms", "memory_mb")]
        body.append(line)
    means = [f"Geometric mean at {count(t)}: {statistics.geometric_mean(r):.2f}." for t, r in ratios.items() if r]
    return ["## ONNX models", "", *table(header, body), " ".join(means), ""]


def languages_section(results):
    found = results["languages"]
    return ["## One call of the perceptron at batch 1, from each language", "", bench_languages.markdown(found["rows"], found["missing"]), ""]


def markdown(results):
    m, versions = results["machine"], results["versions"]
    setting = f"{m['cpu']}, {m['cores']} cores, load {m['load']:.1f} at the start"
    lines = ["# Gluino beside its peers", "", f"{setting}; float32; medians of {results['rounds']} rounds ± half the range.", ""]
    lines += [f"- {PEERS[p]} {v}" for p, v in versions.items()]
    lines += [f"- {PEERS[p]} is not here: {why}" for p, why in results["missing"].items()] + [""]
    for threads in results["threads"]:
        lines += threads_section(results, threads)
    sections = {"busy": busy_section, "first": first_section, "overhead": overhead_section, "generation": generation_section,
                "operators": operators_section, "languages": languages_section, "serve": serve_section,
                "distributed": distributed_section, "onnx": onnx_section}
    for name, section in sections.items():
        if results.get(name):
            lines += section(results)
    failures = sorted({f"- {TITLES[w]}, {COLUMNS.get(c, c)}: {cell['error']}" for rows in [*results["threads"].values(), results["busy"]]
                       for w, row in rows.items() for c, cell in row.items() if "error" in cell})
    if failures:
        lines += ["## Failed", "", *failures, ""]
    return "\n".join(lines)


# ---- plot

BARS = [("ONNX Runtime", "#c44e52"), ("PyTorch", "#dd8452"), ("Gluino eager", "#8fb0d9")]


def svg(results):
    """Horizontal bars, logarithmic: how many times longer than Gluino hybridized, at the fewest threads measured."""
    threads, rows = next(iter(results["threads"].items()))
    left, width, bar, gap, top = 270, 460, 11, 12, 60
    entries = []
    for w, row in rows.items():
        mine, eager = us(row.get("gluino")), us(row.get("gluino_eager"))
        entries.append((TITLES[w], [*ratios(w, row, by_rounds), eager / mine if mine and eager else None]))
    known = [r for _, values in entries for r in values if r]
    low, high = math.floor(math.log2(min([0.5, *known]))), math.ceil(math.log2(max([2, *known])))

    def x(ratio):
        return left + width * (math.log2(ratio) - low) / (high - low)

    height = top + len(entries) * (len(BARS) * bar + gap) + 20
    size = f'width="{left + width + 60}" height="{height}"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="10" y="20" font-size="14">Time / time of Gluino hybridized, {count(threads)} (right of 1: slower than Gluino)</text>']
    for i, (name, colour) in enumerate(BARS):
        at = left + 120 * i
        out += [f'<rect x="{at}" y="30" width="10" height="10" fill="{colour}"/>', f'<text x="{at + 14}" y="39">{name}</text>']
    for power in range(low, high + 1):
        at, strong = x(2.0**power), power == 0
        out += [f'<line x1="{at:.1f}" y1="{top - 4}" x2="{at:.1f}" y2="{height - 18}" stroke="{"black" if strong else "#ddd"}"/>',
                f'<text x="{at:.1f}" y="{height - 4}" text-anchor="middle">{2.0**power:g}</text>']
    for row, (title, values) in enumerate(entries):
        y = top + row * (len(BARS) * bar + gap)
        out.append(f'<text x="{left - 8}" y="{y + 1.5 * bar + 4}" text-anchor="end">{title}</text>')
        for i, value in enumerate(values):
            if value is None:
                continue
            begin, end = sorted((x(1), x(value)))
            out += [f'<rect x="{begin:.1f}" y="{y + i * bar}" width="{max(end - begin, 1):.1f}" height="{bar - 1}" fill="{BARS[i][1]}"/>',
                    f'<text x="{end + 3:.1f}" y="{y + (i + 1) * bar - 2}" font-size="9">{value:.2f}</text>']
    return "\n".join([*out, "</svg>"])
