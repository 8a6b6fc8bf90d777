"""Grids."""
from .arranging import meshgrid  # noqa: F401

__all__ = ["meshgrid"]
