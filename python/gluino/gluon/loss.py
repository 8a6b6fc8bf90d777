"""Losses: hybrid blocks that give one number per sample."""
import math

import numpy as _np

from ..base import numeric_types
from .hybrid_block import HybridBlock

__all__ = ["Loss", "L2Loss", "L1Loss", "SigmoidBinaryCrossEntropyLoss", "SigmoidBCELoss", "SoftmaxCrossEntropyLoss", "SoftmaxCELoss", "KLDivLoss",
           "CTCLoss", "HuberLoss", "HingeLoss", "SquaredHingeLoss", "LogisticLoss", "TripletLoss", "PoissonNLLLoss", "CosineEmbeddingLoss", "SDMLLoss"]


def _apply_weighting(F, loss, weight=None, sample_weight=None):
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is not None:
        if not isinstance(weight, numeric_types):
            raise AssertionError("weight must be a number")
        loss = loss * weight
    return loss


def _reshape_like(F, x, y):
    """x in the shape of y."""
    return F.reshape_like(x, y)


class Loss(HybridBlock):
    """The base: a weight, and the axis of the batch."""

    def __init__(self, weight, batch_axis, **kwargs):
        super().__init__(**kwargs)
        self._weight, self._batch_axis = weight, batch_axis

    def __repr__(self):
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _per_sample(self, F, loss):
        return F.mean(loss, axis=self._batch_axis, exclude=True)


class L2Loss(Loss):
    """Half the squared difference."""

    def __init__(self, weight=1.0, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        loss = F.square(_reshape_like(F, label, pred) - pred)
        return self._per_sample(F, _apply_weighting(F, loss, self._weight / 2, sample_weight))


class L1Loss(Loss):
    """The absolute difference."""

    def __init__(self, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return self._per_sample(F, _apply_weighting(F, F.abs(_reshape_like(F, label, pred) - pred), self._weight, sample_weight))


def _softplus(F, x):
    return F.Activation(x, act_type="softrelu")


class SigmoidBinaryCrossEntropyLoss(Loss):
    """Cross entropy of yes or no."""

    def __init__(self, from_sigmoid=False, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(self, F, pred, label, sample_weight=None, pos_weight=None):
        label = _reshape_like(F, label, pred)
        if not self._from_sigmoid:
            if pos_weight is None:
                loss = F.relu(pred) - pred * label + _softplus(F, -F.abs(pred))
            else:
                scale = 1 + F.broadcast_mul(pos_weight - 1, label)
                loss = pred - pred * label + scale * (_softplus(F, -F.abs(pred)) + F.relu(-pred))
        else:
            eps = 1e-12
            yes = F.log(pred + eps) * label
            loss = -((yes if pos_weight is None else F.broadcast_mul(yes, pos_weight)) + F.log(1.0 - pred + eps) * (1.0 - label))
        return self._per_sample(F, _apply_weighting(F, loss, self._weight, sample_weight))


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """Cross entropy of one of several classes."""

    def __init__(self, axis=-1, sparse_label=True, from_logits=False, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._axis, self._sparse_label, self._from_logits = axis, sparse_label, from_logits

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            loss = -F.sum(pred * _reshape_like(F, label, pred), axis=self._axis, keepdims=True)
        return self._per_sample(F, _apply_weighting(F, loss, self._weight, sample_weight))


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """Kullback-Leibler divergence."""

    def __init__(self, from_logits=True, axis=-1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._axis = from_logits, axis

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        loss = label * (F.log(label + 1e-12) - pred)
        return self._per_sample(F, _apply_weighting(F, loss, self._weight, sample_weight))


class CTCLoss(Loss):
    """Connectionist temporal classification; the blank is the last class."""

    def __init__(self, layout="NTC", label_layout="NT", weight=None, **kwargs):
        if layout not in ("NTC", "TNC") or label_layout not in ("NT", "TN"):
            raise AssertionError(f"Only 'NTC'/'TNC' layouts of pred and 'NT'/'TN' of label are supported. Got: {layout}, {label_layout}")
        super().__init__(weight, label_layout.find("N"), **kwargs)
        self._layout, self._label_layout = layout, label_layout

    def hybrid_forward(self, F, pred, label, pred_lengths=None, label_lengths=None, sample_weight=None):
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, 0, 1)
        lengths = {key: value for key, value in (("data_lengths", pred_lengths), ("label_lengths", label_lengths)) if value is not None}
        loss = F.CTCLoss(pred, label, use_data_lengths=pred_lengths is not None, use_label_lengths=label_lengths is not None, blank_label="last", **lengths)
        return _apply_weighting(F, loss, self._weight, sample_weight)


class HuberLoss(Loss):
    """Squared near 0, absolute beyond rho."""

    def __init__(self, rho=1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        loss = F.abs(_reshape_like(F, label, pred) - pred)
        loss = F.where(loss > self._rho, loss - 0.5 * self._rho, (0.5 / self._rho) * F.square(loss))
        return self._per_sample(F, _apply_weighting(F, loss, self._weight, sample_weight))


class HingeLoss(Loss):
    """max(0, margin - pred * label), labels -1 and 1."""

    def __init__(self, margin=1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def _shaped(self, F, loss):
        return loss

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        loss = self._shaped(F, F.relu(self._margin - pred * _reshape_like(F, label, pred)))
        return self._per_sample(F, _apply_weighting(F, loss, self._weight, sample_weight))


class SquaredHingeLoss(HingeLoss):
    """The square of the hinge."""

    def _shaped(self, F, loss):
        return F.square(loss)


class LogisticLoss(Loss):
    """log(1 + exp(-pred * label))."""

    def __init__(self, weight=None, batch_axis=0, label_format="signed", **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format can only be signed or binary, recieved {label_format}.")
        self._label_format = label_format

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        label = _reshape_like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + _softplus(F, -F.abs(pred))
        return self._per_sample(F, _apply_weighting(F, loss, self._weight, sample_weight))


class TripletLoss(Loss):
    """Nearer to the positive than to the negative by a margin."""

    def __init__(self, margin=1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F, pred, positive, negative, sample_weight=None):
        positive, negative = F.reshape_like(positive, pred), F.reshape_like(negative, pred)
        loss = F.sum(F.square(positive - pred) - F.square(negative - pred), axis=self._batch_axis, exclude=True)
        return _apply_weighting(F, F.relu(loss + self._margin), self._weight, sample_weight)


class PoissonNLLLoss(Loss):
    """Negative log likelihood of counts; one number for the batch."""

    def __init__(self, weight=None, from_logits=True, batch_axis=0, compute_full=False, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._compute_full = from_logits, compute_full

    def hybrid_forward(self, F, pred, target, sample_weight=None, epsilon=1e-08):
        target = F.reshape_like(target, pred)
        loss = F.exp(pred) - target * pred if self._from_logits else pred - target * F.log(pred + epsilon)
        if self._compute_full:
            stirling = target * F.log(target + 1e-12) - target + 0.5 * F.log(2 * target * math.pi + 1e-12)
            loss = loss + stirling * (target > 1)
        return F.mean(_apply_weighting(F, loss, self._weight, sample_weight))


class CosineEmbeddingLoss(Loss):
    """1 - cosine for label 1, max(0, cosine - margin) for -1."""

    def __init__(self, weight=None, batch_axis=0, margin=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F, input1, input2, label, sample_weight=None):
        input1 = F.reshape_like(input1, input2)
        product = F.sum(input1 * input2, axis=-1, keepdims=True)
        norms = F.norm(input1, axis=-1, keepdims=True) * F.norm(input2, axis=-1, keepdims=True)
        cosine = F.reshape_like(product / F.broadcast_maximum(norms, F.full((1, 1), 1e-12)), label)
        loss = F.where(label == 1, 1 - cosine, F.relu(cosine - self._margin))
        return _apply_weighting(F, loss, self._weight, sample_weight)


class SDMLLoss(Loss):
    """Smoothed deep metric learning over pairs in a batch."""

    def __init__(self, smoothing_parameter=0.3, weight=1.0, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss, self.smoothing_parameter = KLDivLoss(from_logits=True), smoothing_parameter

    def hybrid_forward(self, F, x1, x2):
        size = x1.shape[0]
        distances = F.sum(F.square(F.expand_dims(x1, 1) - F.expand_dims(x2, 0)), axis=2)
        labels = F.array(_np.eye(size) * (1 - self.smoothing_parameter) + (1 - _np.eye(size)) * self.smoothing_parameter / (size - 1))
        labels = F.broadcast_add(F.zeros_like(distances), labels)  # of the kind of the inputs
        return self.kl_loss(F.log_softmax(-distances, axis=1), labels)
