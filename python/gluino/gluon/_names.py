"""Which parameter of a block an array is: asked while a call is traced, for every array that it meets."""
import weakref
from collections import OrderedDict

from . import parameter as _parameter

__all__ = ["ParameterNames"]


class ParameterNames:
    """Called with the handle of an array, it gives the parameter's name, or "". forget() when parameters or blocks may have changed."""

    def __init__(self, block):
        self._block, self._names, self._waiting, self._forgotten = weakref.ref(block), None, None, 0

    def forget(self):
        self._names = None

    def __call__(self, handle):
        if self._names is None or self._forgotten != _parameter.forgotten[0]:
            self._read()
        if handle not in self._names:
            # Those that get their values during the trace are met in the order of the blocks: the first one is almost always it.
            for key, parameter in self._waiting.items():
                if any(array._handle == handle for array in parameter._data or ()):
                    del self._waiting[key]
                    self._add(parameter)
                    break
        return self._names.get(handle, "")

    def _read(self):
        self._forgotten = _parameter.forgotten[0]
        self._names, self._waiting = {}, OrderedDict()
        for parameter in self._block().collect_params().values():
            if parameter._data is None:
                self._waiting[id(parameter)] = parameter
            else:
                self._add(parameter)

    def _add(self, parameter):
        for array in parameter._data:
            self._names.setdefault(array._handle, parameter.name)
