#!/usr/bin/env python3
"""Compares this package with MXNet 1.9.1's public names and writes docs/compatibility.md.

    PYTHONPATH=$(make -s pythonpath) /usr/bin/python3 tools/compatibility.py           # writes the page
    PYTHONPATH=$(make -s pythonpath) /usr/bin/python3 tools/compatibility.py --check   # fails where the page is not true

The facts are in tools/mxnet_names: one line per name (with its arguments, or "property"), one per operator, and in absent.txt why some
are not here and what to use instead.
"""
import ast
import difflib
import fnmatch
import importlib
import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FACTS = ROOT / "tools/mxnet_names"
PAGE = ROOT / "docs/compatibility.md"
MISSING = object()


def facts():
    """(name, arguments as text or None) of every Python name."""
    for path in sorted(FACTS.glob("*.txt")):
        if path.stem == "absent":
            continue
        for line in path.read_text().splitlines():
            line = line.partition("   ")[0]
            name, bracket, arguments = line.partition("(")
            yield name, arguments[:-1] if bracket else None


def operators():
    """Names in MXNet's registry."""
    return [name for path in sorted((FACTS / "operators").glob("*.txt")) for name in path.read_text().split()]


def reasons():
    """[(pattern, why it is not here and what to use instead)]."""
    lines = (FACTS / "absent.txt").read_text().splitlines()
    return [tuple(part.strip() for part in line.split(":", 1)) for line in lines if line.strip() and not line.startswith("#")]


def reason_of(name, known):
    """Why a name is not here; None where nobody wrote it down."""
    return next((why for pattern, why in known if fnmatch.fnmatchcase(name, pattern)), None)


# ---- finding names

class Method:
    """An operator as a method: its first input is the object."""

    def __init__(self, operator):
        self.operator = operator


def resolve(name):
    """What a dotted name means, through the package `mxnet`; MISSING where it means nothing."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, MISSING) if not inspect.isclass(found) else _member(found, part)
            if found is MISSING:
                return MISSING
        return found
    return MISSING


def _member(cls, name):
    found = inspect.getattr_static(cls, name, MISSING)
    if isinstance(found, property) or found is MISSING:
        return found if found is not MISSING else getattr(type(cls), name, MISSING)
    return Method(found) if _is_operator(found) else getattr(cls, name)


def _is_operator(thing):
    return type(thing).__name__ == "Operator" and hasattr(thing, "op_name")


# ---- comparing arguments

class Parameters:
    """Names in their order with defaults (MISSING: none), and whether more are taken by place or by name."""

    def __init__(self):
        self.defaults, self.by_name_only, self.rest, self.keywords = {}, set(), False, False

    @property
    def in_order(self):
        return [name for name in self.defaults if name not in self.by_name_only]


def written(text):
    """The parameters of a line of facts; default values are literals, or MISSING's like `...` where they are expressions."""
    made, function = Parameters(), ast.parse(f"def f({_without_expressions(text)}): pass").body[0].args
    positional = [argument.arg for argument in function.args]
    defaults = [MISSING] * (len(positional) - len(function.defaults)) + function.defaults
    for name, default in [*zip(positional, defaults), *((a.arg, d or MISSING) for a, d in zip(function.kwonlyargs, function.kw_defaults))]:
        made.defaults[name] = default if default is MISSING else _literal(default)
    made.by_name_only = {argument.arg for argument in function.kwonlyargs}
    made.rest, made.keywords = function.vararg is not None, function.kwarg is not None
    made.defaults.pop("self", None)
    return made


def _without_expressions(text):
    return text.replace("=<", "='<").replace(">,", ">',") if "=<" in text else text


def _literal(node):
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ...


def actual(thing):
    """The parameters of a Python object; None where it has none to read."""
    made = Parameters()
    if isinstance(thing, Method):
        made = _of_operator(thing.operator, made)
        made.defaults.pop(next(iter(made.defaults)), None)
        return made
    if _is_operator(thing):
        return _of_operator(thing, made)
    if type(thing).__name__ == "BinaryFunction":
        made.defaults, made.keywords = {"lhs": MISSING, "rhs": MISSING}, True
        return made
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    for parameter in parameters:
        if parameter.kind == parameter.VAR_POSITIONAL:
            made.rest = True
        elif parameter.kind == parameter.VAR_KEYWORD:
            made.keywords = True
        else:
            made.defaults[parameter.name] = MISSING if parameter.default is parameter.empty else parameter.default
            if parameter.kind == parameter.KEYWORD_ONLY:
                made.by_name_only.add(parameter.name)
    made.defaults.pop("self", None)
    return made


def _of_operator(operator, made):
    from mxnet import _core
    about = _core.describe_operator(operator.op_name)
    made.rest, made.keywords = about["variadic"], True
    for name, optional, _ in about["inputs"] if not about["variadic"] else []:
        made.defaults[name] = ... if optional else MISSING
    for name, _, needed, _, _ in about["fields"]:
        made.defaults[name] = MISSING if needed else ...
    return made


def differences(expected, found):
    """What a call that fits `expected` would meet in `found`."""
    told = []
    places = {name: i for i, name in enumerate(found.in_order)}
    for place, name in enumerate(expected.in_order):
        if name not in found.defaults:
            if not (found.keywords or found.rest):
                told.append(f"does not take `{name}`")
        elif places.get(name) != place and not found.rest and not (name in found.by_name_only and found.keywords):
            told.append(f"takes `{name}` at place {places[name] + 1}" if name in places else f"takes `{name}` by name only")
    told += [f"does not take `{name}`" for name in expected.by_name_only if name not in found.defaults and not found.keywords]
    told += [f"needs `{name}`" for name, default in found.defaults.items()
             if default is MISSING and expected.defaults.get(name, ... if not expected.rest and not expected.keywords else MISSING) is not MISSING]
    for name, default in expected.defaults.items():
        own = found.defaults.get(name, default)
        if _comparable(default) and _comparable(own) and not _same(own, default):
            told.append(f"`{name}` is {own!r} where nothing is said, not {default!r}")
    return told


def _same(own, default):
    """Whether two default values mean the same: None is often filled in later, and one number stands for all axes."""
    if own is None or default is None or own == default:
        return True
    return isinstance(default, tuple) and isinstance(own, int) and all(extent == own for extent in default)


def _comparable(default):
    return default is not MISSING and default is not ... and isinstance(default, (int, float, str, bool, tuple, type(None)))


def compare(name, arguments):
    """None where the name is not here, else the list of differences of its arguments."""
    found = resolve(name)
    if found is MISSING:
        return None
    if arguments is None:
        return []
    own = actual(found)
    if own is None:
        return []
    return differences(written(arguments), own)


# ---- the page

def owner(name):
    """The module or class of a name."""
    return name.rpartition(".")[0]


def survey():
    """(names here, {name: differences}, names not here) and the same of operators without differences."""
    here, differs, absent, known = [], {}, [], reasons()
    for name, arguments in facts():
        told = None if reason_of(name, known) else compare(name, arguments)
        if told is None:
            absent.append(name)
        elif told:
            differs[name] = told
        else:
            here.append(name)
    from mxnet import _core
    spellings = {spelling for spelling, _ in _core.operator_names()}
    wanted = operators()
    return here, differs, absent, [op for op in wanted if op in spellings], [op for op in wanted if op not in spellings]


def _grouped(names):
    groups = {}
    for name in names:
        groups.setdefault(owner(name), []).append(name.rpartition(".")[2])
    return groups


def _absent_lines(names, known):
    by_reason = {}
    for name in names:
        by_reason.setdefault(reason_of(name, known) or "not written yet", []).append(name)
    for why, members in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0])):
        listed = "; ".join(f"{place}: {', '.join(short)}" if place else ", ".join(short) for place, short in _grouped(members).items())
        yield f"- {why}: {listed}"


def page(found):
    """The whole text of docs/compatibility.md."""
    here, differs, absent, ops_here, ops_absent = found
    total, known = len(here) + len(differs) + len(absent), reasons()
    lines = ["# MXNet 1.9.1's names", "",
             "Written by `tools/compatibility.py` from the list of MXNet 1.9.1's public names and signatures (`tools/mxnet_names`); a test keeps it true.", "",
             "| | listed | here, same arguments | arguments differ | not here |", "|---|---|---|---|---|",
             f"| Python names | {total} | {len(here)} ({len(here) / total:.1%}) | {len(differs)} | {len(absent)} |",
             f"| operators | {len(ops_here) + len(ops_absent)} | {len(ops_here)} ({len(ops_here) / (len(ops_here) + len(ops_absent)):.1%}) | | {len(ops_absent)} |",
             "", "## Arguments differ", ""]
    lines += [f"- `{name}`: {'; '.join(told)}" for name, told in differs.items()]
    lines += ["", "## Not here", "", "### Python names", "", *_absent_lines(absent, known), "", "### Operators", "", *_absent_lines(ops_absent, known), "",
              "## Here", "", "### Python names", ""]
    lines += [f"- {place}: {', '.join(names)}" for place, names in _grouped(here).items()]
    lines += ["", "### Operators", "", ", ".join(ops_here), ""]
    return "\n".join(lines)


def main():
    """Writes the page, or with --check says where it is not true."""
    text = page(survey())
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
        print("\n".join(text.splitlines()[4:8]))
        return 0
    old = PAGE.read_text() if PAGE.exists() else ""
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), str(PAGE), "as it is"))
    return int(old != text)


if __name__ == "__main__":
    sys.exit(main())
