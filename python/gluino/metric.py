"""Metrics: sums over batches."""
import math

import numpy as _np

__all__ = ["EvalMetric", "CompositeEvalMetric", "Accuracy", "TopKAccuracy", "F1", "MCC", "Perplexity", "MAE", "MSE", "RMSE", "CrossEntropy",
           "NegativeLogLikelihood", "PearsonCorrelation", "PCC", "Loss", "Torch", "Caffe", "CustomMetric", "np", "create", "register", "check_label_shapes"]

_registry = {}


def register(klass):
    """Makes a metric known by the lower-case name of its class."""
    _registry[klass.__name__.lower()] = klass
    return klass


def alias(*names):
    """Further names of a metric."""
    def decorate(klass):
        _registry.update({name: klass for name in names})
        return klass
    return decorate


def create(metric, *args, **kwargs):
    """A metric from its name, a function, a list of them, or itself."""
    if isinstance(metric, EvalMetric):
        return metric
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        composite = CompositeEvalMetric()
        for item in metric:
            composite.add(create(item, *args, **kwargs))
        return composite
    try:
        return _registry[metric.lower()](*args, **kwargs)
    except KeyError:
        raise ValueError(f"Cannot find metric {metric}; there are {', '.join(sorted(_registry))}") from None


def check_label_shapes(labels, preds, wrap=False, shape=False):
    """Labels and predictions as lists of the same length."""
    if wrap:
        labels = labels if isinstance(labels, (list, tuple)) else [labels]
        preds = preds if isinstance(preds, (list, tuple)) else [preds]
    a, b = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if a != b:
        raise ValueError(f"Shape of labels {a} does not match shape of predictions {b}")
    return labels, preds


def _numpy(x):
    return x.asnumpy() if hasattr(x, "asnumpy") else _np.asarray(x)


class EvalMetric:
    """The base: a sum and a count."""

    def __init__(self, name, output_names=None, label_names=None, **kwargs):
        self.name, self.output_names, self.label_names = str(name), output_names, label_names
        self._kwargs = kwargs
        self.reset()

    def __str__(self):
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self):
        """What makes an equal metric."""
        return {**self._kwargs, "metric": type(self).__name__, "name": self.name, "output_names": self.output_names, "label_names": self.label_names}

    def reset(self):
        """Starts again."""
        self.num_inst, self.sum_metric = 0, 0.0

    reset_local = reset

    def update(self, labels, preds):
        """Takes in a batch."""
        for label, pred in zip(*check_label_shapes(labels, preds, True)):
            self.update_one(_numpy(label), _numpy(pred))

    def update_dict(self, label, pred):
        """The same by names."""
        preds = [pred[name] for name in self.output_names] if self.output_names is not None else list(pred.values())
        labels = [label[name] for name in self.label_names] if self.label_names is not None else list(label.values())
        self.update(labels, preds)

    def _value(self):
        return self.sum_metric / self.num_inst

    def get(self):
        """(name, value)."""
        return self.name, self._value() if self.num_inst else float("nan")

    get_global = get

    def get_name_value(self):
        """[(name, value)]."""
        names, values = self.get()
        return list(zip(names, values)) if isinstance(names, list) else [(names, values)]

    get_global_name_value = get_name_value

    def _add(self, total, count):
        self.sum_metric += float(total)
        self.num_inst += count


@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics as one."""

    def __init__(self, metrics=None, name="composite", output_names=None, label_names=None):
        self.metrics = [create(metric) for metric in metrics or []]
        super().__init__(name, output_names, label_names)

    def add(self, metric):
        """Appends a metric."""
        self.metrics.append(create(metric))

    def get_metric(self, index):
        """One of them."""
        return self.metrics[index]

    def reset(self):
        for metric in getattr(self, "metrics", []):
            metric.reset()

    def update(self, labels, preds):
        for metric in self.metrics:
            metric.update(labels, preds)

    def update_dict(self, label, pred):
        for metric in self.metrics:
            metric.update_dict(label, pred)

    def get(self):
        pairs = [pair for metric in self.metrics for pair in metric.get_name_value()]
        return [name for name, _ in pairs], [value for _, value in pairs]


@register
@alias("acc")
class Accuracy(EvalMetric):
    """The share of right classes."""

    def __init__(self, axis=1, name="accuracy", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, axis=axis)
        self.axis = axis

    def update_one(self, label, pred):
        if pred.shape != label.shape:
            pred = pred.argmax(axis=self.axis)
        label, pred = label.astype("int64").ravel(), pred.astype("int64").ravel()
        check_label_shapes(label, pred, shape=True)
        self._add((label == pred).sum(), len(pred))


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """Right when among the k most likely."""

    def __init__(self, top_k=1, name="top_k_accuracy", output_names=None, label_names=None):
        if top_k <= 1:
            raise AssertionError("Please use Accuracy if top_k is no more than 1")
        super().__init__(f"{name}_{top_k}", output_names, label_names, top_k=top_k)
        self.top_k = top_k

    def update_one(self, label, pred):
        best = _np.argpartition(pred.astype("float32"), -min(self.top_k, pred.shape[-1]))[..., -self.top_k:]
        self._add((best == label.astype("int64").reshape(-1, 1)).any(axis=-1).sum(), len(label.ravel()))


class _Binary(EvalMetric):
    """Counts of true and false, positive and negative."""

    def __init__(self, name, output_names=None, label_names=None, average="macro"):
        self.average = average
        super().__init__(name, output_names, label_names, average=average)

    def reset(self):
        super().reset()
        self._counts = _np.zeros(4)

    def update_one(self, label, pred):
        label, guess = label.astype("int32").ravel(), pred.argmax(axis=1).ravel()
        if len(_np.unique(label)) > 2:
            raise ValueError(f"{type(self).__name__} currently only supports binary classification.")
        now = _np.array([((guess == g) & (label == l)).sum() for g, l in ((1, 1), (1, 0), (0, 1), (0, 0))], dtype=float)
        if self.average == "macro":
            self._add(self._score(now), 1)
        else:
            self._counts += now
            self.sum_metric, self.num_inst = self._score(self._counts) * self._counts.sum(), int(self._counts.sum())


@register
class F1(_Binary):
    """The harmonic mean of precision and recall."""

    def __init__(self, name="f1", output_names=None, label_names=None, average="macro"):
        super().__init__(name, output_names, label_names, average)

    @staticmethod
    def _score(counts):
        tp, fp, fn, _ = counts
        return 2 * tp / (2 * tp + fp + fn) if tp else 0.0


@register
class MCC(_Binary):
    """Matthews' correlation."""

    def __init__(self, name="mcc", output_names=None, label_names=None, average="macro"):
        super().__init__(name, output_names, label_names, average)

    @staticmethod
    def _score(counts):
        tp, fp, fn, tn = counts
        terms = [t for t in (tp + fp, tp + fn, tn + fp, tn + fn) if t]
        return (tp * tn - fp * fn) / math.sqrt(math.prod(terms)) if terms else 0.0


@register
class Perplexity(EvalMetric):
    """exp of the mean negative log likelihood."""

    def __init__(self, ignore_label=None, axis=-1, name="perplexity", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, axis=axis)
        self.ignore_label, self.axis = ignore_label, axis

    def update_one(self, label, pred):
        label = label.astype("int64").ravel()
        probs = pred.reshape(-1, pred.shape[-1])[_np.arange(len(label)), label]
        keep = _np.ones(len(label), bool) if self.ignore_label is None else label != self.ignore_label
        self._add(-_np.log(_np.maximum(1e-10, probs[keep])).sum(), int(keep.sum()))

    def _value(self):
        return math.exp(self.sum_metric / self.num_inst)


class _Difference(EvalMetric):
    """Means of a function of label - prediction, batch by batch."""

    def __init__(self, name, output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)

    def update_one(self, label, pred):
        label, pred = (x.reshape(len(x), 1) if x.ndim == 1 else x for x in (label, pred))
        self._add(self._of(label - pred), 1)


def _difference(name, function, doc, value=None):
    class Metric(_Difference):
        def __init__(self, name=name.lower(), output_names=None, label_names=None):
            super().__init__(name, output_names, label_names)

        _of = staticmethod(function)
    if value:
        Metric._value = value
    Metric.__name__ = Metric.__qualname__ = name
    Metric.__doc__ = doc
    return register(Metric)


MAE = _difference("MAE", lambda d: _np.abs(d).mean(), "The mean absolute error.")
MSE = _difference("MSE", lambda d: (d**2).mean(), "The mean squared error.")
RMSE = _difference("RMSE", lambda d: _np.sqrt((d**2).mean()), "The root of the mean squared error.")


@register
@alias("ce", "cross-entropy")
class CrossEntropy(EvalMetric):
    """Of probabilities and class numbers."""

    def __init__(self, eps=1e-12, name="cross-entropy", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, eps=eps)
        self.eps = eps

    def update_one(self, label, pred):
        label = label.astype("int64").ravel()
        if len(label) != len(pred):
            raise AssertionError(f"{len(label)} labels for {len(pred)} predictions")
        self._add(-_np.log(pred[_np.arange(len(label)), label] + self.eps).sum(), len(label))


@register
@alias("nll_loss")
class NegativeLogLikelihood(CrossEntropy):
    """The same by another name."""

    def __init__(self, eps=1e-12, name="nll-loss", output_names=None, label_names=None):
        super().__init__(eps, name, output_names, label_names)


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """The mean of the batches' correlations."""

    def __init__(self, name="pearsonr", output_names=None, label_names=None, average="macro"):
        super().__init__(name, output_names, label_names)

    def update_one(self, label, pred):
        self._add(_np.corrcoef(pred.ravel(), label.ravel())[0, 1], 1)


@register
class PCC(EvalMetric):
    """The correlation of classes, from the confusion matrix."""

    def __init__(self, name="pcc", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)

    def reset(self):
        super().reset()
        self._matrix = _np.zeros((2, 2))

    def update_one(self, label, pred):
        label, guess = label.astype(int).ravel(), pred.argmax(axis=1).ravel()
        size = max(len(self._matrix), label.max() + 1, guess.max() + 1)
        self._matrix = _np.pad(self._matrix, (0, size - len(self._matrix)))
        _np.add.at(self._matrix, (guess, label), 1)
        self.num_inst = int(self._matrix.sum())

    def _value(self):
        n, x, y = self._matrix.sum(), self._matrix.sum(axis=1), self._matrix.sum(axis=0)
        spread = (n * n - x @ x) * (n * n - y @ y)
        return (n * _np.trace(self._matrix) - x @ y) / math.sqrt(spread) if spread else float("nan")


@register
class Loss(EvalMetric):
    """The mean of what the network gives."""

    def __init__(self, name="loss", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)

    def update(self, _, preds):
        for pred in preds if isinstance(preds, (list, tuple)) else [preds]:
            self._add(_numpy(pred).sum(), pred.size)


@register
class Torch(Loss):
    """Loss by an old name."""


@register
class Caffe(Loss):
    """Loss by an old name."""


@register
class CustomMetric(EvalMetric):
    """A function of (label, prediction) that gives a value, or (sum, count)."""

    def __init__(self, feval, name=None, allow_extra_outputs=False, output_names=None, label_names=None):
        name = name or f"custom({getattr(feval, '__name__', 'metric')})"
        super().__init__(name, output_names, label_names)
        self._feval, self._allow_extra_outputs = feval, allow_extra_outputs

    def update(self, labels, preds):
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            value = self._feval(_numpy(label), _numpy(pred))
            self._add(*(value if isinstance(value, tuple) else (value, 1)))


def np(numpy_feval, name=None, allow_extra_outputs=False):
    """A metric from a function of NumPy arrays."""
    def feval(label, pred):
        return numpy_feval(label, pred)
    feval.__name__ = numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)
