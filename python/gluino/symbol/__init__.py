"""mx.sym: graphs, and the operators that build them."""
from .. import _core
from . import _internal, contrib, image, linalg, random, sparse
from .symbol import *  # noqa: F401,F403
from .symbol import Symbol, __all__ as _made_here
from .._register import fill as _fill, methods as _methods

__all__ = [*_made_here, *_core.binary_functions]
globals().update({name: function for name, function in _core.binary_functions.items() if name not in globals()})
_fill(__import__("sys").modules[__name__], symbolic=True)
op = _internal

for _name, _method in _methods(symbolic=True).items():
    if not hasattr(Symbol, _name):
        setattr(Symbol, _name, _method)
del _name, _method
