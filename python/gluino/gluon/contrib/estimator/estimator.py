"""Estimator: fit() and evaluate()."""
from .... import autograd, metric as metrics
from ... import trainer as _trainer
from ...utils import split_and_load
from .event_handler import LoggingHandler, MetricHandler, StoppingHandler, ValidationHandler

__all__ = ["Estimator"]


class Estimator:
    """A network, a loss and a trainer; fit() runs the loop and calls handlers."""

    def __init__(self, net, loss, train_metrics=None, val_metrics=None, initializer=None, trainer=None, context=None, **kwargs):
        from ....context import current_context
        self.net, self.loss, self.stop_training = net, loss, False
        listed = lambda m: [] if m is None else [metrics.create(x) for x in (m if isinstance(m, list) else [m])]  # noqa: E731
        self.train_metrics = listed(train_metrics) or [metrics.Accuracy(name="training accuracy")]
        self.val_metrics = listed(val_metrics) or [metrics.Accuracy(name="validation accuracy")]
        self.train_metrics.append(metrics.Loss(name="training loss"))
        self.val_metrics.append(metrics.Loss(name="validation loss"))
        self.context = context if isinstance(context, list) else [context or current_context()]
        if initializer is not None or any(p._data is None and p._deferred is None for p in net.collect_params().values()):
            net.initialize(initializer, self.context, force_reinit=initializer is not None)
        self.trainer = trainer or _trainer.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})

    def _parts(self, batch, batch_axis=0):
        return split_and_load(batch[0], self.context, batch_axis), split_and_load(batch[1], self.context, batch_axis)

    def evaluate(self, val_data, batch_axis=0, event_handlers=None):
        """Brings the validation metrics up to date."""
        for metric in self.val_metrics:
            metric.reset()
        for batch in val_data:
            data, label = self._parts(batch, batch_axis)
            pred = [self.net(x) for x in data]
            loss = [self.loss(p, y) for p, y in zip(pred, label)]
            for metric in self.val_metrics:
                metric.update(0, loss) if "loss" in metric.name else metric.update(label, pred)

    def fit(self, train_data, val_data=None, epochs=None, event_handlers=None, batches=None, batch_axis=0):
        """Trains for so many epochs or batches."""
        if (epochs is None) == (batches is None):
            raise ValueError("Fit only support exactly one type of iteration, train by number of epochs or number of batches.")
        self.stop_training = False
        handlers = [StoppingHandler(epochs, batches), MetricHandler(self.train_metrics)] + list(event_handlers or [])
        if val_data is not None and not any(isinstance(h, ValidationHandler) for h in handlers):
            handlers.append(ValidationHandler(val_data, self.evaluate))
        if not any(isinstance(h, LoggingHandler) for h in handlers):
            handlers.append(LoggingHandler(metrics=self.train_metrics))

        def tell(event, **kwargs):
            for handler in handlers:
                if hasattr(handler, event):
                    getattr(handler, event)(self, **kwargs)
        tell("train_begin")
        while not self.stop_training:
            tell("epoch_begin")
            for batch in train_data:
                tell("batch_begin", batch=batch)
                data, label = self._parts(batch, batch_axis)
                with autograd.record():
                    pred = [self.net(x) for x in data]
                    loss = [self.loss(p, y) for p, y in zip(pred, label)]
                autograd.backward(loss)
                self.trainer.step(batch[0].shape[batch_axis])
                tell("batch_end", batch=batch, pred=pred, label=label, loss=loss)
                if self.stop_training:
                    break
            tell("epoch_end")
        tell("train_end")
