"""Contributed optimizers."""
from .. import _core, ndarray as nd
from ..numpy import ndarray as np_ndarray
from .optimizer import Optimizer, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one history per row of the weight; there is no weight decay."""

    def __init__(self, eps=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index, weight):
        rows = (weight.shape[0], *[1] * (weight.ndim - 1))
        return _core.as_flavour(nd.zeros(rows, weight.context, dtype=weight.dtype), isinstance(weight, np_ndarray))

    def step_one(self, index, weight, grad, state, lr, wd, t):
        if wd:
            raise AssertionError("Weight decay is not supported for GroupAdaGrad")
        if isinstance(grad, nd.sparse.RowSparseNDArray):  # the rows of the others stay as they are
            rows = grad.indices
            touched, history = nd.take(weight, rows), nd.take(state, rows)
            self.step_one(index, touched, grad.data, history, lr, wd, t)
            _core.write_rows(weight, rows, touched)
            _core.write_rows(state, rows, history)
            return
        nd.contrib.group_adagrad_update(weight, grad, state, out=weight, lr=lr, rescale_grad=self.rescale_grad, epsilon=self.float_stable_eps,
                                        clip_gradient=self.clip_gradient or -1.0)
