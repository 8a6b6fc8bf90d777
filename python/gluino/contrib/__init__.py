"""mx.contrib: control flow and contributed operators, for arrays and symbols; text, mixed precision, and other things beside the main road."""
from ..ndarray import contrib as ndarray
from ..symbol import contrib as symbol
from .._control_flow import cond, foreach, while_loop  # noqa: F401

nd, sym = ndarray, symbol
_LAZY = ("amp", "autograd", "io", "onnx", "quantization", "svrg_optimization", "tensorboard", "text")


def __getattr__(name):
    if name in _LAZY:
        import importlib
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
