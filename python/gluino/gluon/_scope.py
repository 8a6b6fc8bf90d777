"""What blocks use inside: scopes that give prefixes, handles of hooks, their parts by name."""
import collections
import threading

from .. import _core
from ..name import Prefix
from .parameter_dict import ParameterDict

__all__ = ["BlockScope", "HookHandle", "Parts"]


class BlockScope:
    """Gives blocks prefixes: net0_, and inside its name_scope() dense0_, dense1_ ..."""

    _local = threading.local()

    def __init__(self, block):
        # The block keeps the counts, not the scope: holding each other, both would outlive their last user.
        self._block, self._counter = block, block._scope_counts
        self._outer, self._names = None, None

    @staticmethod
    def create(prefix, params, hint):
        """Prefix and parameters for a new block."""
        outer = getattr(BlockScope._local, "value", None)
        if outer is None:
            if prefix is None:
                names = BlockScope._local.__dict__.setdefault("counter", {})
                number = names.get(hint, 0)
                names[hint] = number + 1
                prefix = f"{hint}{number}_"
            return prefix, ParameterDict(prefix) if params is None else ParameterDict(params.prefix, params)
        if prefix is None:
            number = outer._counter.get(hint, 0)
            outer._counter[hint] = number + 1
            prefix = f"{hint}{number}_"
        if params is None:
            parent = outer._block.params
            params = ParameterDict(parent.prefix + prefix, parent._shared)
        else:
            params = ParameterDict(params.prefix, params)
        return outer._block.prefix + prefix, params

    def __enter__(self):
        if self._block._empty_prefix:
            return self
        self._outer = getattr(BlockScope._local, "value", None)
        BlockScope._local.value = self
        self._names = Prefix(self._block.prefix)
        self._names.__enter__()
        return self

    def __exit__(self, *exc):
        if self._block._empty_prefix:
            return
        self._names.__exit__()
        BlockScope._local.value = self._outer


class HookHandle:
    """What register_forward_hook gives: detach() takes the hook away."""

    def __init__(self, hooks, hook):
        self._hooks, self._hook = hooks, hook

    def detach(self):
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)
            _core.structure_changed()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.detach()


class Parts(collections.OrderedDict):
    """Children or parameters of a block by name: compiled programs learn that they have changed."""

    def _noting(change):
        def changed(self, *args, **kwargs):
            _core.structure_changed()
            return change(self, *args, **kwargs)
        return changed

    __setitem__, __delitem__ = _noting(collections.OrderedDict.__setitem__), _noting(collections.OrderedDict.__delitem__)
    clear, pop, popitem = _noting(collections.OrderedDict.clear), _noting(collections.OrderedDict.pop), _noting(collections.OrderedDict.popitem)
    move_to_end = _noting(collections.OrderedDict.move_to_end)
