"""Texts among the options of layers: a wrong one is an error of the constructor, not of the first call."""
from .. import _core

__all__ = ["check_activation", "check_layout"]

_SPACES = {1: "W", 2: "HW", 3: "DHW"}


def check_activation(function):
    """The function of an Activation; a block or a function of the user's is none of ours."""
    if isinstance(function, str):
        _core.check_attributes("Activation", {"act_type": function})


def check_layout(layer, layout, axes):
    """Channels before or behind the axes of space."""
    known = f"NC{_SPACES[axes]}", f"N{_SPACES[axes]}C"
    if layout not in known:
        raise AssertionError(f"{type(layer).__name__}: layout is {layout!r}; it must be {known[0]} or {known[1]}")
