"""mx.random: the functions of mx.nd.random, and seed."""
from . import _core
from .context import engine_device
from .ndarray.random import *  # noqa: F401,F403

__all__ = ["seed"]


def seed(seed_state, ctx="all"):
    """Starts the random generators again: those of one context, or all."""
    if not isinstance(seed_state, int):
        try:
            seed_state = int(seed_state)
        except (TypeError, ValueError):
            raise ValueError("sd must be int") from None
    _core.seed(seed_state % 2**64, None if ctx == "all" else engine_device(ctx))
