"""Functions that NumPy itself computes: without gradients, and without a place in a hybridized program."""
import functools
import io
import os

import numpy as _np

from .. import _core
from ..base import MXNetError
from .multiarray import array

__all__ = ["by_numpy", "whole_files"]


def _arrays(x):
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from _arrays(item)
    elif isinstance(x, (_core.Array, _core.SymbolBase)):
        yield x


def _plain(x):
    if isinstance(x, (list, tuple)):
        return type(x)(_plain(item) for item in x)
    return x.asnumpy() if isinstance(x, (_core.Array, _core.SymbolBase)) else x


def _wrapped(x):
    if isinstance(x, (list, tuple)):
        return (tuple if isinstance(x, tuple) else list)(_wrapped(item) for item in x)
    return array(x) if isinstance(x, (_np.ndarray, _np.generic)) else x


def _has_gradient(x):
    return any(map(_has_gradient, x)) if isinstance(x, (list, tuple)) else _np.issubdtype(getattr(x, "dtype", int), _np.floating)


def by_numpy(function, name):
    """`function` of NumPy for arrays of mx.np; an error where its gradient would be lost."""
    @functools.wraps(function)
    def fallback(*args, **kwargs):
        result = function(*_plain(args), **{key: _plain(value) for key, value in kwargs.items()})
        if _has_gradient(result):  # counts, positions and truths have none
            for given in _arrays([*args, *kwargs.values()]):
                if _core.is_traced(given):
                    _core.refuse_trace(f"mx.np.{name} is computed by NumPy and cannot be part of a hybridized program")
                if _core.is_recorded(given):
                    raise MXNetError(f"mx.np.{name} is computed by NumPy and has no gradient; call it outside of autograd.record(), or on "
                                     "x.detach() where none is wanted")
        return _wrapped(result)
    fallback.__doc__ = f"numpy.{name}; not differentiable.\n\n{function.__doc__ or ''}"
    return fallback


def whole_files(writer, name):
    """A function of NumPy that writes a file, so that it appears whole or not at all."""
    ending = {"save": ".npy", "savez": ".npz", "savez_compressed": ".npz"}.get(name, "")

    @functools.wraps(writer)
    def write(file, *args, **kwargs):
        if not isinstance(file, (str, os.PathLike)) or (name == "savetxt" and str(file).endswith((".gz", ".bz2", ".xz"))):
            return writer(file, *args, **kwargs)
        path, content = os.fspath(file), io.BytesIO()
        writer(content, *args, **kwargs)
        _core.write_files([(path if path.endswith(ending) else path + ending, content.getvalue())])
        return None
    return write
