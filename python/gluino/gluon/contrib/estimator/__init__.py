"""Estimator: a training loop with event handlers."""
from .batch_processor import BatchProcessor
from .estimator import Estimator
from .event_handler import *  # noqa: F401,F403
