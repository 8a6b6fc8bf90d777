#!/usr/bin/env python3
"""Fails on an #include against the arrows between the folders of src (docs/architecture.md), on a public header
that names a library of the implementation, and on a source file that is too long."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Each folder and what it may include besides itself, base and the public headers.
MAY_INCLUDE = {
    "base": [],
    "kernels": [],
    "tensor": ["kernels"],
    "op": ["tensor", "kernels"],
    "ops": ["op", "tensor", "kernels"],
    "autograd": ["op", "tensor"],
    "graph": ["op", "tensor"],
    "passes": ["graph", "op", "tensor", "kernels"],
    "jit": ["kernels"],
    "plan": ["passes", "graph", "op", "tensor"],
    "exec": ["plan", "passes", "graph", "autograd", "op", "tensor", "kernels"],
    "io": ["graph", "op", "tensor"],
    "gluon": ["exec", "plan", "passes", "graph", "autograd", "io", "op", "tensor"],
    "cli": ["gluon", "exec", "plan", "passes", "graph", "autograd", "io", "op", "tensor", "kernels"],
}
PRIVATE_LIBRARIES = ("dnnl", "llvm/", "pybind11", "fmt/", "nlohmann", "cblas", "lapacke", "omp.h", "zip.h")
LONGEST = 700


def main() -> int:
    problems = []
    for path in sorted((ROOT / "src").rglob("*.[ch]*")):
        folder = path.relative_to(ROOT / "src").parts[0]
        lines = path.read_text().splitlines()
        if len(lines) > LONGEST:
            problems.append(f"{path}: {len(lines)} lines, at most {LONGEST}")
        for number, line in enumerate(lines, 1):
            found = re.match(r'#include "(\w+)/', line)
            if found and found[1] in MAY_INCLUDE and found[1] not in ["base", folder, *MAY_INCLUDE.get(folder, [])]:
                problems.append(f"{path}:{number}: {folder} must not include {found[1]}")
    for path in sorted((ROOT / "include").rglob("*.h")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'#include [<"]([^>"]+)', line)
            if found and found[1].startswith(PRIVATE_LIBRARIES):
                problems.append(f"{path}:{number}: a public header must not include {found[1]}")
    print("\n".join(problems) if problems else "includes follow the arrows")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
