"""CUDA at run time, which this build has not."""
from .base import MXNetError

__all__ = ["CudaModule", "CudaKernel"]

_NO_GPU = "this build computes on the CPU: CUDA sources cannot be compiled; write an operator with mx.operator.CustomOp"


class CudaModule:
    """Raises."""

    def __init__(self, source, options=(), exports=()):
        raise MXNetError(_NO_GPU)

    def get_kernel(self, name, signature):
        """Raises."""
        raise MXNetError(_NO_GPU)


class CudaKernel:
    """Raises."""

    def __init__(self, handle, name, is_ndarray, dtypes):
        raise MXNetError(_NO_GPU)

    def launch(self, args, ctx, grid_dims, block_dims, shared_mem=0):
        """Raises."""
        raise MXNetError(_NO_GPU)
