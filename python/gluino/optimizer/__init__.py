"""Optimizers: mx.optimizer.create('sgd', learning_rate=0.1)."""
from .optimizer import *  # noqa: F401,F403
from .optimizers import *  # noqa: F401,F403
from . import contrib  # noqa: F401
