"""mx.nd: arrays and the operators over them."""
import sys as _sys

from .. import _core
from . import _internal, contrib, image, linalg, random, sparse
from .ndarray import *  # noqa: F401,F403
from .ndarray import NDArray, _DTYPE_MX_TO_NP, _DTYPE_NP_TO_MX, _GRAD_REQ_MAP, __all__ as _made_in_ndarray  # noqa: F401
from .files import *  # noqa: F401,F403
from .files import __all__ as _made_in_files
from .sparse import CSRNDArray, RowSparseNDArray, cast_storage  # noqa: F401
from ._sparse_product import with_sparse as _with_sparse
from ..operator import custom_function as _custom_function
from .._register import fill as _fill, methods as _methods, missing as _missing

__all__ = [*_made_in_ndarray, *_made_in_files, *_core.binary_functions]
globals().update({name: function for name, function in _core.binary_functions.items() if name not in globals()})
_package = _sys.modules[__name__]
__getattr__ = _missing(_package)
_fill(_package, symbolic=False)
op = _internal
_internal.NDArrayBase = NDArray  # the class under all arrays
Custom = _custom_function(_internal.Custom, symbolic=False)
dot = _with_sparse(dot)  # noqa: F821 - an operator

for _name, _method in _methods(symbolic=False).items():
    if not hasattr(NDArray, _name):
        setattr(NDArray, _name, _method)
del _name, _method
