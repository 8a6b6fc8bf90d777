"""Contributed samplers."""
from ...data.sampler import IntervalSampler  # noqa: F401

__all__ = ["IntervalSampler"]
