#!/usr/bin/env python3
"""Writes docs/operators.md: every operator with its names and what can be done with it, as the registry has it.

    PYTHONPATH=$(make -s pythonpath) /usr/bin/python3 tools/operators.py           # writes the page
    PYTHONPATH=$(make -s pythonpath) /usr/bin/python3 tools/operators.py --check   # fails where the page is not true
"""
import difflib
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/operators.md"
LISTED = ROOT / "tools/mxnet_names/operators"
HEAD = """# Operators

Written by `tools/operators.py` from the registry; a test keeps it true. Every operator is called eagerly, recorded by autograd, traced by
`hybridize()`, found in symbols and files, and walked over by the tests (`tests/ops`, `tests/fuzz`).

| column | what |
|---|---|
| operator | the name in files; aliases behind it |
| hybrid | `yes`: one call of a compiled program; `parts`: the calls of other operators, which programs and files hold instead; `values`: the result's shape depends on values, so a program is cut there |
| gradient | `yes`, or why there is none |
| notes | what it does; *random*, *by mode* (training differs), *state* (an input is updated), *no effect* (attributes of MXNet's that change nothing here) |

Operators that only MXNet has, with the reasons: [compatibility.md](compatibility.md).
"""


def families():
    """[(heading, [operator name])] in the order of the page: MXNet's names, then the library's own."""
    from mxnet import _core
    listed = {name for path in LISTED.glob("*.txt") for name in path.read_text().split()}
    names = {}
    for spelling, op in _core.operator_names():
        names.setdefault(op, []).append(spelling)
    groups = {"Networks, mathematics and arrays": [], "mx.np and mx.npx": [], "Contributed": [], "Images": [], "For oneDNN": [],
              "The library's own: parts of gradients and of compiled programs": []}
    places = {"_np": "mx.np and mx.npx", "_contrib_": "Contributed", "_image_": "Images", "_sg_": "For oneDNN"}
    for op, spellings in sorted(names.items(), key=lambda item: item[0].lower()):
        heading = next((place for prefix, place in places.items() if op.startswith(prefix)), "Networks, mathematics and arrays")
        own = not any(spelling in listed for spelling in spellings)
        groups["The library's own: parts of gradients and of compiled programs" if own else heading].append(op)
    return groups, names


def _cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def row(op, spellings):
    """One line of a table."""
    from mxnet import _core
    about = _core.describe_operator(op)
    aliases = sorted(set(spellings) - {op})
    hybrid = "values" if about["dynamic_shape"] else "parts" if about["composed"] else "yes"
    notes = [about["doc"]]
    notes += ["*random*"] * about["random"] + ["*by mode*"] * about["mode_dependent"]
    notes += ["*state*"] * any(is_state for _, _, is_state in about["inputs"])
    if about["without_effect"]:
        notes.append("*no effect*: " + ", ".join(about["without_effect"]))
    shown = f"`{op}`" + (" = " + ", ".join(f"`{alias}`" for alias in aliases) if aliases else "")
    return f"| {shown} | {hybrid} | {_cell(about['not_differentiable']) or 'yes'} | {_cell(' '.join(notes))} |"


def page():
    """The whole text of docs/operators.md."""
    groups, names = families()
    lines = [HEAD, f"{len(names)} operators under {sum(map(len, names.values()))} names.", ""]
    for heading, members in groups.items():
        lines += [f"## {heading}", "", "| operator | hybrid | gradient | notes |", "|---|---|---|---|", *(row(op, names[op]) for op in members), ""]
    return "\n".join(lines)


def main():
    """Writes the page, or with --check says where it is not true."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
        print(text.splitlines()[len(HEAD.splitlines()) + 1])
        return 0
    old = PAGE.read_text() if PAGE.exists() else ""
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), str(PAGE), "as it is"))
    return int(old != text)


if __name__ == "__main__":
    sys.exit(main())
