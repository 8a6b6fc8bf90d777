"""Elementwise functions of mx.np: of arrays by operators, of numbers by NumPy; out= is written, options that would be ignored are refused."""
import math

import numpy as _np

from .. import _core
from ..util import check_ufunc_options
from .multiarray import _op, array

_ARRAYS = (_core.Array, _core.SymbolBase)
_NUMBERS = (int, float, _np.generic)
_LISTS = (list, tuple)
_binary = _core.binary_functions


def written(result, out):
    """The result, or `out` with its values."""
    if out is None:
        return result
    if isinstance(out, tuple):
        out, = out
    if out.shape != result.shape:
        raise ValueError(f"out has shape {out.shape}, but the result has {result.shape}")
    _core.copy_into(result if result.dtype == out.dtype else result.astype(out.dtype), out)
    return out


def refuse(name, **options):
    """Raises where an option that is not honoured was given."""
    for option, value in options.items():
        if value is not None:
            raise NotImplementedError(f"{name}: {option}= is not supported")


def _floating(x):
    return x if not isinstance(x, _ARRAYS) or _np.issubdtype(x.dtype, _np.floating) else x.astype("float32")


# ---- of one

def _rint(x):
    # Halves go down in the operator; NumPy has them go to even numbers.
    nearest = _op("rint")(_floating(x))
    tie = _binary["logical_and"](x - nearest == 0.5, nearest % 2 == 1)
    return nearest + tie.astype(nearest.dtype)


def _is_truth(x):
    return isinstance(x, _ARRAYS) and getattr(x, "dtype", None) == _np.bool_  # a graph's symbol has none yet


def _abs(x):
    return x.copy() if _is_truth(x) else _op("abs")(x)


def _isfinite(x):
    return _binary["logical_and"](x == x, _abs(x) != math.inf)


def _unary(name, compute):
    reference = getattr(_np, name)

    def function(x, out=None, **kwargs):
        if kwargs:
            check_ufunc_options(name, kwargs)
        if isinstance(x, _ARRAYS):
            return compute(x) if out is None else written(compute(x), out)
        if isinstance(x, _NUMBERS):
            return reference(x)
        if isinstance(x, _LISTS):
            return written(compute(array(x)), out)
        raise TypeError(f"{name}: an mx.np array or a number is needed, not {type(x).__name__}; convert it with mx.np.array")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (reference.__doc__ or "").strip().split("\n\n")[1 if reference.__doc__ and reference.__doc__.startswith(name + "(") else 0]
    return function


_UNARY = {name: _op(name) for name in (
    "sqrt cbrt exp expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh floor ceil trunc fix sign "
    "reciprocal degrees radians negative").split()}
_UNARY.update({
    "abs": _abs, "absolute": _abs, "square": lambda x: _op("square")(x.astype("int8") if _is_truth(x) else x), "fabs": lambda x: _op("abs")(_floating(x)), "rad2deg": _op("degrees"), "deg2rad": _op("radians"), "rint": _rint,
    "isnan": lambda x: x != x, "isinf": lambda x: _abs(x) == math.inf, "isfinite": _isfinite, "isposinf": lambda x: x == math.inf,
    "isneginf": lambda x: x == -math.inf, "logical_not": lambda x: x == 0, "exp2": lambda x: _op("exp")(_floating(x) * math.log(2)),
    "positive": lambda x: x.copy(),
})


# ---- of two

def _where(condition, x, y):
    from .functions import where
    return where(condition, x, y)


def _is_whole(x):
    return isinstance(x, (int, _np.integer)) or (isinstance(x, _ARRAYS) and not _np.issubdtype(x.dtype, _np.floating))


def _true_divide(x1, x2):
    return _binary["divide"](_floating(x1), _floating(x2)) if _is_whole(x1) and _is_whole(x2) else _binary["divide"](x1, x2)


def _floor_divide(x1, x2):
    if _is_whole(x1) and _is_whole(x2):
        rest, like = x1 - _binary["modulo"](x1, x2), x1 if isinstance(x1, _ARRAYS) else x2
        return _op("broadcast_div")(rest, _array(x2, like))  # exact: nothing is left over
    return _op("floor")(_binary["divide"](x1, x2))


def _sizes(x1, x2):
    return [_op("abs")(x) if isinstance(x, _ARRAYS) else abs(x) for x in (x1, x2)]


def _sign(x):
    return _op("sign")(x) if isinstance(x, _ARRAYS) else float(_np.sign(x))


def _array(x, like):
    """A number as an array beside another one."""
    from .multiarray import full_like
    return x if isinstance(x, _ARRAYS) else full_like(like, x)


def _arctan2(x1, x2):
    x1, x2 = _floating(x1), _floating(x2)
    like = x1 if isinstance(x1, _ARRAYS) else x2
    return _op("broadcast_arctan2")(_array(x1, like), _array(x2, like))


def _ldexp(x1, x2):
    return x1 * (_op("_rpower_scalar")(x2.astype("float32"), scalar=2.0) if isinstance(x2, _ARRAYS) else 2.0 ** x2)


def _copysign(x1, x2):
    like = x1 if isinstance(x1, _ARRAYS) else x2
    size = _op("abs")(_array(_floating(x1), _floating(like)))
    return size * _where(x2 < 0, -1.0, 1.0) if isinstance(x2, _ARRAYS) else size * math.copysign(1.0, x2)


def _heaviside(x1, x2):
    x1, x2 = _floating(x1), _floating(x2)
    if not isinstance(x1, _ARRAYS):
        return x2 * 0 + (0.0 if x1 < 0 else 1.0) if x1 != 0 else x2
    return _where(x1 == 0, x2, (x1 > 0).astype(x1.dtype))


def _number_or(pick):
    def chosen(x1, x2):
        best = _binary[pick](x1, x2)
        for x, other in ((x1, x2), (x2, x1)):
            best = _where(x != x, other, best) if isinstance(x, _ARRAYS) else (other if x != x else best)
        return best
    return chosen


def _logaddexp(x1, x2):
    return _binary["maximum"](x1, x2) + _op("log1p")(_op("exp")(-_op("abs")(x1 - x2)))


def _fmod(x1, x2):
    size, by = _sizes(x1, x2)
    return _binary["modulo"](size, by) * _sign(x1)


def _whole(name, x):
    if isinstance(x, (float, _np.floating)) or (isinstance(x, _ARRAYS) and _np.issubdtype(x.dtype, _np.floating)):
        raise TypeError(f"{name}: whole numbers or truth values are needed, not real numbers")
    return x


def _of_whole_pair(name):
    def computed(x1, x2):
        x1, x2 = _whole(name, x1), _whole(name, x2)
        like = x1 if isinstance(x1, _ARRAYS) else x2
        return _op(f"_npi_{name}")(_array(x1, like), _array(x2, like))
    return computed


_OF_TRUTHS = {"maximum": "logical_or", "fmax": "logical_or", "minimum": "logical_and", "fmin": "logical_and"}


def _with_truths(name, compute):
    """Truth values beside numbers are 0 and 1 of their dtype; two of them are compared as such, or are small whole numbers."""
    def computed(x1, x2):
        truths = _is_truth(x1), _is_truth(x2)
        if not any(truths):
            return compute(x1, x2)
        other = x2 if truths[0] else x1
        if (all(truths) or isinstance(other, (bool, _np.bool_))) and name in _OF_TRUTHS:
            return _binary[_OF_TRUTHS[name]](x1, x2)
        dtype = ("int8" if all(truths) or isinstance(other, (bool, _np.bool_)) else other.dtype if isinstance(other, _ARRAYS) else
                 "int64" if _is_whole(other) else "float32")
        return compute(*(x.astype(dtype) if truth else x for x, truth in zip((x1, x2), truths)))
    return computed


def _of_two(name, compute):
    reference = getattr(_np, name)

    def function(x1, x2, out=None, **kwargs):
        if kwargs:
            check_ufunc_options(name, kwargs)
        if isinstance(x1, _LISTS) or isinstance(x2, _LISTS):
            x1, x2 = (array(x) if isinstance(x, _LISTS) else x for x in (x1, x2))
        if isinstance(x1, _ARRAYS) or isinstance(x2, _ARRAYS):
            for x in (x1, x2):
                if not isinstance(x, (*_ARRAYS, *_NUMBERS)):
                    raise TypeError(f"{name}: mx.np arrays and numbers are needed, not {type(x).__name__}; convert it with mx.np.array")
            return compute(x1, x2) if out is None else written(compute(x1, x2), out)
        return reference(x1, x2)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.{name} of arrays and numbers."
    return function


_BINARY = {name: _binary[name] for name in ("add", "subtract", "multiply", "power", "maximum", "minimum", "equal", "not_equal", "greater", "greater_equal",
                                            "logical_and", "logical_or", "logical_xor")}
_BINARY.update({
    "divide": _true_divide, "true_divide": _true_divide, "mod": _binary["modulo"], "remainder": _binary["modulo"], "less": _binary["lesser"],
    "less_equal": _binary["lesser_equal"], "floor_divide": _floor_divide, "fmod": _fmod, "arctan2": _arctan2, "ldexp": _ldexp, "copysign": _copysign,
    "heaviside": _heaviside, "fmax": _number_or("maximum"), "fmin": _number_or("minimum"), "logaddexp": _logaddexp,
    "hypot": lambda x1, x2: _binary["hypot"](_floating(x1), _floating(x2)), "float_power": lambda x1, x2: _binary["power"](_floating(x1), _floating(x2)),
})

for _name in "divide true_divide mod remainder power floor_divide fmod maximum minimum fmax fmin logaddexp".split():
    _BINARY[_name] = _with_truths(_name, _BINARY[_name])
_BINARY.update({name: _of_whole_pair(name) for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm")})
_UNARY["invert"] = lambda x: _op("_npi_bitwise_not")(_whole("invert", x))
globals().update({name: _unary(name, compute) for name, compute in _UNARY.items()})
globals().update({name: _of_two(name, compute) for name, compute in _BINARY.items()})
bitwise_not = globals()["invert"]  # one function under two names, as NumPy has it
__all__ = [*_UNARY, *_BINARY, "bitwise_not"]
