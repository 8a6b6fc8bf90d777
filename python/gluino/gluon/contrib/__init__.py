"""Contributed blocks and training helpers."""
from . import cnn, data, estimator, nn, rnn  # noqa: F401
