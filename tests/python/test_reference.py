"""The Python cells of the reference documents, unmodified and in order, with `import mxnet`; and what their text claims."""
import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import time
import types

import numpy as np
import pytest

import mxnet as mx

OTHER_FRAMEWORKS = re.compile(r"\b(torch|tensorflow|tf)\b")


def cells(path):
    """Python cells of a Markdown document; those of other frameworks are left out, line by line where they share a cell."""
    found = re.findall(r"^```(?:python|\{\.python[^}]*\})\n(.*?)^```", path.read_text(), re.M | re.S)
    for cell in found:
        if "# PyTorch" in cell:
            cell = cell.split("# PyTorch")[0]
        if not OTHER_FRAMEWORKS.search(cell) and "torchscript" not in cell and "'my_mlp.pt'" not in cell and "Graph Mode" not in cell:
            yield cell


class Notebook:
    """Runs cells in one namespace: `!` lines as shell commands, the value of a last expression is kept as `_`."""

    def __init__(self):
        self.names, self.printed = {"__name__": "__main__"}, ""

    def run(self, cell):
        code = re.sub(r"^!(.*)$", lambda m: f"__shell({m[1]!r})", cell, flags=re.M)
        self.names["__shell"] = lambda line: print(subprocess.run(line, shell=True, check=True, capture_output=True, text=True).stdout, end="")
        lines = code.rstrip().split("\n")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            try:
                value = compile(lines[-1], "cell", "eval")
            except SyntaxError:
                exec(compile(code, "cell", "exec"), self.names)
                self.names["_"] = None
            else:
                exec(compile("\n".join(lines[:-1]), "cell", "exec"), self.names)
                self.names["_"] = eval(value, self.names)
        self.printed = out.getvalue()
        return self.names["_"]


@pytest.fixture
def d2l(monkeypatch):
    """The book's package, of which the cells need only a timer."""
    class Timer:
        def __init__(self):
            self.start = time.time()

        def stop(self):
            return time.time() - self.start
    package = types.ModuleType("d2l")
    package.mxnet, package.Timer = package, Timer
    for name in ("d2l", "d2l.mxnet"):
        monkeypatch.setitem(sys.modules, name, package)


def document(shared, number):
    found = sorted((shared / "reference").glob(f"{number:03}_*.txt"))
    assert found, f"no document {number}"
    return list(cells(found[0]))


def seconds(printed):
    return [float(s) for s in re.findall(r"([\d.]+) sec", printed)]


def run_until_faster(book, cell):
    """A document's own stopwatch; once is enough, because a busy machine may stop either of the two."""
    for _ in range(10):
        book.run(cell)
        slow, fast = seconds(book.printed)
        if fast < slow:
            return
    raise AssertionError(f"hybridized {fast} s, before {slow} s, ten times")


def test_every_document_has_cells(shared):
    assert [len(document(shared, i)) for i in range(5)] == [9, 12, 12, 8, 11]


def test_guide(shared, d2l):
    book = Notebook()
    cell = document(shared, 0)
    book.run(cell[0])
    assert book.printed == "10\n"
    book.run(cell[1])
    assert book.printed.endswith("10\n")
    book.run(cell[2])
    book.run(cell[3])
    before = book.names["net"](book.names["x"]).asnumpy()
    assert np.array_equal(book.run(cell[4]).asnumpy(), before)
    book.run(cell[5])
    run_until_faster(book, cell[6])
    book.run(cell[7])
    assert pathlib.Path("my_mlp-symbol.json").exists() and pathlib.Path("my_mlp-0000.params").exists()
    book.run(cell[8])
    assert book.printed.count("Tracing with x:") == 2 and "<Symbol data>" in book.printed


def test_dive_into_deep_learning(shared):
    book = Notebook()
    cell = document(shared, 1)
    assert book.run(cell[0]) == 10
    book.run(cell[1])
    assert book.printed.endswith("10\n")
    before = book.run(cell[2]).asnumpy()
    assert np.array_equal(book.run(cell[3]).asnumpy(), before)
    run_until_faster(book, cell[4])
    book.run(cell[5])
    json.loads(pathlib.Path("my_mlp-symbol.json").read_text())
    assert pathlib.Path("my_mlp-0000.params").exists()
    assert isinstance(book.run(cell[6]), mx.sym.Symbol)
    book.run(cell[7])
    eager = book.run(cell[8]).asnumpy()
    assert "ndarray" in book.printed and "NDArray 1x4" in book.printed and "NDArray 1x10" in book.printed
    assert np.array_equal(book.run(cell[9]).asnumpy(), eager) and "NDArray 1x10" in book.printed
    assert np.array_equal(book.run(cell[10]).asnumpy(), eager)
    assert "symbol" in book.printed and "x:  <Symbol data>" in book.printed and re.search(r"hidden:  <Symbol \w+>", book.printed)
    assert np.array_equal(book.run(cell[11]).asnumpy(), eager) and book.printed == ""


def test_dive_into_deep_learning_in_numpy_mode(shared, d2l):
    book = Notebook()
    cell = document(shared, 2)
    assert book.run(cell[0]) == 10 or book.printed == "10\n"
    book.run(cell[1])
    before = book.run(cell[2])
    assert isinstance(before, mx.np.ndarray)
    assert np.array_equal(book.run(cell[3]).asnumpy(), before.asnumpy())
    book.run(cell[4])
    run_until_faster(book, cell[5])
    book.run(cell[6])
    assert "my_mlp-0000.params" in book.printed and "my_mlp-symbol.json" in book.printed
    book.run(cell[7])
    assert book.printed.startswith("{")
    book.run(cell[8])
    eager = book.run(cell[9]).asnumpy()
    assert "module F:  <module 'gluino.ndarray'" in book.printed
    assert np.array_equal(book.run(cell[10]).asnumpy(), eager)
    assert "module F:  <module 'gluino.symbol'" in book.printed and "value  x:  <Symbol data>" in book.printed
    assert np.array_equal(book.run(cell[11]).asnumpy(), eager) and book.printed == ""


def test_hybrid_tutorial(shared):
    book = Notebook()
    cell = document(shared, 3)
    book.run(cell[0])
    book.run(cell[1])
    assert book.printed.count("NDArray 16x1x28x28") == 2
    eager = book.names["net"]
    book.run(cell[2])
    assert book.printed == "<Symbol data>\n"
    x = book.names["x"]
    compiled = eager(x).asnumpy()
    book.run(cell[3])
    book.run(cell[4])
    assert pathlib.Path("model-symbol.json").exists() and pathlib.Path("model-0001.params").exists()
    book.run(cell[5])
    np.testing.assert_allclose(book.names["net2"](x).asnumpy(), compiled, rtol=1e-5, atol=1e-6)
    # The cells of functions that MXNet cannot hybridize: they run, and here they also hybridize.
    for number in (6, 7):
        book.run(cell[number])
        net = type("Net", (mx.gluon.HybridBlock,), {"hybrid_forward": book.names["hybrid_forward"]})()
        value = mx.nd.random.normal(shape=(2, 3))
        want = net(value).asnumpy()
        net.hybridize()
        assert np.array_equal(net(value).asnumpy(), want)


def test_straight_dope(shared):
    book = Notebook()
    cell = document(shared, 4)
    assert book.run(cell[0]) == 10
    for number in (1, 2, 3):
        book.run(cell[number])
    before = book.printed
    book.run(cell[4])
    assert book.printed == before
    run_until_faster(book, cell[5])
    book.run(cell[6])
    assert "<Symbol data>" in book.printed and '"nodes"' in book.printed
    book.run(cell[7])
    assert pathlib.Path("model.json").exists() and pathlib.Path("model.params").exists()
    book.run(cell[8])
    book.run(cell[9])
    assert book.printed.count("type(x): NDArray, F: gluino.ndarray") == 2
    book.run(cell[10])
    assert book.printed == "=== 1st forward ===\ntype(x): Symbol, F: gluino.symbol\n=== 2nd forward ===\n"
