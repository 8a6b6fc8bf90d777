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
        return nd.zeros((weight.shape[0], *[1] * (weight.ndim - 1)), weight.context, dtype=weight.dtype)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        if wd:
            raise AssertionError("Weight decay is not supported for GroupAdaGrad")
        grad = grad * self.rescale_grad
        if self.clip_gradient:
            grad = nd.clip(grad, -self.clip_gradient, self.clip_gradient)
        squares = nd.square(grad)
        state[:] = state + (nd.mean(squares, axis=tuple(range(1, grad.ndim)), keepdims=True) if grad.ndim > 1 else squares)
        weight[:] = weight - nd.broadcast_div(lr * grad, nd.sqrt(state + self.float_stable_eps))
