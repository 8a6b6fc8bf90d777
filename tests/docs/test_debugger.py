"""GDB shows tensors, shapes and dtypes as one reads them (tools/gluino_gdb.py)."""
import os
import shutil
import subprocess

import pytest
from test_docs import ROOT, compiled

PROGRAM = """
#include "gluino/gluino.h"
using namespace gluino;
void stop_here() {}
int main() {
  Tensor numbers = tensor({{1, 2.5, -3}, {4, 5, 6}}), whole = tensor({7}, DType::int64), long_one = arange(20), half = ones({2}, {DType::float16});
  Tensor null, truth = tensor({1, 0}) > 0.5;
  Shape shape{2, 3}, one{4}, none, deep{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  DType dtype = DType::bfloat16;
  std::vector<Tensor> many{numbers, null};
  auto f = hybrid([](const Tensor& x) {
    Tensor traced = x * 2;
    stop_here();
    return traced;
  });
  f(numbers);
  return static_cast<int>(many.size() + shape.ndim() + one.ndim() + none.ndim() + deep.ndim()) * 0 + (dtype == DType::float32);
}
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What GDB prints, in main() and in a function that is traced."""
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not installed: its printers are not tested")
    folder = tmp_path_factory.mktemp("debugger")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", os.environ.get("CXX", "g++") + " -g")
        compiled(PROGRAM, folder, "program")
    names = ["numbers", "whole", "long_one", "half", "null", "truth", "shape", "one", "none", "deep", "dtype", "many"]
    commands = [f"source {ROOT}/tools/gluino_gdb.py", "break stop_here", "run", "up", 'printf "traced: "', "print traced", "frame function main",
                *(line for name in names for line in (f'printf "{name}: "', f"print {name}"))]
    done = subprocess.run(["gdb", "-batch", "-nx", *(part for command in commands for part in ("-ex", command)), "./program"], cwd=folder,
                          capture_output=True, text=True, timeout=300)
    lines = [line.split(": $", 1) for line in done.stdout.splitlines() if ": $" in line]
    found = {name: value.split(" = ", 1)[1] for name, value in lines}
    if not found and "not permitted" in done.stdout + done.stderr:
        pytest.skip("gdb may not run programs here: its printers are not tested")
    assert found, done.stdout + done.stderr
    return found


@pytest.mark.parametrize("name, text", [
    ("numbers", "float32 (2, 3) on cpu(0): [1, 2.5, -3, 4, 5, 6]"), ("whole", "int64 (1,) on cpu(0): [7]"), ("half", "float16 (2,) on cpu(0): [1, 1]"),
    ("long_one", "float32 (20,) on cpu(0): [0, 1, 2, 3, 4, 5, 6, 7, ...]"), ("null", "null tensor"), ("truth", "bool (2,) on cpu(0): [1, 0]"),
    ("shape", "(2, 3)"), ("one", "(4,)"), ("none", "()"), ("deep", "(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)"), ("dtype", "bfloat16")])
def test_values(shown, name, text):
    assert shown[name] == text


def test_inside_of_others(shown):
    assert "float32 (2, 3) on cpu(0)" in shown["many"] and "null tensor" in shown["many"]


def test_traced_values_are_not_read(shown):
    assert shown["traced"].startswith("symbolic float32 (2, 3)")
