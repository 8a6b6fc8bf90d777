"""Numbers that a traced function is given and that may be others at the next call."""
import math
import operator

import numpy as np

from . import _core

__all__ = ["TracedNumber"]


class TracedNumber:
    """Stands for an argument while a function is traced.

    What is computed with it and arrays, or with it and other numbers, stays in the program. Whoever wants to know the number itself is told,
    and the program is one for this number then.
    """
    __slots__ = ("_traced", "_kind", "_on_read", "__weakref__")
    __array_priority__ = 1e6  # NumPy's arrays leave operators to this class

    def __init__(self, traced, kind, on_read):
        self._traced, self._kind, self._on_read = traced, kind, on_read

    def _read(self):
        self._on_read()
        return self._kind(float(self._traced))

    @property
    def __class__(self):
        return self._kind

    def __array__(self, dtype=None):
        return np.asarray(self._read(), dtype)

    def __getattr__(self, name):
        return getattr(self._read(), name)

    def __reduce_ex__(self, protocol):
        return self._read().__reduce_ex__(protocol)

    def _with(self, other, compute, is_swapped):
        """Sums and products of floats are the same in a program, bit by bit."""
        if _core.is_value(other):
            return NotImplemented  # the array's operator knows what to do
        if type(other) is TracedNumber and other._kind is float and self._kind is float:
            return TracedNumber(compute(self._traced, other._traced), float, lambda: (self._on_read(), other._on_read()))
        if type(other) in (float, int) and self._kind is float and abs(other) <= 2 ** 53:
            other = float(other)
            return TracedNumber(compute(other, self._traced) if is_swapped else compute(self._traced, other), float, self._on_read)
        return compute(_plain(other), self._read()) if is_swapped else compute(self._read(), _plain(other))


def _plain(value):
    return value._read() if type(value) is TracedNumber else value


def _reader(function):
    return lambda self, *others: NotImplemented if any(map(_core.is_value, others)) else function(self._read(), *map(_plain, others))


def _add_operators():
    both = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod", "and", "or", "xor", "lshift", "rshift", "matmul")
    for name in both:
        compute = divmod if name == "divmod" else getattr(operator, f"__{name}__")
        if name in ("add", "sub", "mul"):
            straight = lambda self, other, compute=compute: self._with(other, compute, False)
            swapped = lambda self, other, compute=compute: self._with(other, compute, True)
        else:
            straight = _reader(compute)
            swapped = _reader(lambda value, other, compute=compute: compute(other, value))
        setattr(TracedNumber, f"__{name}__", straight)
        setattr(TracedNumber, f"__r{name}__", swapped)
    one = {"abs": abs, "pos": operator.pos, "neg": operator.neg, "invert": operator.invert, "bool": bool, "int": int, "float": float, "complex": complex,
           "index": operator.index, "hash": hash, "repr": repr, "str": str, "format": format, "round": round}
    one.update({name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")})
    one.update(trunc=math.trunc, floor=math.floor, ceil=math.ceil)
    for name, function in one.items():
        setattr(TracedNumber, f"__{name}__", _reader(function))


_add_operators()
