"""Modules under the further names that MXNet has them under."""
import importlib
import sys

# ndarray.numpy is mx.np; symbol.numpy knows besides what to do where shapes are not known.
_ALIASES = {
    "ndarray.numpy": "numpy", "ndarray.numpy._op": "numpy", "ndarray.numpy.linalg": "numpy.linalg", "ndarray.numpy.random": "numpy.random",
    "ndarray.numpy_extension": "numpy_extension", "ndarray.numpy_extension._op": "numpy_extension",
    "ndarray.numpy_extension.random": "numpy_extension.random",
    "symbol.numpy": "symbol.numpy_functions", "symbol.numpy._symbol": "symbol.numpy_functions",
    "contrib.ndarray": "ndarray.contrib", "contrib.symbol": "symbol.contrib", "ndarray.op": "ndarray._internal", "symbol.op": "symbol._internal", "rnd": "random", "executor_manager": "module.executor_group", "io.utils": "io.io", "kvstore_server": "kvstore.kvstore_server",
}


def install():
    """Makes `import gluino.ndarray.numpy._op` and its like give the module itself."""
    package = __name__.rpartition(".")[0]
    for alias, real in _ALIASES.items():
        module = sys.modules.setdefault(f"{package}.{alias}", importlib.import_module(f"{package}.{real}"))
        around, _, name = alias.rpartition(".")
        around = sys.modules[f"{package}.{around}" if around else package]
        if name not in vars(around):  # as an import of a module of its own would
            setattr(around, name, module)
    functions = sys.modules[f"{package}.symbol.numpy_functions"]
    extension = functions._extension
    sys.modules.update({f"{package}.symbol.numpy_extension": extension, f"{package}.symbol.numpy_extension.random": extension.random})
    for name in ("linalg", "random"):
        sys.modules[f"{package}.symbol.numpy.{name}"] = functions.__getattr__(name)
        setattr(functions, name, functions.__getattr__(name))
