"""Losses: hybrid blocks that give one number per sample. What each computes is defined once, in the library (src/gluon/layers/losses.cc): here
stand MXNet's signatures."""
import functools

from .. import _core
from ..base import numeric_types
from .hybrid_block import HybridBlock

__all__ = ["Loss", "L2Loss", "L1Loss", "SigmoidBinaryCrossEntropyLoss", "SigmoidBCELoss", "SoftmaxCrossEntropyLoss", "SoftmaxCELoss", "KLDivLoss",
           "CTCLoss", "HuberLoss", "HingeLoss", "SquaredHingeLoss", "LogisticLoss", "TripletLoss", "PoissonNLLLoss", "CosineEmbeddingLoss", "SDMLLoss"]


def _apply_weighting(F, loss, weight=None, sample_weight=None):
    """For losses of other libraries, which are written with this and the next one."""
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is not None:
        if not isinstance(weight, numeric_types):
            raise AssertionError("weight must be a number")
        loss = loss * weight
    return loss


def _reshape_like(F, x, y):
    return F.reshape_like(x, y)


_prepared = []  # amp.init() puts in a function that widens the inputs


@functools.lru_cache(maxsize=256)
def _made(name, options):
    return _core.Loss(name, dict(options))


def _run(name, options, inputs):
    for prepare in _prepared:
        inputs = prepare(inputs)
    return _made(name, options)(inputs)


class Loss(HybridBlock):
    """The base: a weight, and the axis of the batch."""

    def __init__(self, weight, batch_axis, **kwargs):
        super().__init__(**kwargs)
        self._weight, self._batch_axis = weight, batch_axis

    def __repr__(self):
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _of_library(self, name, *inputs, **options):
        """The library's loss of these inputs, None standing for those that are not given."""
        return _run(name, (("weight", self._weight), ("batch_axis", self._batch_axis), *options.items()), inputs)


class L2Loss(Loss):
    """Half the squared difference."""

    def __init__(self, weight=1.0, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return self._of_library("L2Loss", pred, label, sample_weight)


class L1Loss(Loss):
    """The absolute difference."""

    def __init__(self, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return self._of_library("L1Loss", pred, label, sample_weight)


class SigmoidBinaryCrossEntropyLoss(Loss):
    """Cross entropy of yes or no."""

    def __init__(self, from_sigmoid=False, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(self, F, pred, label, sample_weight=None, pos_weight=None):
        return self._of_library("SigmoidBinaryCrossEntropyLoss", pred, label, sample_weight, pos_weight, from_sigmoid=self._from_sigmoid)


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """Cross entropy of one of several classes."""

    def __init__(self, axis=-1, sparse_label=True, from_logits=False, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._axis, self._sparse_label, self._from_logits = axis, sparse_label, from_logits

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return self._of_library("SoftmaxCrossEntropyLoss", pred, label, sample_weight, axis=self._axis, sparse_label=self._sparse_label,
                                from_logits=self._from_logits)


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """Kullback-Leibler divergence."""

    def __init__(self, from_logits=True, axis=-1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._axis = from_logits, axis

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return self._of_library("KLDivLoss", pred, label, sample_weight, from_logits=self._from_logits, axis=self._axis)


class CTCLoss(Loss):
    """Connectionist temporal classification; the blank is the last class."""

    def __init__(self, layout="NTC", label_layout="NT", weight=None, **kwargs):
        if layout not in ("NTC", "TNC") or label_layout not in ("NT", "TN"):
            raise AssertionError(f"Only 'NTC'/'TNC' layouts of pred and 'NT'/'TN' of label are supported. Got: {layout}, {label_layout}")
        super().__init__(weight, label_layout.find("N"), **kwargs)
        self._layout, self._label_layout = layout, label_layout

    def hybrid_forward(self, F, pred, label, pred_lengths=None, label_lengths=None, sample_weight=None):
        options = ("layout", self._layout), ("label_layout", self._label_layout), ("weight", self._weight)
        return _run("CTCLoss", options, (pred, label, pred_lengths, label_lengths, sample_weight))


class HuberLoss(Loss):
    """Squared near 0, absolute beyond rho."""

    def __init__(self, rho=1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return self._of_library("HuberLoss", pred, label, sample_weight, rho=self._rho)


class HingeLoss(Loss):
    """max(0, margin - pred * label), labels -1 and 1."""

    def __init__(self, margin=1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return self._of_library("HingeLoss", pred, label, sample_weight, margin=self._margin)


class SquaredHingeLoss(HingeLoss):
    """The square of the hinge."""

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return self._of_library("SquaredHingeLoss", pred, label, sample_weight, margin=self._margin)


class LogisticLoss(Loss):
    """log(1 + exp(-pred * label))."""

    def __init__(self, weight=None, batch_axis=0, label_format="signed", **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format can only be signed or binary, recieved {label_format}.")
        self._label_format = label_format

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return self._of_library("LogisticLoss", pred, label, sample_weight, label_format=self._label_format)


class TripletLoss(Loss):
    """Nearer to the positive than to the negative by a margin."""

    def __init__(self, margin=1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F, pred, positive, negative, sample_weight=None):
        return self._of_library("TripletLoss", pred, positive, negative, sample_weight, margin=self._margin)


class PoissonNLLLoss(Loss):
    """Negative log likelihood of counts; one number for the batch."""

    def __init__(self, weight=None, from_logits=True, batch_axis=0, compute_full=False, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._compute_full = from_logits, compute_full

    def hybrid_forward(self, F, pred, target, sample_weight=None, epsilon=1e-08):
        return self._of_library("PoissonNLLLoss", pred, target, sample_weight, from_logits=self._from_logits, compute_full=self._compute_full,
                                epsilon=epsilon)


class CosineEmbeddingLoss(Loss):
    """1 - cosine for label 1, max(0, cosine - margin) for -1."""

    def __init__(self, weight=None, batch_axis=0, margin=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F, input1, input2, label, sample_weight=None):
        return self._of_library("CosineEmbeddingLoss", input1, input2, label, sample_weight, margin=self._margin)


class SDMLLoss(Loss):
    """Smoothed deep metric learning over pairs in a batch."""

    def __init__(self, smoothing_parameter=0.3, weight=1.0, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss, self.smoothing_parameter = KLDivLoss(from_logits=True), smoothing_parameter

    def hybrid_forward(self, F, x1, x2):
        size = x1.shape[0]
        distances = F.sum(F.square(F.expand_dims(x1, 1) - F.expand_dims(x2, 0)), axis=2)
        same = F.one_hot(F.contrib.arange_like(distances, axis=0), depth=size)
        labels = same * (1 - self.smoothing_parameter) + (1 - same) * (self.smoothing_parameter / (size - 1))
        return self.kl_loss(F.log_softmax(-distances, axis=1), labels)
