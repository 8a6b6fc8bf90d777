"""Errors and small helpers that every module shares."""
import operator

import numpy as _np

__all__ = ["MXNetError", "NotSupportedForSparseNDArray", "numeric_types", "string_types", "integer_types"]

numeric_types = (float, int, _np.generic)
integer_types = (int, _np.int32, _np.int64)
string_types = (str,)
py_str = str


class MXNetError(RuntimeError):
    """The base of all errors that the engine raises."""


class ShapeError(MXNetError, ValueError):
    """Shapes that do not fit together."""


class DTypeError(MXNetError, TypeError):
    """A dtype that an operator does not take."""


class AttrError(MXNetError, ValueError, TypeError):
    """An attribute of an operator that is unknown, missing or has a wrong value."""


class ArrayIndexError(MXNetError, IndexError):
    """An index out of range."""


class FileError(MXNetError, OSError):
    """A file that cannot be read or written, or is damaged."""


class InternalError(MXNetError):
    """A broken invariant of the engine: a bug."""


class NotSupportedForSparseNDArray(MXNetError):
    """Sparse storage: arrays are dense here."""


class NotImplementedForSymbol(MXNetError, NotImplementedError, TypeError):
    """What needs a value was asked of a Symbol."""


# By the name of the C++ class.
ERRORS = {
    "UserError": MXNetError, "ShapeError": ShapeError, "DTypeError": DTypeError, "AttrError": AttrError,
    "IndexError": ArrayIndexError, "SystemError": FileError, "InternalError": InternalError,
}

_PYTHON = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv, "modulo": operator.mod,
    "power": operator.pow, "maximum": max, "minimum": min, "hypot": _np.hypot,
}


def python_binary(name, lhs, rhs):
    """Arithmetic of two plain numbers, for functions that also take arrays."""
    if name in _PYTHON:
        return _PYTHON[name](lhs, rhs)
    compare = {"lesser": "less", "lesser_equal": "less_equal"}.get(name, name)
    return float(getattr(_np, compare)(lhs, rhs))


# As files number them.
DTYPES_BY_CODE = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16", "uint16", "uint32", "uint64", "bfloat16")


def dtype_name(dtype):
    """The engine's name of a NumPy type, dtype or name: "float32"."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return dtype
    return _np.dtype(dtype).name


def as_dtype(name):
    """What the dtype property of arrays gives: NumPy's type, as MXNet does."""
    return "bfloat16" if name == "bfloat16" else _np.dtype(name).type
