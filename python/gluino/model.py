"""Checkpoints of symbolic models."""
import collections

from . import _core
from . import ndarray as nd
from . import symbol as sym

__all__ = ["BatchEndParam", "save_checkpoint", "load_checkpoint", "load_params"]

BatchEndParam = collections.namedtuple("BatchEndParams", ["epoch", "nbatch", "eval_metric", "locals"])


def save_checkpoint(prefix, epoch, symbol, arg_params, aux_params, remove_amp_cast=True):
    """Writes prefix-symbol.json and prefix-0001.params."""
    values = {f"arg:{name}": value for name, value in arg_params.items()}
    values.update({f"aux:{name}": value for name, value in aux_params.items()})
    files = [(f"{prefix}-{epoch:04d}.params", _core.write_params([(name, value, value._sparse_parts) for name, value in values.items()]))]
    if symbol is not None:
        files.append((f"{prefix}-symbol.json", symbol.tojson().encode()))
    _core.write_files(files)


def load_params(prefix, epoch):
    """(arguments, auxiliary states) of a checkpoint."""
    args, states = {}, {}
    for name, value in nd.load(f"{prefix}-{epoch:04d}.params").items():
        kind, _, short = name.partition(":")
        (states if kind == "aux" else args)[short] = value
    return args, states


def load_checkpoint(prefix, epoch):
    """(symbol, arguments, auxiliary states) of a checkpoint."""
    return (sym.load(f"{prefix}-symbol.json"), *load_params(prefix, epoch))
