"""Errors by the names of mxnet.error."""
from .base import InternalError, MXNetError, register_error  # noqa: F401

__all__ = ["MXNetError", "register", "InternalError"]

register = register_error
register_error("ValueError", ValueError)
register_error("TypeError", TypeError)
register_error("AttributeError", AttributeError)
register_error("IndexError", IndexError)
register_error("NotImplementedError", NotImplementedError)
