"""Batches of loaders, as MXNet documents them."""
import numpy as np

import gluino as mx
from gluino.gluon import data


def test_batches_keep_the_dtype_of_numpy_arrays():
    for dtype in ("float64", "float32", "float16", "int32", "int64", "uint8"):
        for workers in (0, 2):
            batch = next(iter(data.DataLoader([(np.ones(2, dtype), np.ones(3, "uint8"))] * 4, 2, num_workers=workers)))
            assert batch[0].dtype == np.dtype(dtype) and batch[1].dtype == np.uint8 and batch[0].shape == (2, 2)
    assert next(iter(data.DataLoader([1.5, 2.5], 2))).dtype == np.float64
    assert isinstance(next(iter(data.DataLoader([mx.nd.ones(2)] * 2, 2))), mx.nd.NDArray)
