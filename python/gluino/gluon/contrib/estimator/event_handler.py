"""What happens around epochs and batches."""
import logging
import os
import time

__all__ = ["TrainBegin", "TrainEnd", "EpochBegin", "EpochEnd", "BatchBegin", "BatchEnd", "StoppingHandler", "MetricHandler", "ValidationHandler",
           "LoggingHandler", "CheckpointHandler", "EarlyStoppingHandler"]


def _event(name):
    return type("".join(part.title() for part in name.split("_")), (), {name: lambda self, estimator, *args, **kwargs: None, "__doc__": f"Has {name}."})


TrainBegin, TrainEnd, EpochBegin = _event("train_begin"), _event("train_end"), _event("epoch_begin")
EpochEnd, BatchBegin, BatchEnd = _event("epoch_end"), _event("batch_begin"), _event("batch_end")


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Stops after so many epochs or batches."""

    def __init__(self, max_epoch=None, max_batch=None):
        self.max_epoch, self.max_batch = max_epoch, max_batch
        self.current_epoch = self.current_batch = 0

    def batch_end(self, estimator, *args, **kwargs):
        self.current_batch += 1
        if self.current_batch == self.max_batch:
            estimator.stop_training = True

    def epoch_end(self, estimator, *args, **kwargs):
        self.current_epoch += 1
        if self.current_epoch == self.max_epoch:
            estimator.stop_training = True


class MetricHandler(EpochBegin, BatchEnd):
    """Keeps training metrics up to date."""

    def __init__(self, metrics):
        self.metrics = metrics

    def epoch_begin(self, estimator, *args, **kwargs):
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator, *args, **kwargs):
        for metric in self.metrics:
            if "loss" in metric.name:
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(EpochEnd):
    """Evaluates after each epoch."""

    def __init__(self, val_data, eval_fn, epoch_period=1):
        self.val_data, self.eval_fn, self.epoch_period, self._epoch = val_data, eval_fn, epoch_period, 0

    def epoch_end(self, estimator, *args, **kwargs):
        self._epoch += 1
        if self._epoch % self.epoch_period == 0:
            self.eval_fn(val_data=self.val_data)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd):
    """Writes metrics to the log."""

    def __init__(self, log_interval="epoch", metrics=None, priority=0):
        self.metrics, self._log = metrics or [], logging.getLogger("gluino.estimator")

    def train_begin(self, estimator, *args, **kwargs):
        self._start = time.time()

    def train_end(self, estimator, *args, **kwargs):
        self._log.info("Train finished using total %ds", time.time() - self._start)

    def epoch_end(self, estimator, *args, **kwargs):
        self._log.info("Epoch: %s", ", ".join(f"{m.get()[0]}: {m.get()[1]:.4f}" for m in self.metrics or estimator.train_metrics))


class CheckpointHandler(EpochEnd):
    """Saves parameters after each epoch."""

    def __init__(self, model_dir, model_prefix="model", **kwargs):
        self.model_dir, self.model_prefix, self._epoch = model_dir, model_prefix, 0
        os.makedirs(model_dir, exist_ok=True)

    def epoch_end(self, estimator, *args, **kwargs):
        estimator.net.save_parameters(os.path.join(self.model_dir, f"{self.model_prefix}-epoch{self._epoch}.params"))
        self._epoch += 1


class EarlyStoppingHandler(EpochEnd):
    """Stops when a metric does not improve any more."""

    def __init__(self, monitor, min_delta=0, patience=0, mode="auto", baseline=None):
        self.monitor, self.min_delta, self.patience = monitor, min_delta, patience
        self._sign = 1 if mode == "max" or (mode == "auto" and any(w in monitor.name for w in ("acc", "f1"))) else -1
        self._best, self._waited = baseline, 0

    def epoch_end(self, estimator, *args, **kwargs):
        value = self.monitor.get()[1]
        if self._best is None or self._sign * (value - self._best) > self.min_delta:
            self._best, self._waited = value, 0
        else:
            self._waited += 1
            if self._waited > self.patience:
                estimator.stop_training = True
