"""Operators in libraries of others: these are written for MXNet's C++ interface, which this engine has not."""
import os

from .base import MXNetError

__all__ = ["load"]


def load(path, verbose=True):
    """Raises: write operators in C++ with GLUINO_OP, or in Python with mx.operator.CustomOp."""
    if not os.path.exists(path):
        raise MXNetError(f"load path {path} does NOT exist")
    raise MXNetError(f"{path}: libraries for MXNet's lib_api.h cannot be loaded; write the operator in C++ with GLUINO_OP (HACKING.md), or in "
                     "Python with mx.operator.CustomOp")
