"""Errors and small helpers that every module shares."""
import operator
import os

import numpy as _np

__all__ = ["MXNetError", "NotSupportedForSparseNDArray", "NotImplementedForSymbol", "numeric_types", "string_types", "integer_types"]

numeric_types = (float, int, _np.generic)
integer_types = (int, _np.int32, _np.int64)
string_types = (str,)
py_str = str
mx_real_t = _np.float32


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


def _refused(function, alias, args, what):
    """The text of an error about a function that some kind of value has not; a text in place of the function stands for itself."""
    if isinstance(function, str):
        return function
    given = f" with arguments ({', '.join(str(type(arg)) for arg in args)})" if args else ""
    return f"Function {function.__name__}{given} is not {what}" + (f"; use {alias} instead" if alias else "") + "."


class OutOfMemory(MXNetError, MemoryError):
    """The system has fewer bytes than were asked for."""


class NotSupportedForSparseNDArray(MXNetError):
    """A function that sparse arrays have not."""

    def __init__(self, function, alias=None, *args):
        super().__init__(_refused(function, alias, args, "supported for SparseNDArray"))


class NotImplementedForSymbol(MXNetError, NotImplementedError, TypeError):
    """What needs a value was asked of a Symbol."""

    def __init__(self, function, alias=None, *args):
        super().__init__(_refused(function, alias, args, "implemented for Symbol and only available in NDArray"))


# By the name of the C++ class.
ERRORS = {
    "UserError": MXNetError, "ShapeError": ShapeError, "DTypeError": DTypeError, "AttrError": AttrError,
    "IndexError": ArrayIndexError, "SystemError": FileError, "InternalError": InternalError, "OutOfMemory": OutOfMemory,
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


# ---- small things that other libraries import

class _NullType:
    """Stands for a parameter that was not given."""

    def __repr__(self):
        return "_Null"


_Null = _NullType()


def data_dir_default():
    """Where data sets and weights are looked for, unless MXNET_HOME says otherwise."""
    return os.path.join(os.path.expanduser("~"), ".mxnet")


def data_dir():
    """Where data sets and weights are looked for: MXNET_HOME, or ~/.mxnet."""
    return os.environ.get("MXNET_HOME") or data_dir_default()


def _as_list(obj):
    """A list or tuple as it is, anything else as the only item of a list."""
    return obj if isinstance(obj, (list, tuple)) else [obj]


class classproperty:  # noqa: N801
    """A property of a class."""

    def __init__(self, func):
        self.fget = classmethod(func) if not isinstance(func, (classmethod, staticmethod)) else func

    def __get__(self, instance, owner=None):
        return self.fget.__get__(instance, owner or type(instance))()


def with_metaclass(meta, *bases):
    """A base class through which a class gets a metaclass."""
    class Metaclass(type):
        def __new__(cls, name, this_bases, attributes):
            return meta(name, bases, attributes)
    return type.__new__(Metaclass, "temporary_class", (), {})


_errors_by_text = {}


def register_error(func_name=None, cls=None):
    """Makes c2pyerror raise a class of its own for messages that begin with its name. Also a decorator."""
    def registered(klass, name=func_name):
        _errors_by_text[klass.__name__ if name is None else name] = klass
        return klass
    if callable(func_name):
        return registered(func_name, None)
    return registered if cls is None else registered(cls)


def c2pyerror(err_msg):
    """The message, and the class that was registered for it; None where there is none."""
    kind, _, _ = err_msg.partition(":")
    return err_msg, kind if kind in _errors_by_text else None


def get_last_ffi_error():
    """An error without a text: operators raise theirs themselves."""
    return MXNetError("operators raise their errors themselves; there is no last one")


def build_param_doc(arg_names, arg_types, arg_descs, remove_dup=True):
    """The section "Parameters" of a docstring."""
    seen, lines = set(), []
    for name, kind, text in zip(arg_names, arg_types, arg_descs):
        if name in seen and remove_dup or name == "num_args":
            continue
        seen.add(name)
        lines.append(f"{name} : {kind}" + (f"\n    {text}" if text else ""))
    return "Parameters\n----------\n" + "\n".join(lines) + "\n"


def add_fileline_to_docstring(module, incursive=True):
    """Adds to docstrings where their functions are defined."""
    import inspect
    import sys
    module = sys.modules[module] if isinstance(module, str) else module
    for _, thing in inspect.getmembers(module):
        if inspect.isfunction(thing) and thing.__module__ == getattr(module, "__name__", None) and thing.__doc__:
            thing.__doc__ += f"\n\nFrom:{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"
        elif incursive and inspect.isclass(thing) and thing.__module__ == getattr(module, "__name__", None):
            add_fileline_to_docstring(thing, False)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    from . import _c_types, libinfo
    if name == "libinfo":
        return libinfo
    if name in _c_types.__all__:
        return getattr(_c_types, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class CurrentValue:
    """What is in force in this thread, as .value to read and set: MXNet has thread-local objects there."""

    def __init__(self, read, change):
        self._read, self._change = read, change

    @property
    def value(self):
        """The one of this thread."""
        return self._read()

    @value.setter
    def value(self, new):
        self._change(new)
