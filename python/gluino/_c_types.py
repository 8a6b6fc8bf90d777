"""Names of mxnet.base for programs that talk to a C library through ctypes. Nothing of this package needs them."""
import ctypes

import numpy as _np

from .base import MXNetError

__all__ = ["c_str", "c_str_array", "c_array", "c_array_buf", "c_handle_array", "ctypes2buffer", "ctypes2numpy_shared", "check_call", "MXCallbackList",
           "mx_uint", "mx_float", "mx_int", "mx_int64", "NDArrayHandle", "SymbolHandle", "ExecutorHandle", "CachedOpHandle", "KVStoreHandle",
           "DataIterHandle", "RecordIOHandle", "OpHandle", "FunctionHandle", "ProfileHandle", "DataIterCreatorHandle", "CudaModuleHandle", "CudaKernelHandle",
           "DLPackHandle", "mx_float_p", "mx_uint_p", "_LIB"]

mx_uint, mx_float, mx_int, mx_int64 = ctypes.c_uint, ctypes.c_float, ctypes.c_int, ctypes.c_int64
NDArrayHandle = SymbolHandle = ExecutorHandle = CachedOpHandle = KVStoreHandle = DataIterHandle = ctypes.c_void_p
RecordIOHandle = OpHandle = FunctionHandle = ProfileHandle = DataIterCreatorHandle = ctypes.c_void_p
CudaModuleHandle = CudaKernelHandle = DLPackHandle = ctypes.c_void_p
mx_float_p, mx_uint_p = ctypes.POINTER(mx_float), ctypes.POINTER(mx_uint)


class _Library:
    """In the place of MXNet's C library: what is called is named."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*args):
            raise MXNetError(f"{name} is a function of MXNet's C library, which is not here; gluino/c_api.h has the C interface of Gluino")
        return function


_LIB = _Library()


class MXCallbackList(ctypes.Structure):
    """Callbacks and what they are called with."""

    _fields_ = [("num_callbacks", ctypes.c_int), ("callbacks", ctypes.POINTER(ctypes.CFUNCTYPE(ctypes.c_int))),
                ("contexts", ctypes.POINTER(ctypes.c_void_p))]


def c_str(string):
    """Text for C."""
    return ctypes.c_char_p(string.encode("utf-8"))


def c_str_array(strings):
    """Texts for C."""
    return (ctypes.c_char_p * len(strings))(*[text.encode("utf-8") for text in strings])


def c_array(ctype, values):
    """An array of C values."""
    return (ctype * len(values))(*values)


def c_array_buf(ctype, buf):
    """An array of C values over the memory of a buffer."""
    return (ctype * len(buf)).from_buffer(buf)


def c_handle_array(objs):
    """The handles of objects."""
    return (ctypes.c_void_p * len(objs))(*[obj.handle for obj in objs])


def ctypes2buffer(cptr, length):
    """A copy of memory that a pointer to char shows."""
    if not isinstance(cptr, ctypes.POINTER(ctypes.c_char)):
        raise TypeError("expected char pointer")
    return bytearray(ctypes.string_at(cptr, length))


def ctypes2numpy_shared(cptr, shape):
    """A NumPy array over memory that a pointer to float shows."""
    if not isinstance(cptr, ctypes.POINTER(ctypes.c_float)):
        raise RuntimeError("expected float pointer")
    size = int(_np.prod(shape))
    return _np.frombuffer((ctypes.c_float * size).from_address(ctypes.addressof(cptr.contents)), dtype=_np.float32).reshape(shape)


def check_call(ret):
    """Raises where a function of a C library gave something other than 0."""
    if ret != 0:
        raise MXNetError(f"a function of a C library failed: it gave {ret}")
