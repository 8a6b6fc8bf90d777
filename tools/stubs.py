#!/usr/bin/env python3
"""Writes type stubs of the functions that gluino makes from the operator registry: gluino/ndarray/__init__.pyi and its like.

    PYTHONPATH=$(make -s pythonpath) /usr/bin/python3 tools/stubs.py FOLDER
"""
import inspect
import pathlib
import sys

import gluino
from gluino import _core

TYPES = {"bool": "bool", "int": "int", "int64_t": "int", "double": "float", "std::string": "str", "Shape": "_Shape", "OptionalInts": "Sequence[int | None]",
         "Floats": "Sequence[float]", "DType": "_DType"}
HEAD = "from typing import Any, Sequence\n\nimport numpy\n\n_Shape = int | Sequence[int]\n_DType = str | type | numpy.dtype\n"


def type_of(text):
    """The Python type of an attribute's C++ type."""
    if text.startswith("std::optional<"):
        return f"{type_of(text[len('std::optional<'):-1])} | None"
    return TYPES[text]


def signature(op_name, value):
    """The parameters of an operator."""
    about = _core.describe_operator(op_name)
    required, optional = [], []
    if about["variadic"]:
        required.append(f"*{about['inputs'][-1][0]}: {value}")
    else:
        for name, is_optional, _ in about["inputs"]:
            (optional if is_optional else required).append(f"{name}: {value} | None = None" if is_optional else f"{name}: {value}")
    for name, kind, needed, _, _ in about["fields"]:
        optional.append(f"{name}: {type_of(kind)} = ...")
    return ", ".join([*required, *optional, f"out: {value} | None = None", "name: str | None = None"])


def function(name, thing, value):
    """One line of a stub."""
    if isinstance(thing, _core.Operator):
        return f"def {name}({signature(thing.op_name, value)}) -> Any: ..."
    if type(thing).__name__ == "BinaryFunction":
        return f"def {name}(lhs: {value} | float, rhs: {value} | float) -> {value}: ..."
    return None


def module_stub(module, value, imports):
    """The stub of a module: its operators, and whatever else it defines as Any."""
    lines = [f'"""{module.__doc__}"""', HEAD, imports]
    for name, thing in sorted(vars(module).items()):
        if name.startswith("__") or not name.isidentifier():
            continue
        line = function(name, thing, value)
        if line:
            lines.append(line)
        elif inspect.isfunction(thing) and not name.startswith("_"):
            lines.append(f"def {name}{untyped(thing)}: ...")
        elif inspect.ismodule(thing) and thing.__name__.startswith(module.__name__ + "."):
            lines.append(f"from . import {thing.__name__.rsplit('.', 1)[1]} as {name}")
    return "\n".join(lines) + "\n"


def untyped(thing):
    """A signature with defaults left out."""
    parts = []
    for p in inspect.signature(thing).parameters.values():
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        parts.append(f"{star}{p.name}: Any" + (" = ..." if p.default is not p.empty else ""))
    return f"({', '.join(parts)}) -> Any"


def main(folder):
    """Writes the stubs of mx.nd and mx.sym with their parts."""
    for package, value, home in ((gluino.ndarray, "NDArray", "ndarray"), (gluino.symbol, "Symbol", "symbol")):
        target = folder / package.__name__.rsplit(".", 1)[1]
        target.mkdir(parents=True, exist_ok=True)
        (target / "__init__.pyi").write_text(module_stub(package, value, f"from .{home} import {value} as {value}"))
        for part in ("contrib", "linalg", "image", "random", "_internal"):
            (target / f"{part}.pyi").write_text(module_stub(getattr(package, part), value, f"from .{home} import {value}"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
