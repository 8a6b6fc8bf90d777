"""Arrays in a common shape."""
from .arranging import broadcast_arrays  # noqa: F401

__all__ = ["broadcast_arrays"]
