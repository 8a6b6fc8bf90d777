"""How operators without a name get one: fullyconnected0, dense0_fwd, ..."""
import threading

from .base import CurrentValue

__all__ = ["NameManager", "Prefix"]


class _CurrentManager(type):
    current = property(lambda cls: current())


class NameManager(metaclass=_CurrentManager):
    """Numbers operators of the same kind. Used with `with`."""

    _local = threading.local()

    def __init__(self):
        self._counter = {}
        self._outer = []  # a manager may be entered again inside of itself

    def get(self, name, hint):
        """`name` if there is one, else the hint with a number."""
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"

    def __enter__(self):
        self._outer.append(current())
        NameManager._local.value = self
        return self

    def __exit__(self, *exc):
        NameManager._local.value = self._outer.pop()


class Prefix(NameManager):
    """Puts a prefix before every name."""

    def __init__(self, prefix):
        super().__init__()
        self._prefix = prefix

    def get(self, name, hint):
        return self._prefix + super().get(name, hint)


def current():
    """The manager of this thread."""
    value = getattr(NameManager._local, "value", None)
    if value is None:
        value = NameManager._local.value = NameManager()
    return value


NameManager._current = CurrentValue(current, lambda manager: setattr(NameManager._local, "value", manager))


def name_of_call(name, hint):
    """The name of an operator's call; the engine asks while it builds graphs."""
    return current().get(name, hint.lower())
