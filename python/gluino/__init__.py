"""Gluino: deep learning by hybrid programming, with MXNet's Python interface.

>>> import gluino as mx
>>> mx.nd.ones((2, 3)).shape
(2, 3)
"""
from . import _core, base, context, name, util
from .base import ERRORS as _errors, MXNetError, dtype_name as _dtype_name  # noqa: F401
from .context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus  # noqa: F401
from . import attribute, executor, operator
from .attribute import AttrScope  # noqa: F401
from .util import is_np_array, is_np_shape, np_array, np_shape, set_np, set_np_shape, reset_np, use_np  # noqa: F401
from . import ndarray, symbol, numpy, numpy_extension
from .symbol import numpy_functions as _  # noqa: F401
from ._number import TracedNumber

nd, sym, np, npx = ndarray, symbol, numpy, numpy_extension
# The engine makes objects of these classes and asks these functions.
_core.register_package(ndarray.NDArray, numpy.ndarray, symbol.Symbol, numpy._Symbol, name.name_of_call, _dtype_name, _errors, TracedNumber)
del TracedNumber
for _module in (ndarray, symbol):
    _module.np, _module.npx = _module.numpy, _module.numpy_extension = numpy, numpy_extension
symbol.np = symbol.numpy = symbol.numpy_functions
symbol.npx = symbol.numpy_extension = symbol.numpy_functions._extension
del _module

from . import autograd, distributed, random  # noqa: E402
from .ndarray import NDArray, waitall  # noqa: F401,E402
from .symbol import Symbol  # noqa: F401,E402
from . import initializer, lr_scheduler, optimizer, metric  # noqa: E402
from . import callback, engine, error, image, io, kvstore, log, model, monitor, profiler, recordio, registry, runtime, visualization  # noqa: E402
from . import gluon, module  # noqa: E402
from .executor import Executor  # noqa: F401,E402
from .gluon.symbol_block import load_block  # noqa: F401,E402
from ._hybrid import hybrid  # noqa: F401,E402
from . import _aliases, contrib  # noqa: E402

init, opt, mod, kv, viz, mon, rnd, img, device = initializer, optimizer, module, kvstore, visualization, monitor, random, image, context
__version__ = "1.9.1"  # what scripts written for MXNet ask for
__gluino_version__ = _core.version
_aliases.install()

_LAZY = ("libinfo", "library", "misc", "numpy_dispatch_protocol", "onnx", "rnn", "rtc", "test_utils")  # what few programs need


def __getattr__(name):
    if name in _LAZY:
        import importlib
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
