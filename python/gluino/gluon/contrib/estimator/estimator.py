"""Estimator: fit() and evaluate()."""
from .... import metric as metrics
from ....context import current_context
from ... import trainer as _trainer
from ...loss import Loss as _Loss
from .batch_processor import BatchProcessor
from .event_handler import GradientUpdateHandler, LoggingHandler, MetricHandler, StoppingHandler, ValidationHandler

__all__ = ["Estimator"]


def _listed(given, name):
    found = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    for metric in found:
        if not isinstance(metric, metrics.EvalMetric):
            raise ValueError(f"metrics must be a Metric or a list of Metric, refer to mxnet.metric.EvalMetric, not {metric!r}")
    return (found or [metrics.Accuracy(name=f"{name} accuracy")]) + [metrics.Loss(name=f"{name} loss")]


class Estimator:
    """A network, a loss and a trainer; fit() runs the loop and calls handlers."""

    def __init__(self, net, loss, train_metrics=None, val_metrics=None, initializer=None, trainer=None, context=None, val_net=None, val_loss=None,
                 batch_processor=None):
        for given in (loss, val_loss):
            if given is not None and not isinstance(given, _Loss):
                raise ValueError(f"loss must be a Loss, refer to gluon.loss.Loss, not {given!r}")
        self.net, self.loss, self.stop_training = net, loss, False
        self.val_net, self.val_loss = val_net or net, val_loss or loss
        self.batch_processor = batch_processor or BatchProcessor()
        self._train_metrics, self._val_metrics = _listed(train_metrics, "training"), _listed(val_metrics, "validation")
        self.context = list(context) if isinstance(context, (list, tuple)) else [context or current_context()]
        if initializer is not None or any(p._data is None and p._deferred is None for p in net.collect_params().values()):
            net.initialize(initializer, self.context, force_reinit=initializer is not None)
        self.trainer = trainer or _trainer.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})

    @property
    def train_metrics(self):
        """Metrics over the training data, the loss last."""
        return self._train_metrics

    @property
    def val_metrics(self):
        """Metrics over the validation data, the loss last."""
        return self._val_metrics

    def evaluate(self, val_data, batch_axis=0, event_handlers=None):
        """Brings the validation metrics up to date."""
        tell = self._teller([MetricHandler(self.val_metrics), *(event_handlers or [])])
        tell("epoch_begin")
        for batch in val_data:
            tell("batch_begin", batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            tell("batch_end", batch=batch, pred=pred, label=label, loss=loss)
        tell("epoch_end")

    def fit(self, train_data, val_data=None, epochs=None, event_handlers=None, batches=None, batch_axis=0):
        """Trains for so many epochs or batches."""
        if (epochs is None) == (batches is None):
            raise ValueError("Fit only support exactly one type of iteration, train by number of epochs or number of batches.")
        self.stop_training = False
        tell = self._teller(self._with_defaults(list(event_handlers or []), StoppingHandler(epochs, batches), val_data))
        tell("train_begin")
        while not self.stop_training:
            tell("epoch_begin")
            for batch in train_data:
                tell("batch_begin", batch=batch)
                _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
                tell("batch_end", batch=batch, pred=pred, label=label, loss=loss)
                if self.stop_training:
                    break
            tell("epoch_end")
        tell("train_end")

    def _with_defaults(self, handlers, stopping, val_data):
        def add(kind, make):
            if not any(isinstance(h, kind) for h in handlers):
                handlers.append(make())
        add(StoppingHandler, lambda: stopping)
        add(GradientUpdateHandler, GradientUpdateHandler)
        add(MetricHandler, lambda: MetricHandler(self.train_metrics))
        if val_data is not None:
            add(ValidationHandler, lambda: ValidationHandler(val_data, self.evaluate))
        add(LoggingHandler, lambda: LoggingHandler(metrics=self.train_metrics + (self.val_metrics if val_data is not None else [])))
        return handlers

    def _teller(self, handlers):
        """Calls the handlers of an event, those with small priorities first."""
        handlers = sorted(handlers, key=lambda handler: getattr(handler, "priority", 0))

        def tell(event, **kwargs):
            for handler in handlers:
                if hasattr(handler, event):
                    getattr(handler, event)(self, **kwargs)
        return tell
