#!/usr/bin/env python3
"""Fails on an #include against the arrows of the map in docs/architecture.md, on a folder that the map lacks, on a public header that
names a library of the implementation, and on files and folders that have grown too large."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRIVATE_LIBRARIES = ("dnnl", "llvm/", "pybind11", "fmt/", "nlohmann", "cblas", "lapacke", "omp.h", "zip.h")
LONGEST, MOST_FILES = 500, 40


def arrows() -> dict[str, set[str]]:
    """Each folder of the map and all that it may include: what its arrows lead to, and what theirs do."""
    text = (ROOT / "docs/architecture.md").read_text()
    drawn = re.search(r"```mermaid\n(.*?)```", text, re.S)[1]
    direct: dict[str, set[str]] = {}
    for line in drawn.splitlines()[1:]:
        for source in line.split("-->")[0].split("&"):
            targets = line.split("-->")[1].split("&") if "-->" in line else []
            direct.setdefault(source.strip(), set()).update(t.strip() for t in targets)
    direct.pop("", None)

    def reach(folder: str, above: tuple[str, ...] = ()) -> set[str]:
        if folder in above:
            sys.exit(f"docs/architecture.md: the arrows from {folder} lead back to it")
        near = direct.get(folder, set())
        return near.union(*(reach(f, (*above, folder)) for f in near))

    return {folder: reach(folder) for folder in direct | {t: set() for near in direct.values() for t in near}}


def folder_of(path: str, folders) -> str | None:
    """The folder of the map that a file of src belongs to; the innermost one."""
    parts = path.split("/")[:-1]
    return next((f for n in range(len(parts), 0, -1) if (f := "/".join(parts[:n])) in folders), None)


def main() -> int:
    problems = []
    may_include = arrows()
    src = ROOT / "src"
    for path in sorted(src.rglob("*.[ch]*")):
        lines = path.read_text().splitlines()
        if len(lines) > LONGEST:
            problems.append(f"{path}: {len(lines)} lines, at most {LONGEST}")
        folder = folder_of(path.relative_to(src).as_posix(), may_include)
        if not folder:
            problems.append(f"{path}: its folder is not on the map in docs/architecture.md")
            continue
        for number, line in enumerate(lines, 1):
            found = re.match(r'#include "(\w+/[\w/]+\.h)"', line)
            target = found and folder_of(found[1], may_include)
            if target and target != folder and target not in may_include[folder]:
                problems.append(f"{path}:{number}: {folder} must not include {target}")
    for folder in (f for f in src.rglob("*") if f.is_dir()):
        files = sum(1 for f in folder.iterdir() if f.is_file())
        if files > MOST_FILES:
            problems.append(f"{folder}: {files} files, at most {MOST_FILES}")
    for path in sorted((ROOT / "include").rglob("*.h")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'#include [<"]([^>"]+)', line)
            if found and found[1].startswith(PRIVATE_LIBRARIES):
                problems.append(f"{path}:{number}: a public header must not include {found[1]}")
    print("\n".join(problems) if problems else "includes follow the arrows")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
