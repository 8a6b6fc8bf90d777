"""DistKVStore: values by key, summed over the devices and ranks of a job."""
import logging

import numpy as np

from .. import _core, autograd, distributed, ndarray as nd
from ..base import MXNetError
from .kvstore import KVStore

__all__ = ["DistKVStore"]


class DistKVStore(KVStore):
    """The store of kvstore='dist_sync': every rank pushes, all wait for each other, and all pull the same."""

    def __init__(self, handle):
        super().__init__(handle)
        distributed.init()
        self._compression, self._residuals = None, {}
        if handle == "dist_async" and distributed.rank() == 0:
            logging.getLogger(__name__).warning("kvstore 'dist_async' runs as 'dist_sync': all ranks make each step together")

    @property
    def rank(self):
        """The number of this rank."""
        return distributed.rank()

    @property
    def num_workers(self):
        """How many ranks there are."""
        return distributed.size()

    def barrier(self):
        """Waits until all ranks have come to it."""
        distributed.barrier()

    _barrier = barrier

    def init(self, key, value):
        """First values: those of rank 0."""
        super().init(key, value)
        with autograd.pause():
            distributed.broadcast_from_first([self._values[k] for k, _ in self._pairs(key, value)])

    def _sum(self, value):
        """Over the devices, then over the ranks. Sparse arrays travel as rows: those that are zeros on all ranks stay away."""
        with autograd.pause():
            total = KVStore._sum(value)
            if getattr(total, "stype", "default") == "default":
                return distributed.all_reduce(total)
            rows, data = total.indices, total.data
            rows, data = distributed.all_gather_rows(rows), distributed.all_gather_rows(data)
            dense = np.zeros(total.shape, dtype=total.dtype)
            np.add.at(dense, rows.asnumpy(), data.asnumpy())
            return nd.array(dense, dtype=total.dtype, ctx=total.context).tostype("row_sparse")

    def push(self, key, value, priority=0):
        """Sums values of devices and ranks; the updater, if any, changes the stored one."""
        if self._compression is None:
            super().push(key, value, priority)
            return
        pairs = self._pairs(key, value)
        super().push([k for k, _ in pairs], [self._compressed(k, v) for k, v in pairs], priority)

    def _compressed(self, key, value):
        """What the codes of all ranks stand for, as this rank's share: the sum over the ranks is then made of what was sent."""
        total, (kind, threshold) = KVStore._sum(value), self._compression
        if kind != "2bit":
            return total.astype("float16").astype(total.dtype) if kind == "fp16" else total.astype("bfloat16").astype(total.dtype)
        residual = self._residuals.get(key)
        residual = total if residual is None else residual + total
        code = (residual >= threshold) - (residual <= -threshold)
        self._residuals[key] = residual - code * threshold
        return code * threshold

    def set_gradient_compression(self, compression_params):
        """How pushed values travel: {'type': '2bit', 'threshold': 0.5}, {'type': 'fp16'} or {'type': 'bf16'}."""
        options = dict(compression_params)
        kind, threshold = options.pop("type", None), float(options.pop("threshold", 0.5))
        if kind not in ("2bit", "fp16", "bf16") or options:
            raise MXNetError(f"gradient compression {compression_params} is not there; 'type' can be '2bit' (with a 'threshold'), 'fp16' or 'bf16'")
        self._compression = (kind, threshold)

    def make_exchange(self, compression_params):
        """What a Trainer sums its gradients with."""
        if compression_params is not None:
            self.set_gradient_compression(compression_params)
        kind, threshold = self._compression or ("", 0.5)
        return _core.distributed.GradientExchange(kind, threshold, 4.0, True)

    @staticmethod
    def share(arrays):
        """All ranks take the arrays of rank 0, in place."""
        distributed.broadcast_from_first(arrays)

