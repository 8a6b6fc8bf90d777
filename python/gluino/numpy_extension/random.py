"""mx.npx.random."""
from ..numpy.random import bernoulli, normal as normal_n, seed, uniform as uniform_n  # noqa: F401
