"""What happens around epochs and batches."""
import logging
import math
import os
import re
import time

from ....metric import Loss

__all__ = ["EventHandler", "TrainBegin", "TrainEnd", "EpochBegin", "EpochEnd", "BatchBegin", "BatchEnd", "StoppingHandler", "GradientUpdateHandler", "MetricHandler",
           "ValidationHandler", "LoggingHandler", "CheckpointHandler", "EarlyStoppingHandler"]


class EventHandler:
    """The base of handlers."""


def _event(name):
    return type("".join(part.title() for part in name.split("_")), (EventHandler,), {name: lambda self, estimator, *args, **kwargs: None, "__doc__": f"Has {name}."})


TrainBegin, TrainEnd, EpochBegin = _event("train_begin"), _event("train_end"), _event("epoch_begin")
EpochEnd, BatchBegin, BatchEnd = _event("epoch_end"), _event("batch_begin"), _event("batch_end")


class _Periods:
    """Counts epochs and batches; due() tells whether one of the periods has ended."""

    def __init__(self, epoch_period=1, batch_period=None):
        self.epoch_period, self.batch_period = epoch_period, batch_period
        self.current_epoch = self.current_batch = 0

    def epoch_due(self):
        self.current_epoch += 1
        return bool(self.epoch_period) and self.current_epoch % self.epoch_period == 0

    def batch_due(self):
        self.current_batch += 1
        return bool(self.batch_period) and self.current_batch % self.batch_period == 0


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Stops after so many epochs or batches."""

    def __init__(self, max_epoch=None, max_batch=None):
        self.max_epoch, self.max_batch = max_epoch, max_batch

    def train_begin(self, estimator, *args, **kwargs):
        self.current_epoch = self.current_batch = 0

    def batch_end(self, estimator, *args, **kwargs):
        self.current_batch += 1
        if self.current_batch == self.max_batch:
            estimator.stop_training = True

    def epoch_end(self, estimator, *args, **kwargs):
        self.current_epoch += 1
        if self.current_epoch == self.max_epoch:
            estimator.stop_training = True


class GradientUpdateHandler(BatchEnd):
    """Updates the parameters after each batch."""

    def __init__(self, priority=-2000):
        self.priority = priority

    def batch_end(self, estimator, *args, **kwargs):
        loss = kwargs["loss"]
        estimator.trainer.step(sum(part.shape[0] for part in (loss if isinstance(loss, (list, tuple)) else [loss])))


class MetricHandler(EpochBegin, BatchEnd):
    """Keeps metrics up to date."""

    def __init__(self, metrics, priority=-1000):
        self.metrics, self.priority = metrics, priority

    def epoch_begin(self, estimator, *args, **kwargs):
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator, *args, **kwargs):
        for metric in self.metrics:
            if isinstance(metric, Loss):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Evaluates after so many epochs or batches."""

    def __init__(self, val_data, eval_fn, epoch_period=1, batch_period=None, priority=-1000, event_handlers=None):
        self.val_data, self.eval_fn, self.priority, self._handlers = val_data, eval_fn, priority, event_handlers
        self._periods = _Periods(epoch_period, batch_period)

    def train_begin(self, estimator, *args, **kwargs):
        self._periods.current_epoch = self._periods.current_batch = 0

    def _evaluate(self, due):
        if due:
            self.eval_fn(val_data=self.val_data, **({"event_handlers": self._handlers} if self._handlers else {}))

    def batch_end(self, estimator, *args, **kwargs):
        self._evaluate(self._periods.batch_due())

    def epoch_end(self, estimator, *args, **kwargs):
        self._evaluate(self._periods.epoch_due())


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Writes metrics to the log, after each epoch and after so many batches."""

    def __init__(self, log_interval="epoch", metrics=None, priority=math.inf):
        if log_interval != "epoch" and not isinstance(log_interval, int):
            raise ValueError("log_interval must be either an integer or string 'epoch'")
        self.metrics, self.priority, self._log = metrics or [], priority, logging.getLogger("gluino.estimator")
        self._periods = _Periods(1, None if log_interval == "epoch" else log_interval)

    def train_begin(self, estimator, *args, **kwargs):
        self._start = time.time()
        self._log.info("Training begin: using optimizer %s with current learning rate %.4f", type(estimator.trainer.optimizer).__name__,
                       estimator.trainer.learning_rate)

    def train_end(self, estimator, *args, **kwargs):
        self._log.info("Train finished using total %ds with %d epochs. %s", time.time() - self._start, self._periods.current_epoch,
                       self._text(estimator))

    def batch_end(self, estimator, *args, **kwargs):
        if self._periods.batch_due():
            self._log.info("[Epoch %d][Batch %d] %s", self._periods.current_epoch, self._periods.current_batch, self._text(estimator))

    def epoch_end(self, estimator, *args, **kwargs):
        self._periods.epoch_due()
        self._log.info("[Epoch %d] finished: %s", self._periods.current_epoch - 1, self._text(estimator))

    def _text(self, estimator):
        return ", ".join("{}: {:.4f}".format(*m.get()) for m in self.metrics or estimator.train_metrics)


def _better(monitor, mode):
    """1 where greater values of a metric are better, else -1."""
    if mode not in ("auto", "min", "max"):
        raise ValueError(f"mode is 'auto', 'min' or 'max', not {mode!r}")
    return 1 if mode == "max" or (mode == "auto" and any(word in monitor.name.lower() for word in ("acc", "f1"))) else -1


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves parameters and the trainer's states after so many epochs or batches, and the best ones by a metric."""

    def __init__(self, model_dir, model_prefix="model", monitor=None, verbose=0, save_best=False, mode="auto", epoch_period=1, batch_period=None,
                 max_checkpoints=5, resume_from_checkpoint=False):
        if save_best and monitor is None:
            raise ValueError("save_best needs a metric to monitor")
        self.model_dir, self.model_prefix, self.monitor, self.save_best = model_dir, model_prefix, monitor, save_best
        self.max_checkpoints, self.resume_from_checkpoint, self.saved_checkpoints = max_checkpoints, resume_from_checkpoint, []
        self._sign, self._best = (_better(monitor, mode), None) if monitor is not None else (0, None)
        self._periods = _Periods(epoch_period, batch_period)
        os.makedirs(model_dir, exist_ok=True)

    def train_begin(self, estimator, *args, **kwargs):
        if not self.resume_from_checkpoint:
            return
        found = []
        for name in os.listdir(self.model_dir):
            match = re.fullmatch(re.escape(self.model_prefix) + r"-epoch(\d+)batch(\d+)\.params", name)
            if match and os.path.exists(os.path.join(self.model_dir, name[:-len("params")] + "states")):
                found.append((int(match[1]), int(match[2])))
        if not found:
            return
        epoch, batch = max(found)
        path = os.path.join(self.model_dir, f"{self.model_prefix}-epoch{epoch}batch{batch}")
        estimator.net.load_parameters(path + ".params", ctx=estimator.context)
        estimator.trainer.load_states(path + ".states")
        self._periods.current_epoch, self._periods.current_batch = epoch + 1, batch

    def batch_end(self, estimator, *args, **kwargs):
        if self._periods.batch_due():
            self._save(estimator, self._periods.current_epoch)

    def epoch_end(self, estimator, *args, **kwargs):
        if self._periods.epoch_due():
            self._save(estimator, self._periods.current_epoch - 1)

    def _write(self, estimator, name):
        path = os.path.join(self.model_dir, name)
        # The parameters, which the handler looks for, come last: a kill leaves no checkpoint without states.
        estimator.trainer.save_states(path + ".states")
        estimator.net.save_parameters(path + ".params")
        return path

    def _save(self, estimator, epoch):
        self.saved_checkpoints.append(self._write(estimator, f"{self.model_prefix}-epoch{epoch}batch{self._periods.current_batch}"))
        if len(self.saved_checkpoints) > self.max_checkpoints:
            oldest = self.saved_checkpoints.pop(0)
            for ending in (".params", ".states"):
                os.remove(oldest + ending)
        if self.save_best:
            value = self.monitor.get()[1]
            if self._best is None or self._sign * (value - self._best) > 0:
                self._best = value
                self._write(estimator, f"{self.model_prefix}-best")


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Stops when a metric does not improve any more."""

    def __init__(self, monitor, min_delta=0, patience=0, mode="auto", baseline=None):
        self.monitor, self.min_delta, self.patience, self.baseline = monitor, abs(min_delta), patience, baseline
        self._sign = _better(monitor, mode)

    def train_begin(self, estimator, *args, **kwargs):
        self._best, self._waited, self.stopped_epoch, self.current_epoch = self.baseline, 0, 0, 0

    def epoch_end(self, estimator, *args, **kwargs):
        value = self.monitor.get()[1]
        self.current_epoch += 1
        if self._best is None or self._sign * (value - self._best) > self.min_delta:
            self._best, self._waited = value, 0
            return
        self._waited += 1
        if self._waited > self.patience:
            self.stopped_epoch = self.current_epoch
            estimator.stop_training = True

    def train_end(self, estimator, *args, **kwargs):
        if self.stopped_epoch:
            logging.info("[Epoch %d] EarlyStoppingHanlder: early stopping due to %s not improving", self.stopped_epoch, self.monitor.get()[0])
