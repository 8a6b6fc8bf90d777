"""Nested arguments of blocks as flat lists, and back."""
from .. import ndarray as nd, symbol as sym
from ..base import MXNetError

__all__ = ["flatten", "regroup"]


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
