"""Contributed data sets and samplers."""
from . import sampler, text  # noqa: F401
from .sampler import *  # noqa: F401,F403
