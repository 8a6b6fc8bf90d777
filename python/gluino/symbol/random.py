"""mx.sym.random: numbers drawn when the graph runs."""
from .. import _random
from .symbol import Symbol, _operator

__all__ = _random.NAMES[:]


def _draw(op, dtype, ctx, out, attrs):
    call = {key: value for key, value in attrs.items() if value is not None}
    if dtype is not None and dtype != "None":
        call["dtype"] = dtype
    return _operator(op)(**call)


globals().update(_random.functions(_draw, Symbol))
_drawn = globals()["multinomial"]


def multinomial(data, shape=None, get_prob=True, dtype="int32", **kwargs):
    """Positions drawn with the probabilities of the last axis; get_prob: with the logarithms of these."""
    return _drawn(data, shape, get_prob, dtype=dtype, **kwargs)
