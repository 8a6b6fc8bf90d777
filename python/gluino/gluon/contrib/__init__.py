"""Contributed blocks and training helpers."""
from . import estimator, nn, rnn
