"""Metrics: sums over batches."""
import math

import numpy as _np

from . import ndarray, registry  # noqa: F401 (other libraries read mx.metric.ndarray)

__all__ = ["EvalMetric", "CompositeEvalMetric", "Accuracy", "TopKAccuracy", "F1", "MCC", "Perplexity", "MAE", "MSE", "RMSE", "CrossEntropy",
           "NegativeLogLikelihood", "PearsonCorrelation", "PCC", "Loss", "Torch", "Caffe", "CustomMetric", "np", "create", "register", "check_label_shapes"]

def create(metric, *args, **kwargs):
    """A metric from its name, what get_config() gave, its JSON, a function, a list of them, or itself."""
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
        return _create(metric, *args, **kwargs)
    except AssertionError as error:
        raise ValueError(f"Cannot find metric {metric}: {error}") from None


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
        # Metrics that a user derives keep sum_metric and num_inst themselves, and no sums beside those.
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self):
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self):
        """What makes an equal metric."""
        return {**self._kwargs, "metric": type(self).__name__, "name": self.name, "output_names": self.output_names, "label_names": self.label_names}

    def reset(self):
        """Starts again."""
        self.num_inst, self.sum_metric, self.global_num_inst, self.global_sum_metric = 0, 0.0, 0, 0.0

    def reset_local(self):
        """Starts again, but for the global value."""
        self.num_inst, self.sum_metric = 0, 0.0

    def update(self, labels, preds):
        """Takes in a batch."""
        for label, pred in zip(*check_label_shapes(labels, preds, True)):
            self.update_one(_numpy(label), _numpy(pred))

    def update_dict(self, label, pred):
        """The same by names."""
        preds = [pred[name] for name in self.output_names] if self.output_names is not None else list(pred.values())
        labels = [label[name] for name in self.label_names] if self.label_names is not None else list(label.values())
        self.update(labels, preds)

    def _value(self, total, count):
        return total / count

    def get(self):
        """(name, value since the last reset_local)."""
        return self.name, self._value(self.sum_metric, self.num_inst) if self.num_inst else float("nan")

    def get_global(self):
        """(name, value since the last reset)."""
        if not self._has_global_stats:
            return self.get()
        return self.name, self._value(self.global_sum_metric, self.global_num_inst) if self.global_num_inst else float("nan")

    def get_name_value(self):
        """[(name, value)]."""
        names, values = self.get()
        return list(zip(names, values)) if isinstance(names, list) else [(names, values)]

    def get_global_name_value(self):
        """[(name, value since the last reset)]."""
        names, values = self.get_global()
        return list(zip(names, values)) if isinstance(names, list) else [(names, values)]

    def _add(self, total, count):
        self.sum_metric += float(total)
        self.num_inst += count
        self.global_sum_metric += float(total)
        self.global_num_inst += count


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


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

    def reset_local(self):
        for metric in self.metrics:
            metric.reset_local()

    def update(self, labels, preds):
        for metric in self.metrics:
            metric.update(labels, preds)

    def update_dict(self, labels, preds):
        if self.label_names is not None:
            labels = {name: label for name, label in labels.items() if name in self.label_names}
        if self.output_names is not None:
            preds = {name: pred for name, pred in preds.items() if name in self.output_names}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def get(self):
        pairs = [pair for metric in self.metrics for pair in metric.get_name_value()]
        return [name for name, _ in pairs], [value for _, value in pairs]

    def get_global(self):
        pairs = [pair for metric in self.metrics for pair in metric.get_global_name_value()]
        return [name for name, _ in pairs], [value for _, value in pairs]

    def get_config(self):
        return {**super().get_config(), "metrics": [metric.get_config() for metric in self.metrics]}


@register
@alias("acc")
class Accuracy(EvalMetric):
    """The share of right classes."""

    def __init__(self, axis=1, name="accuracy", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, axis=axis, has_global_stats=True)
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
        super().__init__(name, output_names, label_names, top_k=top_k, has_global_stats=True)
        self.name += f"_{top_k}"
        self.top_k, self._plain_name = top_k, name

    def get_config(self):
        return {**super().get_config(), "name": self._plain_name}

    def update_one(self, label, pred):
        best = _np.argpartition(pred.astype("float32"), -min(self.top_k, pred.shape[-1]))[..., -self.top_k:]
        self._add((best == label.astype("int64").reshape(-1, 1)).any(axis=-1).sum(), len(label.ravel()))


class _Binary(EvalMetric):
    """Counts of true and false, positive and negative."""

    def __init__(self, name, output_names=None, label_names=None, average="macro"):
        self.average = average
        super().__init__(name, output_names, label_names, average=average, has_global_stats=True)

    def reset(self):
        super().reset()
        self._counts, self._global_counts = _np.zeros(4), _np.zeros(4)

    def reset_local(self):
        super().reset_local()
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
            self._global_counts += now
            self.sum_metric, self.num_inst = self._score(self._counts) * self._counts.sum(), int(self._counts.sum())
            self.global_sum_metric, self.global_num_inst = self._score(self._global_counts) * self._global_counts.sum(), int(self._global_counts.sum())


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
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, axis=axis, has_global_stats=True)
        self.ignore_label, self.axis = ignore_label, axis

    def update_one(self, label, pred):
        label = label.astype("int64").ravel()
        probs = pred.reshape(-1, pred.shape[-1])[_np.arange(len(label)), label]
        keep = _np.ones(len(label), bool) if self.ignore_label is None else label != self.ignore_label
        self._add(-_np.log(_np.maximum(1e-10, probs[keep])).sum(), int(keep.sum()))

    def _value(self, total, count):
        return math.exp(total / count)


class _Difference(EvalMetric):
    """Means of a function of label - prediction, batch by batch."""

    def __init__(self, name, output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update_one(self, label, pred):
        label, pred = (x.reshape(len(x), 1) if x.ndim == 1 else x for x in (label, pred))
        self._add(self._of(label - pred), 1)


def _difference(name, function, doc):
    class Metric(_Difference):
        def __init__(self, name=name.lower(), output_names=None, label_names=None):
            super().__init__(name, output_names, label_names)

        _of = staticmethod(function)
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
        super().__init__(name, output_names, label_names, eps=eps, has_global_stats=True)
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
    """The mean of the batches' correlations ("macro"), or the correlation of all that was seen ("micro")."""

    def __init__(self, name="pearsonr", output_names=None, label_names=None, average="macro"):
        self.average = average
        super().__init__(name, output_names, label_names, average=average, has_global_stats=True)
        if average == "micro":
            self.reset_micro()

    def reset(self):
        super().reset()
        if self.average == "micro":
            self.reset_micro()

    def reset_micro(self):
        """Forgets the sums of "micro": (count, mean, squared deviations) of labels and predictions, and their products."""
        self._label_sums = self._pred_sums = (0, 0.0, 0.0)
        self._products = 0.0

    def update_variance(self, new_values, *aggregate):
        """(count, mean, squared deviations) with further values (Chan et al., 1979)."""
        count, mean, squares = aggregate
        new, total, distance = len(new_values), count + len(new_values), new_values.mean() - mean
        return total, mean + distance * new / total, squares + _np.sum((new_values - new_values.mean()) ** 2) + distance ** 2 * count * new / total

    def update_cov(self, label, pred):
        """Adds products of deviations; comes before update_variance, whose means it needs as they were."""
        seen, new, means = self._label_sums[0], len(label), (label.mean(), pred.mean())
        between = (means[0] - self._label_sums[1]) * (means[1] - self._pred_sums[1]) * seen * new / (seen + new)
        self._products += _np.sum((label - means[0]) * (pred - means[1])) + between

    def update_one(self, label, pred):
        check_label_shapes(label, pred, shape=True)
        label, pred = label.ravel().astype("float64"), pred.ravel().astype("float64")
        if self.average == "macro":
            self._add(_np.corrcoef(pred, label)[0, 1], 1)
            return
        self.update_cov(label, pred)
        self._label_sums, self._pred_sums = self.update_variance(label, *self._label_sums), self.update_variance(pred, *self._pred_sums)
        self.num_inst = self.global_num_inst = self._label_sums[0]

    def get(self):
        if self.average == "macro" or not self.num_inst:
            return super().get()
        return self.name, self._products / math.sqrt(self._label_sums[2] * self._pred_sums[2])

    def get_global(self):
        return super().get_global() if self.average == "macro" else self.get()


@register
class PCC(EvalMetric):
    """The correlation of classes, from the confusion matrix."""

    def __init__(self, name="pcc", output_names=None, label_names=None, has_global_stats=True):
        super().__init__(name, output_names, label_names, has_global_stats=has_global_stats)

    def reset(self):
        self.num_inst = self.global_num_inst = 0
        self._matrix, self._global_matrix = _np.zeros((2, 2)), _np.zeros((2, 2))

    def reset_local(self):
        self.num_inst, self._matrix = 0, _np.zeros((2, 2))

    def update_one(self, label, pred):
        label, guess = label.astype(int).ravel(), pred.argmax(axis=1).ravel()
        size = max(label.max() + 1, guess.max() + 1)
        self._matrix, self._global_matrix = (self._counted(matrix, size, guess, label) for matrix in (self._matrix, self._global_matrix))
        self.num_inst, self.global_num_inst = int(self._matrix.sum()), int(self._global_matrix.sum())

    @staticmethod
    def _counted(matrix, size, guess, label):
        matrix = _np.pad(matrix, (0, max(0, size - len(matrix))))
        _np.add.at(matrix, (guess, label), 1)
        return matrix

    @staticmethod
    def _correlation(matrix):
        n, x, y = matrix.sum(), matrix.sum(axis=1), matrix.sum(axis=0)
        spread = (n * n - x @ x) * (n * n - y @ y)
        return (n * _np.trace(matrix) - x @ y) / math.sqrt(spread) if spread else float("nan")

    @property
    def sum_metric(self):
        """The correlation times the count."""
        return self._correlation(self._matrix) * self.num_inst

    @property
    def global_sum_metric(self):
        """The same since the last reset."""
        return self._correlation(self._global_matrix) * self.global_num_inst


@register
class Loss(EvalMetric):
    """The mean of what the network gives."""

    def __init__(self, name="loss", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, _, preds):
        for pred in preds if isinstance(preds, (list, tuple)) else [preds]:
            self._add(_numpy(pred).sum(), pred.size)


@register
class Torch(Loss):
    """Loss by an old name."""

    def __init__(self, name="torch", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """Loss by an old name."""

    def __init__(self, name="caffe", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)


@register
class CustomMetric(EvalMetric):
    """A function of (label, prediction) that gives a value, or (sum, count)."""

    def __init__(self, feval, name=None, allow_extra_outputs=False, output_names=None, label_names=None):
        name = name or f"custom({getattr(feval, '__name__', 'metric')})"
        super().__init__(name, output_names, label_names, has_global_stats=True)
        self._feval, self._allow_extra_outputs = feval, allow_extra_outputs

    def get_config(self):
        raise NotImplementedError("CustomMetric cannot be serialized")

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
