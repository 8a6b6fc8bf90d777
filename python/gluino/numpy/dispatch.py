"""NumPy's functions on arrays of mx.np: those of mx.np of the same name, and NumPy's own where it has none."""
import numpy as _np

from .. import _core
from .fallback import by_numpy
from .multiarray import array

_OTHERS = {"linalg", "random", "fft"}  # NumPy's namespaces in which functions are looked for
_VALUES = (_core.Array, _core.SymbolBase)  # values of a trace are among them, whatever their class says


def function(of_numpy):
    """What does of_numpy's work on arrays of mx.np."""
    from .. import numpy
    place = getattr(of_numpy, "__module__", "numpy").rpartition(".")[2]  # ufuncs do not say
    namespace = getattr(numpy, place, None) if place in _OTHERS else numpy
    return getattr(namespace, of_numpy.__name__, None) or by_numpy(of_numpy, of_numpy.__name__)


def _of_mx(x):
    return array(x, dtype=x.dtype) if isinstance(x, _np.ndarray) else x


def ufunc(of_numpy, method, inputs, out, options):
    """of_numpy(*inputs, out=out), or one of its methods, which NumPy computes."""
    if method != "__call__" or any(not isinstance(x, (*_VALUES, _np.ndarray, _np.generic, int, float, bool, list)) for x in inputs):
        plain = [x.asnumpy() if isinstance(x, _VALUES) else x for x in inputs]
        return getattr(of_numpy, method)(*plain, **options)
    made = function(of_numpy)(*[_of_mx(x) for x in inputs], **options)
    if out is None:
        return made
    target = out[0]
    target[...] = made if isinstance(target, _VALUES) else made.asnumpy()
    return target
