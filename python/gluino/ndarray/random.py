"""mx.nd.random: numbers drawn by given parameters, or by arrays of parameters."""
from .. import _random
from ..context import placed
from .ndarray import NDArray, _operator

__all__ = _random.NAMES[:]


def _draw(op, dtype, ctx, out, attrs):
    call = {key: value for key, value in attrs.items() if value is not None}
    if dtype is not None and dtype != "None":
        call["dtype"] = dtype
    if ctx is None or op.startswith("_sample"):
        return _operator(op)(out=out, **call)
    return placed(ctx, lambda where: _operator(op)(out=out, **call, ctx=where))


globals().update(_random.functions(_draw, NDArray))
