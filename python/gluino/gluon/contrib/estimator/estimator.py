"""Estimator: fit() and evaluate()."""
import copy
import logging
import sys
import warnings

from .... import metric as metrics
from ....context import Context, cpu
from ... import trainer as _trainer
from ...data import DataLoader
from ...loss import Loss as _Loss, SoftmaxCrossEntropyLoss
from .batch_processor import BatchProcessor
from .event_handler import EventHandler, GradientUpdateHandler, LoggingHandler, MetricHandler, StoppingHandler, ValidationHandler, listed_metrics

__all__ = ["Estimator"]


def _checked_loss(loss):
    if not isinstance(loss, _Loss):
        raise ValueError(f"loss must be a Loss, refer to gluon.loss.Loss, not {loss!r}")
    return loss


def _checked_contexts(context):
    found = [context] if isinstance(context, Context) else list(context) if isinstance(context, (list, tuple)) else None
    if not context:
        return [cpu()]
    if found is None or not all(isinstance(each, Context) for each in found):
        raise ValueError(f"context must be a Context or a list of Context, for example mx.cpu() or [mx.cpu(0), mx.cpu(1)], not {context!r}")
    return found


def _checked_loader(data):
    if not isinstance(data, DataLoader):
        raise ValueError("Estimator only support input as Gluon DataLoader. Alternatively, you can transform your DataIter or any NDArray into Gluon "
                         f"DataLoader, not {type(data).__name__}")


def _listed_handlers(given):
    handlers = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    for handler in handlers:
        if not isinstance(handler, EventHandler):
            raise ValueError(f"event_handlers must be an EventHandler or a list of EventHandler, not {handler!r}")
    return handlers


def _check_known(handlers, known):
    """Raises where a handler looks at a metric that nobody updates."""
    for handler in handlers:
        for attribute in vars(handler).values():
            for metric in attribute if isinstance(attribute, list) else [attribute]:
                if isinstance(metric, metrics.EvalMetric) and not any(metric is each for each in known):
                    raise ValueError(f"Event handler {type(handler).__name__} refers to a metric instance {metric} outside of the known training and validation "
                                     "metrics. Please use the metrics from estimator.train_metrics and estimator.val_metrics instead.")


def _tell(handlers, event, *args, **kwargs):
    """Calls the handlers of an event; whether one of them says to stop."""
    answers = [getattr(handler, event)(*args, **kwargs) for handler in handlers if hasattr(handler, event)]
    return any(answers)


class Estimator:
    """A network, a loss and a trainer; fit() runs the loop and calls handlers."""

    def __init__(self, net, loss, train_metrics=None, val_metrics=None, initializer=None, trainer=None, context=None, val_net=None, val_loss=None,
                 batch_processor=None):
        self.net, self.loss = net, _checked_loss(loss)
        self._train_metrics, self._val_metrics = listed_metrics(train_metrics), listed_metrics(val_metrics)
        self._name_metrics()
        self.val_net, self.val_loss = val_net or net, self.loss if val_loss is None else _checked_loss(val_loss)
        self.logger = logging.Logger(name="Estimator", level=logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = _checked_contexts(context)
        self._initialize(initializer)
        self.trainer = self._checked_trainer(trainer)
        self.batch_processor = batch_processor or BatchProcessor()
        for name in ("fit_batch", "evaluate_batch"):
            if not callable(getattr(self.batch_processor, name, None)):
                raise ValueError("Customized Batch Processor must contain fit_batch() and evaluate_batch() methods")
        self.max_epoch = self.max_batch = None
        self.batch_axis = 0

    def _name_metrics(self):
        """Names say what a metric is over. Without metrics there is the loss, and the accuracy of classes."""
        if not self._train_metrics:
            self._train_metrics = [metrics.Accuracy()] if isinstance(self.loss, SoftmaxCrossEntropyLoss) else []
            self._train_metrics.append(metrics.Loss(self.loss.name.rstrip("0123456789")))
        for metric in self._train_metrics:
            metric.name = "training " + metric.name
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for metric in self._val_metrics:
            metric.name = metric.name.replace("training", "validation") if "training" in metric.name else "validation " + metric.name

    def _initialize(self, initializer):
        if any(p._data is None and p._deferred is None for p in self.net.collect_params().values()):
            self.net.initialize(initializer, self.context) if initializer else self.net.initialize(ctx=self.context)
        elif initializer:
            warnings.warn("Network already fully initialized, skipping initialization. You can use net.initialize(init=your_initializer, "
                          "force_reinit=True) to force re-initialize.")

    def _checked_trainer(self, trainer):
        if trainer is None:
            warnings.warn("No trainer specified, default SGD optimizer with learning rate 0.001 is used.")
            return _trainer.Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, _trainer.Trainer):
            raise ValueError(f"Trainer must be a Gluon Trainer instance, refer to gluon.Trainer, not {trainer!r}")
        return trainer

    @property
    def train_metrics(self):
        """Metrics over the training data."""
        return self._train_metrics

    @property
    def val_metrics(self):
        """Metrics over the validation data."""
        return self._val_metrics

    def evaluate(self, val_data, batch_axis=0, event_handlers=None):
        """Brings the validation metrics up to date."""
        _checked_loader(val_data)
        for metric in self.val_metrics:
            metric.reset()
        given = _listed_handlers(event_handlers)
        handlers = self._with_defaults(given, [(MetricHandler, lambda: MetricHandler(self.val_metrics)),
                                               (LoggingHandler, lambda: LoggingHandler(metrics=self.val_metrics))], self.val_metrics)
        _tell(handlers, "epoch_begin", self)
        for batch in val_data:
            _tell(handlers, "batch_begin", self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            _tell(handlers, "batch_end", self, batch=batch, pred=pred, label=label, loss=loss)
        _tell(handlers, "epoch_end", self)

    def fit(self, train_data, val_data=None, epochs=None, event_handlers=None, batches=None, batch_axis=0):
        """Trains for so many epochs or batches, or until a handler says to stop."""
        _checked_loader(train_data)
        if bool(epochs) == bool(batches):
            raise ValueError("Fit only support exactly one type of iteration, train by number of epochs or number of batches. Please specify one and only "
                             "one of: epochs or batches.")
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        handlers = self._handlers_of_fit(_listed_handlers(event_handlers), val_data)
        _tell(handlers, "train_begin", self)
        stops = False
        while not stops:
            _tell(handlers, "epoch_begin", self)
            for batch in train_data:
                _tell(handlers, "batch_begin", self, batch=batch)
                _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
                if _tell(handlers, "batch_end", self, batch=batch, pred=pred, label=label, loss=loss):
                    break
            stops = _tell(handlers, "epoch_end", self)
        _tell(handlers, "train_end", self)

    def _handlers_of_fit(self, given, val_data):
        defaults = [(GradientUpdateHandler, GradientUpdateHandler), (MetricHandler, lambda: MetricHandler(self.train_metrics))]
        if val_data:
            defaults.append((ValidationHandler, lambda: ValidationHandler(val_data, self.evaluate)))
        defaults.append((LoggingHandler, lambda: LoggingHandler(metrics=self.train_metrics)))
        return self._with_defaults(given, defaults, self.train_metrics + self.val_metrics, [StoppingHandler(self.max_epoch, self.max_batch)])

    @staticmethod
    def _with_defaults(given, defaults, known, always=()):
        added = [*always, *(make() for kind, make in defaults if not any(isinstance(handler, kind) for handler in given))]
        if added:  # all look at the same metrics then
            _check_known(given, known)
        return sorted([*given, *added], key=lambda handler: getattr(handler, "priority", 0))
