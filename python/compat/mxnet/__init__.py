"""`import mxnet` finds gluino: every module of this package is the module of gluino with the same name."""
import importlib
import importlib.abc
import importlib.util
import sys

import numpy

import gluino

# Programs of MXNet's years say numpy.float for Python's float; NumPy has dropped the names since.
for _type in (bool, int, float, complex, object, str):
    if _type.__name__ not in vars(numpy):
        setattr(numpy, _type.__name__, _type)


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports mxnet.x.y as gluino.x.y: one module under two names."""

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith("mxnet."):
            return None
        real = "gluino" + fullname[len("mxnet"):]
        try:
            importlib.import_module(real)
        except ModuleNotFoundError as error:
            if error.name != real and not real.startswith(f"{error.name}."):
                raise
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def create_module(self, spec):
        module = sys.modules["gluino" + spec.name[len("mxnet"):]]
        self._specs = {**getattr(self, "_specs", {}), spec.name: module.__spec__}
        return module

    def exec_module(self, module):
        # The import system put the alias's spec into the module; it keeps its own.
        module.__spec__ = importlib.util.find_spec(module.__name__) if module.__spec__ is None else self._specs.get(module.__spec__.name, module.__spec__)


sys.meta_path.insert(0, _Alias())
sys.modules["mxnet"] = gluino
# What is loaded needs no loading: that would write over attributes of the same name, as in vision.alexnet, a module and a function.
for _name, _module in list(sys.modules.items()):
    if _name.startswith("gluino."):
        sys.modules["mxnet" + _name[len("gluino"):]] = _module
