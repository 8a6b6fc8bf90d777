"""mx.npx.random."""
from ..numpy import random as _random
from ..numpy.random import bernoulli, seed  # noqa: F401

__all__ = ["bernoulli", "normal_n", "uniform_n", "seed"]


def _batched(draw, first, second, batch_shape, dtype, ctx):
    """So many numbers for every element of the parameters: axes of the batch come first."""
    batch = () if batch_shape is None else (batch_shape,) if isinstance(batch_shape, int) else tuple(batch_shape)
    return draw(first, second, batch + _random._size(None, first, second), dtype, ctx)


def normal_n(loc=0.0, scale=1.0, batch_shape=None, dtype=None, ctx=None):
    """Normal numbers; the result's shape is batch_shape and then that of the parameters."""
    return _batched(_random.normal, loc, scale, batch_shape, dtype, ctx)


def uniform_n(low=0.0, high=1.0, batch_shape=None, dtype=None, ctx=None):
    """Uniform numbers; the result's shape is batch_shape and then that of the parameters."""
    return _batched(_random.uniform, low, high, batch_shape, dtype, ctx)
