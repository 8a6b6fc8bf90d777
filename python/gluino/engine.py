"""mx.engine: operators run at once, so bulking has no effect."""
import contextlib

__all__ = ["bulk", "set_bulk_size"]


def set_bulk_size(size):
    """Gives the size before: 0."""
    return 0


@contextlib.contextmanager
def bulk(size):
    """A scope without effect."""
    yield
