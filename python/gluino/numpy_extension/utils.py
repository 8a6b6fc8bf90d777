"""Files of arrays, and DLPack."""
from .. import _register

__all__ = ["save", "load", "from_dlpack", "from_numpy", "to_dlpack_for_read", "to_dlpack_for_write"]

__getattr__ = _register.elsewhere("gluino.numpy_extension")
