"""Contributed layers."""
from ...nn import Concatenate as Concurrent, HybridConcatenate as HybridConcurrent, Identity, SyncBatchNorm
from ...block import Block
from ...hybrid_block import HybridBlock

__all__ = ["Concurrent", "HybridConcurrent", "Identity", "SparseEmbedding", "SyncBatchNorm", "PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D"]


def _shuffle(axes):
    class PixelShuffle(HybridBlock):
        def __init__(self, factor):
            super().__init__()
            self._factors = (factor,) * axes if isinstance(factor, int) else tuple(factor)

        def hybrid_forward(self, F, x):
            """(N, C * f..., W...) to (N, C, W * f...)."""
            split = F.reshape(x, shape=(0, -4, -1, _product(self._factors), *([0] * axes)))
            for i, f in enumerate(self._factors[:-1]):
                split = F.reshape(split, shape=(*([0] * (2 + i)), -4, f, -1, *([0] * axes)))
            order = [0, 1]
            for i in range(axes):
                order += [2 + axes + i, 2 + i]
            return F.reshape(F.transpose(split, axes=order), shape=(0, 0, *([-3] * axes)))
    PixelShuffle.__name__ = PixelShuffle.__qualname__ = f"PixelShuffle{axes}D"
    PixelShuffle.__doc__ = f"Channels become finer positions along {axes} axes."
    return PixelShuffle


def _product(numbers):
    result = 1
    for n in numbers:
        result *= n
    return result


PixelShuffle1D, PixelShuffle2D, PixelShuffle3D = (_shuffle(axes) for axes in (1, 2, 3))


class SparseEmbedding(Block):
    """Embedding whose gradient is row_sparse: rows of words that did not come up stay as they are."""

    def __init__(self, input_dim, output_dim, dtype="float32", weight_initializer=None, **kwargs):
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype, "sparse_grad": True}
        self.weight = self.params.get("weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype, grad_stype="row_sparse",
                                      stype="row_sparse")

    def forward(self, x):
        from .... import ndarray as nd
        return nd.Embedding(x, self.weight.row_sparse_data(x), name="fwd", **self._kwargs)

    def __repr__(self):
        return f"{type(self).__name__}({self._kwargs['input_dim']} -> {self._kwargs['output_dim']}, {self._kwargs['dtype']})"
