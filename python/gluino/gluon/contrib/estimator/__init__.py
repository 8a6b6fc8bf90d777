"""Estimator: a training loop with event handlers."""
from .estimator import BatchProcessor, Estimator
from .event_handler import *  # noqa: F401,F403
