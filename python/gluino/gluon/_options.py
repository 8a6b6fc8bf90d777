"""Texts among the options of layers that MXNet looks at in the constructor; others are looked at by the operator, at the first call."""
__all__ = ["check_layout"]

_SPACES = {1: "W", 2: "HW", 3: "DHW"}


def check_layout(layer, layout, axes):
    """Channels before or behind the axes of space."""
    known = f"NC{_SPACES[axes]}", f"N{_SPACES[axes]}C"
    if layout not in known:
        raise AssertionError(f"{type(layer).__name__}: layout is {layout!r}; it must be {known[0]} or {known[1]}")
