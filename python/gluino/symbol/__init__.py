"""mx.sym: graphs, and the operators that build them."""
import sys as _sys

from .. import _core
from . import _internal, contrib, image, linalg, random, sparse
from .symbol import *  # noqa: F401,F403
from .symbol import Symbol, __all__ as _made_here
from ..operator import custom_function as _custom_function
from .._register import fill as _fill, methods as _methods, missing as _missing

__all__ = [*_made_here, *_core.binary_functions]
globals().update({name: function for name, function in _core.binary_functions.items() if name not in globals()})
_package = _sys.modules[__name__]
__getattr__ = _missing(_package)
_fill(_package, symbolic=True)
op = _internal
Custom = _custom_function(_internal.Custom, symbolic=True)

for _name, _method in _methods(symbolic=True).items():
    if not hasattr(Symbol, _name):
        setattr(Symbol, _name, _method)
del _name, _method
