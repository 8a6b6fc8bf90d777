"""Every block of code in README.md, HACKING.md and docs/ is compiled and run.

A C++ block with a main() is a program. The others of a document become one: what begins like a declaration stands outside of main(), the rest in
it, each in braces. What a block takes for granted is said in a comment before it, which readers do not see:

    <!-- given: data::DataLoader loader(data::digits(), 32); -->
    <!-- given, not run -->
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GLUINO_BUILD", ROOT / "build" / "release"))
DOCUMENTS = [ROOT / "README.md", ROOT / "HACKING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- given(?P<not_run>, not run)?(?:: (?P<given>.*?))? -->\n+)?^```(?P<language>cpp|python)\n(?P<code>.*?)^```$", re.M | re.S)
DECLARATION = re.compile(r"(?:struct|class|template|GLUINO_OP|Tensor \w+\(const)\b|GLUINO_OP")


def blocks(document, language):
    return [m for m in BLOCK.finditer(document.read_text()) if m["language"] == language]


def documents_with(language):
    return [pytest.param(d, id=str(d.relative_to(ROOT))) for d in DOCUMENTS if blocks(d, language)]


def compiled(source, folder, name):
    (folder / f"{name}.cc").write_text(source)
    compiler = os.environ.get("CXX", "g++")
    command = [*shlex.split(compiler), "-std=c++20", "-O0", "-Wall", "-Wextra", "-Wno-unused-variable", "-Werror",
               f"-I{ROOT}/include", f"-I{BUILD}/generated", f"{name}.cc", "-o", name, f"-L{BUILD}/src", "-lgluino", f"-Wl,-rpath,{BUILD}/src"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{source}\n{done.stderr}"


def run(folder, name):
    done = subprocess.run([f"./{name}"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{name} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("document", documents_with("cpp"))
def test_cpp(document, tmp_path):
    outside, inside = [], []
    for i, block in enumerate(blocks(document, "cpp")):
        code, given = block["code"], block["given"] or ""
        if "int main(" in code:
            compiled(code, tmp_path, f"program{i}")
            if not block["not_run"]:
                run(tmp_path, f"program{i}")
        elif DECLARATION.match(code):
            outside.append(code)
        elif block["not_run"]:
            outside.append(f"[[maybe_unused]] static void not_run{i}() {{\n{given}\n{code}}}\n")
        else:
            inside.append(f"{{\n{given}\n{code}}}\n")
    if outside or inside:
        compiled("#include <gluino/gluino.h>\n#include <gluino/op.h>\n#include <iostream>\nusing namespace gluino;\n" + "\n".join(outside)
                 + "\nint main() {\n" + "\n".join(inside) + "}\n", tmp_path, "blocks")
        run(tmp_path, "blocks")


@pytest.mark.parametrize("document", documents_with("python"))
def test_python(document, tmp_path):
    code = "\n".join((b["given"] or "") + "\n" + b["code"] for b in blocks(document, "python") if not b["not_run"])
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
