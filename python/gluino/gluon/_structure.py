"""Nested arguments of blocks as flat lists, and back."""
from .. import ndarray as nd, symbol as sym
from ..base import MXNetError

__all__ = ["flatten", "is_numpy", "regroup", "replaced", "values_in"]


def flatten(args, inout_str):
    """(values of nested lists as one list, what regroup() needs): 0 stands for one value, -1 for None, a list for a list."""
    if isinstance(args, nd.NDArray):
        return [args], 0
    if isinstance(args, sym.Symbol):
        count = len(args.list_outputs())
        return [args], count if count > 1 else 0
    if args is None:
        return [None], -1
    if not isinstance(args, (list, tuple)):
        raise ValueError(f"When hybridized, the {inout_str} of HybridBlock must be (nested) list of Symbol or NDArray, however, received an item of "
                         f"type {type(args)}")
    flat, form = [], []
    for item in args:
        values, inside = flatten(item, inout_str)
        flat.extend(values)
        form.append(inside)
    return flat, form


def regroup(args, fmt):
    """(nested lists of a form, values that are left over)."""
    def one(args, form):
        if isinstance(form, int):
            if form in (0, -1):
                return None if form == -1 else args[0], args[1:]
            return args[:form], args[form:]
        made = []
        for inside in form:
            value, args = one(args, inside)
            made.append(value)
        return made, args
    if not isinstance(args, (list, tuple)):
        raise MXNetError(f"a list of values is needed, not {type(args)}")
    return one(list(args), fmt)


def values_in(args):
    """The arrays and symbols of nested lists, one after the other."""
    for arg in args:
        if isinstance(arg, (list, tuple)):
            yield from values_in(arg)
        elif isinstance(arg, (nd.NDArray, sym.Symbol)):
            yield arg


def replaced(args, values):
    """The same nested lists with the next of these values in the place of each array and symbol."""
    return [replaced(a, values) if isinstance(a, (list, tuple)) else next(values) if isinstance(a, (nd.NDArray, sym.Symbol)) else a for a in args]


def is_numpy(value):
    """Whether an array or symbol is one of mx.np's."""
    from ..numpy import _Symbol, ndarray
    return isinstance(value, (ndarray, _Symbol))
