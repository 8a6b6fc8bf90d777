"""Contributed optimizers."""
from .. import ndarray as nd
from .optimizer import Optimizer, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one history per row of the weight; there is no weight decay."""

    def __init__(self, eps=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index, weight):
        if weight.ndim != 2:
            raise AssertionError("GroupAdaGrad is for matrices: the rows of embeddings")
        return nd.zeros((weight.shape[0], 1), weight.context, dtype=weight.dtype)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        if wd:
            raise AssertionError("Weight decay is not supported for GroupAdaGrad")
        grad = grad * self.rescale_grad
        if self.clip_gradient:
            grad = nd.clip(grad, -self.clip_gradient, self.clip_gradient)
        state[:] = state + nd.mean(nd.square(grad), axis=1, keepdims=True)
        weight[:] = weight - nd.broadcast_div(lr * grad, nd.sqrt(state + self.float_stable_eps))
