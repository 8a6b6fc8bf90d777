"""Iterators over batches."""
from . import io  # noqa: F401
from .io import *  # noqa: F401,F403
