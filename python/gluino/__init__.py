"""Gluino: deep learning by hybrid programming, with MXNet's Python interface.

>>> import gluino as mx
>>> x = mx.nd.ones((2, 3))
"""
from . import _core, base, context, name, util
from .base import ERRORS as _errors, MXNetError, dtype_name as _dtype_name  # noqa: F401
from .context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus  # noqa: F401
from . import attribute, executor
from .attribute import AttrScope  # noqa: F401
from . import ndarray, symbol, numpy, numpy_extension

nd, sym, np, npx = ndarray, symbol, numpy, numpy_extension
_core.register_package(ndarray.NDArray, numpy.ndarray, symbol.Symbol, numpy._Symbol, name.name_of_call, _dtype_name, _errors)
for _module in (ndarray, symbol):
    _module.np, _module.npx = numpy, numpy_extension
    _module.numpy, _module.numpy_extension = numpy, numpy_extension
del _module

from . import autograd, random  # noqa: E402
from .ndarray import NDArray, waitall  # noqa: F401,E402

rnd = random
__version__ = "1.9.1"
from . import initializer, lr_scheduler, optimizer, gluon  # noqa: E402
from .gluon.block import load_block  # noqa: F401,E402

init = initializer
