"""AttrScope: attributes for all symbols made in a `with` block."""
import threading

from . import _core
from .base import CurrentValue

__all__ = ["AttrScope"]


class _CurrentScope(type):
    current = property(lambda cls: current())


class AttrScope(metaclass=_CurrentScope):
    """Symbols made inside carry these attributes; names get underscores as MXNet's files have them: __ctx_group__."""

    _local = threading.local()

    def __init__(self, **kwargs):
        for value in kwargs.values():
            if not isinstance(value, str):
                raise ValueError("Attributes need to be string")
        self._attr = {self._hidden(key): value for key, value in kwargs.items()}
        self._outer = None

    @staticmethod
    def _hidden(key):
        return key if key.startswith("__") else f"__{key}__"

    def get(self, attr):
        """These attributes with `attr` on top."""
        return {**self._attr, **(attr or {})}

    def __enter__(self):
        self._outer = current()
        self._attr = {**self._outer._attr, **self._attr}
        AttrScope._local.value = self
        _core.set_attr_scope(self._attr)
        return self

    def __exit__(self, *exc):
        AttrScope._local.value = self._outer
        _core.set_attr_scope(self._outer._attr)


def current():
    """The innermost scope of this thread."""
    return getattr(AttrScope._local, "value", None) or AttrScope()


def _go_on_in(scope):
    AttrScope._local.value = scope
    _core.set_attr_scope(scope._attr)


AttrScope._current = CurrentValue(current, _go_on_in)
