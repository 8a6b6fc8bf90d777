"""Estimator: a training loop with event handlers."""
from .estimator import Estimator
from .event_handler import *  # noqa: F401,F403
