#!/usr/bin/env python3
"""Fails on C++ that is not formatted, on a copy of the version that differs from VERSION, on what pyflakes finds in Python, and on what
clang-tidy finds (.clang-tidy) in the C++ units that changed.

    tools/lint.py             # changed: against the commit at which the branch left main; on main itself in the last commit
    tools/lint.py --most 4    # of those at most so many, the smallest first
    tools/lint.py --clean     # of those the units in folders that are clean and stay so (CLEAN): what CI runs
    tools/lint.py --all       # every unit of src: an hour on two cores; with --clean every unit of these folders

clang-tidy reads build/release/compile_commands.json and the generated headers; `make lint` sees to the former.
"""
import argparse
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Tools of other languages read these, so they cannot ask for the version.
COPIES = {"bindings/node/package.json": r'"version": "(.*?)"', "bindings/perl/lib/Gluino.pm": r"VERSION = '(.*?)'",
          "bindings/r/gluino/DESCRIPTION": r"(?m)^Version: (.*)$", "CHANGELOG.md": r"(?m)^## (\S+)"}
# Folders of src in which clang-tidy found nothing when every unit was looked at.
CLEAN = ("autograd", "base", "control_flow", "dispatch", "graph", "io", "passes", "plan", "program")
# Modules that hand on what others define, and lists of names that are made at import.
NOT_OURS = re.compile(r"imported but unused|unable to detect undefined names|undefined name '\w+' in __all__|may be undefined, or defined from star")


def output(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def tracked(*patterns):
    return [f for f in output("git", "ls-files", *patterns).splitlines() if (ROOT / f).exists()]


def unformatted():
    done = subprocess.run(["clang-format", "--dry-run", "--Werror", *tracked("*.cc", "*.h")], cwd=ROOT, capture_output=True, text=True)
    return [line for line in done.stderr.splitlines() if "error:" in line]


def other_versions():
    version = (ROOT / "VERSION").read_text().strip()
    found = {path: re.search(pattern, (ROOT / path).read_text()) for path, pattern in COPIES.items()}
    return [f"{path}: the version is {match and match[1]}, in VERSION {version}" for path, match in found.items() if not match or match[1] != version]


def python_faults():
    """What pyflakes finds; an unused import only outside of the package, whose modules hand names on."""
    found = output("pyflakes3", *tracked("*.py")).splitlines()
    return [line for line in found if not (line.startswith("python/") and NOT_OURS.search(line)) and not tolerated(line)]


def tolerated(message):
    path, line = message.split(":")[:2]
    return "# noqa" in (ROOT / path).read_text().splitlines()[int(line) - 1]


def changed_units():
    """Units of src that differ from where this branch left main, or, on main, that the last commit changed."""
    head = output("git", "rev-parse", "HEAD").strip()
    bases = (output("git", "merge-base", "HEAD", name).strip() for name in ("origin/main", "main"))
    base = next((b for b in bases if b and b != head), "HEAD~1")
    units = [f for f in output("git", "diff", "--name-only", base, "--", "src/*.cc").splitlines() if (ROOT / f).exists()]
    return sorted(units, key=lambda f: (ROOT / f).stat().st_size)


def commands_without_precompiled(build):
    """The folder of a copy of compile_commands.json without GCC's precompiled headers, which clang-tidy cannot read."""
    folder = ROOT / build / "lint"
    folder.mkdir(parents=True, exist_ok=True)
    commands = (ROOT / build / "compile_commands.json").read_text()
    (folder / "compile_commands.json").write_text(re.sub(r" -fpch-preprocess| -Winvalid-pch -include \S*/cmake_pch\.hxx", "", commands))
    return folder


def tidy(units, build, jobs):
    """The findings of clang-tidy, each once although many units include a header."""
    commands = commands_without_precompiled(build)

    def one(unit):
        done = subprocess.run(["clang-tidy", "-quiet", "-p", commands, unit], cwd=ROOT, capture_output=True, text=True)
        found = re.findall(r"^(?:\S+:\d+:\d+: )?(?:warning|error): .*", done.stdout, re.M)
        return found or [f"{unit}: clang-tidy ended with {done.returncode}"] * bool(done.returncode)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return sorted({finding.replace(f"{ROOT}/", "") for findings in pool.map(one, units) for finding in findings})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--most", type=int, default=1000)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    problems = other_versions()
    for tool, check in (("clang-format", unformatted), ("pyflakes3", python_faults)):
        if shutil.which(tool):
            problems += check()
        else:
            print(f"lint: {tool} is not installed (tools/setup.sh lint): not checked")
    units = tracked("src/*.cc") if args.all else changed_units()
    if args.clean:
        units = [unit for unit in units if unit.split("/")[1] in CLEAN]
    if not shutil.which("clang-tidy"):
        print("lint: clang-tidy is not installed (tools/setup.sh lint): not run")
    else:
        chosen = units[: None if args.all else args.most]
        kinds = " of clean folders" * args.clean + " that changed" * (not args.all)
        print(f"lint: clang-tidy on {len(chosen)} of {len(units)} units{kinds}", flush=True)
        problems += tidy(chosen, args.build, args.jobs)
    print("\n".join(problems) if problems else "lint: clean")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
