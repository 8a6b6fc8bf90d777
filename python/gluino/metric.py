"""Metrics: sums over batches. What a batch counts is defined once, in the library (src/gluon/training/metrics.cc); these classes add it up, since
the last reset and since the last reset_local."""
import math

import numpy as _np

from . import _core, ndarray, registry  # noqa: F401 (other libraries read mx.metric.ndarray)

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


def _array(x):
    return x if isinstance(x, ndarray.NDArray) else _np.asarray(x)


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
            self.update_one(_array(label), _array(pred))

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

    def _add_counts(self, name, label, pred, **options):
        """Adds what the library's metric of this name counts in a batch."""
        total, count = _core.metric_counts(name, options, label, pred)
        self._add(total, int(count))

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
        self._add_counts("accuracy", label, pred, axis=self.axis)


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
        self._add_counts("top_k_accuracy", label, pred, top_k=self.top_k)


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
        if len(_np.unique(_numpy(label).astype("int32"))) > 2:
            raise ValueError(f"{type(self).__name__} currently only supports binary classification.")
        now = _np.array(_core.binary_counts(label, pred))
        if self.average == "macro":
            self._add(self._score(now), 1)
        else:
            self._counts += now
            self._global_counts += now
            self.sum_metric, self.num_inst = self._score(self._counts) * self._counts.sum(), int(self._counts.sum())
            self.global_sum_metric, self.global_num_inst = self._score(self._global_counts) * self._global_counts.sum(), int(self._global_counts.sum())

    def _score(self, counts):
        return _core.binary_score(self._definition, *counts)


@register
class F1(_Binary):
    """The harmonic mean of precision and recall."""

    _definition = "f1"

    def __init__(self, name="f1", output_names=None, label_names=None, average="macro"):
        super().__init__(name, output_names, label_names, average)


@register
class MCC(_Binary):
    """Matthews' correlation."""

    _definition = "mcc"

    def __init__(self, name="mcc", output_names=None, label_names=None, average="macro"):
        super().__init__(name, output_names, label_names, average)


@register
class Perplexity(EvalMetric):
    """exp of the mean negative log likelihood."""

    def __init__(self, ignore_label=None, axis=-1, name="perplexity", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, axis=axis, has_global_stats=True)
        self.ignore_label, self.axis = ignore_label, axis

    def update_one(self, label, pred):
        self._add_counts("perplexity", label, pred, ignore_label=self.ignore_label)

    def _value(self, total, count):
        return math.exp(total / count)


class _Difference(EvalMetric):
    """Means of a function of label - prediction, batch by batch."""

    def __init__(self, name, output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update_one(self, label, pred):
        label, pred = (x.reshape((len(x), 1)) if x.ndim == 1 else x for x in (label, pred))
        if label.shape != pred.shape:
            label, pred = _np.broadcast_arrays(_numpy(label), _numpy(pred))
        self._add_counts(self._definition, label, pred)


@register
class MAE(_Difference):
    """The mean absolute error."""

    _definition = "mae"

    def __init__(self, name="mae", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)


@register
class MSE(_Difference):
    """The mean squared error."""

    _definition = "mse"

    def __init__(self, name="mse", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)


@register
class RMSE(_Difference):
    """The root of the mean squared error."""

    _definition = "rmse"

    def __init__(self, name="rmse", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)


@register
@alias("ce", "cross-entropy")
class CrossEntropy(EvalMetric):
    """Of probabilities and class numbers."""

    def __init__(self, eps=1e-12, name="cross-entropy", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, eps=eps, has_global_stats=True)
        self.eps = eps

    def update_one(self, label, pred):
        if label.size != len(pred):
            raise AssertionError(f"{label.size} labels for {len(pred)} predictions")
        self._add_counts("cross-entropy", label, pred, eps=self.eps)


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
        if self.average == "macro":
            self._add_counts("pearsonr", label, pred)
            return
        label, pred = (_numpy(x).ravel().astype("float64") for x in (label, pred))
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
        counts = _np.array(_core.confusion_counts(_array(label), _array(pred)))
        self._matrix, self._global_matrix = (self._with(matrix, counts) for matrix in (self._matrix, self._global_matrix))
        self.num_inst, self.global_num_inst = int(self._matrix.sum()), int(self._global_matrix.sum())

    @staticmethod
    def _with(matrix, counts):
        size = max(len(matrix), len(counts))
        return sum(_np.pad(part, (0, size - len(part))) for part in (matrix, counts))

    @staticmethod
    def _correlation(matrix):
        return _core.confusion_score(matrix.tolist())

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
            self._add_counts("loss", None, _array(pred))


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
