"""LossScaler: the factor of the loss that keeps small gradients from vanishing in float16."""
from ... import ndarray as nd

__all__ = ["LossScaler"]


class LossScaler:
    """Halved when a gradient is not finite, doubled after 2000 good steps."""

    def __init__(self):
        self._loss_scale, self._next_loss_scale, self._scale_seq_len, self._unskipped = 2.0**16, 2.0**16, 2000, 0
        self._max_loss_scale = 2.0**24

    @property
    def loss_scale(self):
        """The factor."""
        return self._loss_scale

    def has_overflow(self, params):
        """Whether a gradient of these parameters is not finite; chooses the next factor."""
        grads = [grad for parameter in params if parameter.grad_req != "null" for grad in parameter.list_grad()]
        finite = all(bool(nd.multi_all_finite(*grads[i:i + 200], num_arrays=len(grads[i:i + 200])).asscalar()) for i in range(0, len(grads), 200))
        self._loss_scale = self._next_loss_scale
        self._unskipped = self._unskipped + 1 if finite else 0
        if not finite:
            self._next_loss_scale = max(1.0, self._loss_scale / 2.0)
        elif self._unskipped == self._scale_seq_len:
            self._next_loss_scale, self._unskipped = min(self._max_loss_scale, self._loss_scale * 2.0), 0
        return not finite
