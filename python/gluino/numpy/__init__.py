"""mx.np: NumPy's interface over the engine. What cannot be made of its operators is computed by NumPy, without gradients."""
import numpy as _numpy

from .. import _core, _register
from . import arranging as _arranging, elementwise as _elementwise, functions as _functions, linalg, measures as _measures
from . import multiarray as _multiarray, products as _products, random
from .multiarray import *  # noqa: F401,F403
from .multiarray import _Symbol, array, ndarray
from .functions import *  # noqa: F401,F403
from .arranging import *  # noqa: F401,F403
from .products import *  # noqa: F401,F403
from .measures import *  # noqa: F401,F403
from .elementwise import *  # noqa: F401,F403
from .fallback import by_numpy, whole_files as _whole_files

PZERO, NZERO = 0.0, -0.0
pi, e, inf, nan, newaxis, euler_gamma = _numpy.pi, _numpy.e, _numpy.inf, _numpy.nan, None, _numpy.euler_gamma
float16, float32, float64 = _numpy.float16, _numpy.float32, _numpy.float64
uint8, int8, int16, int32, int64, bool_, bool = (_numpy.uint8, _numpy.int8, _numpy.int16, _numpy.int32, _numpy.int64, _numpy.bool_,
                                                 _numpy.bool_)
dtype, integer, floating, generic = _numpy.dtype, _numpy.integer, _numpy.floating, _numpy.generic

_own = {_name for _module in (_functions, _multiarray, _arranging, _measures, _elementwise, _products) for _name in _module.__all__}
for _name, _function in _core.binary_functions.items():
    if _name not in _own and (hasattr(_numpy, _name) or _name in ("modulo",)):
        globals()[_name] = _function
for _name, _op in _core.operator_names():
    # An operator of the same name as a NumPy function is that function, unless it is defined above.
    if hasattr(_numpy, _name) and _name not in globals():
        globals()[_name] = _core.make_operator(_op, _name, True, False)
for _name in ("sum mean prod max min amax amin std var average argmax argmin argsort sort cumsum clip reshape transpose swapaxes moveaxis squeeze "
              "expand_dims broadcast_to split array_split take repeat tile flip all any ravel tril triu diff shape ndim size append roll rot90 flipud "
              "fliplr pad diag diagonal diagflat trace insert delete resize hsplit vsplit dsplit rollaxis permute_dims ediff1d unique histogram bincount nansum nanprod median "
              "quantile percentile ptp nanmean nanvar nanstd nanmax nanmin cumprod nan_to_num sinc copy zeros_like ones_like full_like "
              "empty_like").split():
    globals()[_name] = _multiarray.taking_lists(globals()[_name])
for _name in "dot matmul tensordot inner outer vdot kron cross polyval".split():
    globals()[_name] = _multiarray.taking_lists(globals()[_name], 2)
del _name, _function, _op


_writers = {"save", "savez", "savez_compressed", "savetxt"}


def __getattr__(name):
    if name == "load_json":  # symbols of mx.np are loaded as all others
        from ..symbol import load_json
        return load_json
    function = getattr(_numpy, name, None)
    if name.startswith("_") or not callable(function):
        raise AttributeError(f"module 'mxnet.numpy' has no attribute {name!r}")
    if isinstance(function, type) and issubclass(function, _numpy.generic):
        return function  # a dtype
    function = by_numpy(function, name)
    return _whole_files(function, name) if name in _writers else function
