"""Every command of the program on models made here."""
import json
import os
import pathlib
import pty
import subprocess

import numpy as np
import pytest

from conftest import PROGRAM

COMMANDS = ["inspect", "run", "bench", "explain", "convert", "diff", "verify", "faces", "ops", "demo"]


def test_help_lists_every_command(gluino):
    text = gluino("--help").out
    for command in COMMANDS:
        assert f"  {command} " in text
        assert "Usage: gluino" in gluino(command, "--help").out


def test_the_version_is_that_of_the_file(gluino):
    version = (pathlib.Path(__file__).resolve().parents[2] / "VERSION").read_text().strip()
    assert gluino("--version").out.startswith(f"gluino {version},")
    import gluino as package
    assert package.__gluino_version__ == version and package.__version__ == "1.9.1"


def test_inspect_says_what_is_inside(gluino, models):
    report = gluino("inspect", models / "net", "--shape", "data=2,3,8,8", "--json").json
    assert report["written_by"] == "MXNet 1.9.1"
    assert [v["name"] for v in report["inputs"]] == ["data"]
    assert report["outputs"][0]["shape"] == [2, 5]
    counts = {op["name"]: op["count"] for op in report["operators"]}
    assert counts["Convolution"] == 1 and counts["FullyConnected"] == 1
    # the filters, the norm's four vectors, the dense layer
    assert report["parameters"]["elements"] == 4 * 3 * 9 + 4 + 4 * 4 + 5 * 64 + 5
    assert report["flops"]["by_operator"]["Convolution"] == 2 * (2 * 4 * 8 * 8) * 27
    assert report["flops"]["by_operator"]["FullyConnected"] == 2 * 2 * 5 * 64
    assert 0 < report["memory"]["planned_bytes"] <= report["memory"]["unplanned_bytes"]
    text = gluino("inspect", models / "net", "--arrays", "--graph").out
    assert "give the inputs' shapes with --shape" in text and "batchnorm" in text


def test_inspect_lists_the_arrays_of_a_file(gluino, models):
    assert gluino("inspect", models / "x.npy", "--json").json["parameters"]["list"][0]["shape"] == [2, 3, 8, 8]


def test_inspect_names_what_is_unsupported_and_where(gluino, tmp_path):
    body = {"nodes": [{"op": "null", "name": "a", "inputs": []}, {"op": "Mystery", "name": "inner", "inputs": [[0, 0, 0]]}], "arg_nodes": [0], "heads": [[1, 0, 0]]}
    graph = {"nodes": [{"op": "null", "name": "data", "inputs": []}, {"op": "QConvolution", "name": "first", "inputs": [[0, 0, 0]]},
                       {"op": "_foreach", "name": "loop", "inputs": [[1, 0, 0]], "subgraphs": [body]}], "arg_nodes": [0], "heads": [[2, 0, 0]]}
    (tmp_path / "odd-symbol.json").write_text(json.dumps(graph))
    report = gluino("inspect", tmp_path / "odd", "--json").json
    assert report["unsupported"] == [{"operator": "Mystery", "nodes": ["loop/inner"]}, {"operator": "QConvolution", "nodes": ["first"]}]
    assert "QConvolution, needed by first" in gluino("inspect", tmp_path).out
    assert "QConvolution" in gluino("run", tmp_path, "--random-weights", code=1).err


@pytest.mark.parametrize("form", ["npz", "npy"])
def test_run_gives_the_networks_answer(gluino, models, tmp_path, form):
    out = tmp_path / f"y.{form}"
    gluino("run", models / "net-symbol.json", "--input", f"data={models / 'x.npy'}", "--output", out)
    y = np.load(out)
    np.testing.assert_allclose(y if form == "npy" else y[y.files[0]], np.load(models / "y.npy"), rtol=1e-5, atol=1e-6)


def test_run_shows_the_best_classes(gluino, models, tmp_path):
    (tmp_path / "synset.txt").write_text("".join(f"class {name}\n" for name in "abcde"))
    top = gluino("run", models / "net", "-i", models / "x.npy", "--top", 2, "--synset", tmp_path / "synset.txt", "--json").json["top"]
    y = np.load(models / "y.npy")
    for row, best in zip(y, top):
        assert [c["class"] for c in best] == list(np.argsort(-row)[:2])
        assert best[0]["name"] == "class " + "abcde"[int(np.argmax(row))]


def test_run_prepares_pictures(gluino, models, tmp_path):
    from PIL import Image
    pixels = np.random.default_rng(1).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    mean, std = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    np.save(tmp_path / "x.npy", ((pixels - mean) / std).transpose(2, 0, 1)[None].astype(np.float32))
    by_hand = gluino("run", models / "net", "-i", tmp_path / "x.npy", "--json").json["outputs"][0]["values"]
    prepared = gluino("run", models / "net", "-i", f"data={tmp_path / 'photo.png'}", "--mean", "1,2,3", "--std", "4,5,6", "--json").json
    np.testing.assert_allclose(prepared["outputs"][0]["values"], by_hand, rtol=1e-4, atol=1e-4)
    resized = gluino("run", models / "net", "-i", tmp_path / "photo.png", "--resize", "20x10", "--crop", 8, "--range", 1, "--bgr", "--json").json
    assert resized["outputs"][0]["shape"] == [1, 5]


def test_verify_compares_all_ways(gluino, models, tmp_path):
    report = gluino("verify", models / "net", "--shape", "data=2,3,8,8", "--json").json
    assert report["same"] and set(report["ways"]) >= {"hybridized", "exported and imported", "saved as one file and loaded"}
    x, y = np.load(models / "x.npy"), np.load(models / "y.npy")
    np.savez(tmp_path / "io.npz", **{"in:data": x, "out0": y})
    gluino("verify", models / "net", "--against", tmp_path / "io.npz")
    np.savez(tmp_path / "io.npz", **{"in:data": x, "out0": y + 0.01})
    assert "OTHER answers" in gluino("verify", models / "net", "--against", tmp_path / "io.npz", code=1).out


def test_diff_names_the_first_layer_that_differs(gluino, models, tmp_path):
    gluino("convert", models / "net", "-o", tmp_path / "net.npz")
    arrays = dict(np.load(tmp_path / "net.npz"))
    dense = next(name for name in arrays if "dense" in name and name.endswith("bias"))
    arrays[dense] = arrays[dense] + 1
    np.savez(tmp_path / "net.npz", **arrays)
    report = gluino("diff", models / "net", models / "net", "--other-params", tmp_path / "net.npz", "-i", models / "x.npy", "--json", code=1).json
    assert report["first_difference"]["operator"] == "FullyConnected"
    assert [p["name"] for p in report["parameters"]["differing"]] == [dense.split(":")[-1]]
    assert gluino("diff", models / "net", "--shape", "data=2,3,8,8", "--json").json["first_difference"] is None


def test_convert_keeps_the_answers(gluino, models, tmp_path):
    wanted, x = np.load(models / "y.npy"), models / "x.npy"

    def answer(model, *more):
        return np.array(gluino("run", model, "-i", x, *more, "--json").json["outputs"][0]["values"]).reshape(wanted.shape)

    gluino("convert", models / "net", "-o", tmp_path / "one.gluino")
    np.testing.assert_allclose(answer(tmp_path / "one.gluino"), wanted, rtol=1e-5, atol=1e-6)
    gluino("convert", tmp_path / "one.gluino", "-o", tmp_path / "pair", "--epoch", 7)
    assert (tmp_path / "pair-0007.params").exists()
    np.testing.assert_allclose(answer(tmp_path / "pair"), wanted, rtol=1e-5, atol=1e-6)
    for form in ("npz", "safetensors", "params"):
        gluino("convert", models / "net", "-o", tmp_path / f"arrays.{form}")
        np.testing.assert_allclose(answer(models / "net", "--params", tmp_path / f"arrays.{form}"), wanted, rtol=1e-5, atol=1e-6)
    folded = gluino("convert", models / "net", "-o", tmp_path / "folded", "--fold-batch-norm", "--shape", "data=2,3,8,8", "--json").json
    assert folded["folded_batch_norms"] == 1
    assert "BatchNorm" not in [op["name"] for op in gluino("inspect", tmp_path / "folded", "--json").json["operators"]]
    np.testing.assert_allclose(answer(tmp_path / "folded"), wanted, rtol=1e-4, atol=1e-5)
    gluino("convert", models / "net", "-o", tmp_path / "half", "--cast", "float16")
    assert "float16" in gluino("inspect", tmp_path / "half", "--json").json["parameters"]["dtypes"]
    np.testing.assert_allclose(answer(tmp_path / "half"), wanted, rtol=2e-2, atol=2e-2)  # float16 has 11 bits


def test_bench_times_both_ways(gluino, models, tmp_path):
    report = gluino("bench", models / "net", "--shape", "data=1,3,8,8", "--calls", 5, "--trace", tmp_path / "trace.json", "--json").json
    for mode in ("eager", "hybridized"):
        times = report[mode]["microseconds"]
        assert report[mode]["calls"] == 5 and times["min"] <= times["p50"] <= times["p90"] <= times["max"]
    assert [part["operator"] for part in report["eager"]["operators"]].count("Convolution") == 1
    assert len(report["hybridized"]["operators"]) < len(report["eager"]["operators"])
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {e["tid"] for e in events if e["ph"] == "X"} == {0, 1}


def test_explain_shows_both_graphs(gluino, models):
    text = gluino("explain", models / "net", "--shape", "data=1,3,8,8").out
    assert "before the passes:" in text and "after the passes:" in text
    report = gluino("explain", models / "net", "--shape", "data=1,3,8,8", "--json").json
    assert report["stages"][0]["operators"] > len(report["steps"])


def _read_to_the_end(terminal):
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            return
        if not piece:
            return
        yield piece.decode()


@pytest.mark.parametrize("command", ["bench --seconds 0.2", "verify", "diff", "draw -o graph.html"])
def test_long_work_shows_progress_on_a_terminal(models, tmp_path, command):
    name, *options = command.split()
    terminal, side = pty.openpty()
    work = subprocess.Popen([PROGRAM, name, models / "net", *options, "--shape", "data=2,3,8,8", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=side)
    os.close(side)
    shown = "".join(_read_to_the_end(terminal))  # as it comes: a terminal that nobody reads is full soon
    os.close(terminal)
    answer = work.communicate()[0]
    assert work.returncode == 0
    assert "%" in shown and shown.endswith("\r\x1b[K")  # and the line is empty in the end
    assert json.loads(answer)
