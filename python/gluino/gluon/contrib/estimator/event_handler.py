"""What happens around epochs and batches. A handler whose epoch_end or batch_end gives True ends the training."""
import math
import operator
import os
import re
import time
import warnings

from ....metric import CompositeEvalMetric, EvalMetric, Loss

__all__ = ["EventHandler", "TrainBegin", "TrainEnd", "EpochBegin", "EpochEnd", "BatchBegin", "BatchEnd", "StoppingHandler", "GradientUpdateHandler", "MetricHandler",
           "ValidationHandler", "LoggingHandler", "CheckpointHandler", "EarlyStoppingHandler"]


class EventHandler:
    """The base of handlers."""


def _event(name):
    return type("".join(part.title() for part in name.split("_")), (EventHandler,), {name: lambda self, estimator, *args, **kwargs: None, "__doc__": f"Has {name}."})


TrainBegin, TrainEnd, EpochBegin = _event("train_begin"), _event("train_end"), _event("epoch_begin")
EpochEnd, BatchBegin, BatchEnd = _event("epoch_end"), _event("batch_begin"), _event("batch_end")


def listed_metrics(given):
    """Metrics as a list; raises where something else was given."""
    if isinstance(given, CompositeEvalMetric):
        return [metric for each in given.metrics for metric in listed_metrics(each)]
    found = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    for metric in found:
        if not isinstance(metric, EvalMetric):
            raise ValueError(f"metrics must be a Metric or a list of Metric, refer to mxnet.metric.EvalMetric, not {metric!r}")
    return found


def _is_due(count, period):
    return bool(period) and count % period == 0


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Stops after so many epochs or batches."""

    def __init__(self, max_epoch=None, max_batch=None):
        self.max_epoch, self.max_batch, self.stop_training = max_epoch, max_batch, False
        self.current_epoch = self.current_batch = 0

    def train_begin(self, estimator, *args, **kwargs):
        self.max_epoch, self.max_batch = estimator.max_epoch, estimator.max_batch
        self.current_epoch = self.current_batch = 0

    def batch_end(self, estimator, *args, **kwargs):
        self.current_batch += 1
        self.stop_training |= self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator, *args, **kwargs):
        self.current_epoch += 1
        self.stop_training |= self.current_epoch == self.max_epoch
        return self.stop_training


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
        self.metrics, self.priority = listed_metrics(metrics), priority

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
        self.val_data, self.eval_fn, self.priority, self.event_handlers = val_data, eval_fn, priority, event_handlers
        self.epoch_period, self.batch_period = epoch_period, batch_period
        self.current_epoch = self.current_batch = 0

    def train_begin(self, estimator, *args, **kwargs):
        self.current_epoch = self.current_batch = 0

    def _evaluate(self, estimator):
        self.eval_fn(val_data=self.val_data, batch_axis=estimator.batch_axis, event_handlers=self.event_handlers)

    def batch_end(self, estimator, *args, **kwargs):
        self.current_batch += 1
        if _is_due(self.current_batch, self.batch_period):
            self._evaluate(estimator)

    def epoch_end(self, estimator, *args, **kwargs):
        self.current_epoch += 1
        if _is_due(self.current_epoch, self.epoch_period):
            self._evaluate(estimator)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Writes metrics to the estimator's log, after each epoch and after so many batches."""

    def __init__(self, log_interval="epoch", metrics=None, priority=math.inf):
        if log_interval != "epoch" and not isinstance(log_interval, int):
            raise ValueError("log_interval must be either an integer or string 'epoch'")
        self.metrics, self.priority, self.log_interval = listed_metrics(metrics), priority, log_interval
        self._start_again()

    def _start_again(self):
        self.current_epoch = self.batch_index = self.processed_samples = self.log_interval_time = 0

    def train_begin(self, estimator, *args, **kwargs):
        self.train_start = time.time()
        estimator.logger.info("Training begin: using optimizer %s with current learning rate %.4f ", type(estimator.trainer.optimizer).__name__,
                              estimator.trainer.learning_rate)
        many, what = (estimator.max_epoch, "epochs") if estimator.max_epoch else (estimator.max_batch, "batches")
        estimator.logger.info("Train for %d %s.", many, what)
        self._start_again()

    def train_end(self, estimator, *args, **kwargs):
        estimator.logger.info("Train finished using total %ds with %d epochs. %s", time.time() - self.train_start, self.current_epoch, self._text())

    def batch_begin(self, estimator, *args, **kwargs):
        self.batch_start = time.time()

    def batch_end(self, estimator, *args, **kwargs):
        if self.log_interval != "epoch":
            self.processed_samples += kwargs["batch"][0].shape[0]
            self.log_interval_time += time.time() - self.batch_start
            if _is_due(self.batch_index, self.log_interval):
                estimator.logger.info("[Epoch %d][Batch %d][Samples %s] time/interval: %.3fs %s", self.current_epoch, self.batch_index,
                                      self.processed_samples, self.log_interval_time, self._text())
                self.log_interval_time = 0
        self.batch_index += 1

    def epoch_begin(self, estimator, *args, **kwargs):
        self.epoch_start = time.time()
        if any("training" in metric.name for metric in self.metrics):
            estimator.logger.info("[Epoch %d] Begin, current learning rate: %.4f", self.current_epoch, estimator.trainer.learning_rate)
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator, *args, **kwargs):
        estimator.logger.info("[Epoch %d] Finished in %.3fs, %s", self.current_epoch, time.time() - self.epoch_start, self._text())
        self.current_epoch += 1
        self.batch_index = 0

    def _text(self):
        return ", ".join("{}: {:.4f}".format(*metric.get()) for metric in self.metrics)


def _comparison(monitor, mode):
    """How a value of a metric is better than another: greater, unless 'min' is said."""
    if mode not in ("auto", "min", "max"):
        warnings.warn(f"mode {mode!r} is unknown, 'auto' is used", RuntimeWarning)
        mode = "auto"
    if mode == "auto":
        warnings.warn(f"greater values of {monitor.get()[0]} are taken for better ones; say mode='min' or mode='max'")
    return operator.lt if mode == "min" else operator.gt


def _worst(is_better):
    return math.inf if is_better is operator.lt else -math.inf


def _warn_of_nothing(name):
    warnings.warn(f"{name} is not updated, make sure you pass one of the metric objects from estimator.train_metrics and estimator.val_metrics as monitor",
                  RuntimeWarning)


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves parameters and the trainer's states after so many epochs or batches, and the best ones by a metric."""

    def __init__(self, model_dir, model_prefix="model", monitor=None, verbose=0, save_best=False, mode="auto", epoch_period=1, batch_period=None,
                 max_checkpoints=5, resume_from_checkpoint=False):
        if save_best and not isinstance(monitor, EvalMetric):
            raise ValueError("To save best model only, please provide one of the metric objects from estimator.train_metrics and "
                             "estimator.val_metrics as monitor.")
        self.model_dir, self.model_prefix, self.monitor, self.save_best, self.verbose = model_dir, model_prefix, monitor, save_best, verbose
        self.max_checkpoints, self.resume_from_checkpoint, self.saved_checkpoints = max_checkpoints, resume_from_checkpoint, []
        self.epoch_period, self.batch_period = epoch_period, batch_period
        self.current_epoch = self.current_batch = 0
        self.trained_epoch = self.trained_batch = -1  # in an earlier run
        if save_best:
            self.monitor_op = _comparison(monitor, mode)
            self.best = _worst(self.monitor_op)
        os.makedirs(model_dir, exist_ok=True)

    def train_begin(self, estimator, *args, **kwargs):
        self.current_epoch = self.current_batch = 0
        if self.save_best:
            self.best = _worst(self.monitor_op)
        if self.resume_from_checkpoint:
            right, wrong = (self.batch_period, self.epoch_period) if estimator.max_batch else (self.epoch_period, self.batch_period)
            if not right or wrong:
                raise AssertionError("To use resume from checkpoint, you must only specify the same type of period you used for training: epochs saved after "
                                     "epochs with batch_period=None, batches after batches with epoch_period=None.")
            self._resume(estimator)

    def _found(self):
        """(epoch, batch) of all checkpoints that are whole."""
        pattern = re.compile(re.escape(self.model_prefix) + r"-epoch(\d+)batch(\d+)\.params")
        matches = [match for match in map(pattern.fullmatch, os.listdir(self.model_dir)) if match]
        return [(int(match[1]), int(match[2])) for match in matches
                if os.path.exists(os.path.join(self.model_dir, match[0][:-len("params")] + "states"))]

    def _resume(self, estimator):
        found = sorted(self._found())
        many, what = (estimator.max_epoch, "epochs") if estimator.max_epoch else (estimator.max_batch, "batches")
        if not found:
            estimator.logger.info("CheckpointHandler: No checkpoint found, training from scratch for %d %s", many, what)
            return
        epoch, batch = found[-1]
        done = epoch if estimator.max_epoch else batch
        if done >= many - 1:
            raise ValueError(f"Found checkpoint with maximum number of {what} {many} reached, please specify resume_from_checkpoint=False (default value) "
                             "if you want to train from scratch.")
        path = os.path.join(self.model_dir, f"{self.model_prefix}-epoch{epoch}batch{batch}")
        estimator.net.load_parameters(path + ".params", ctx=estimator.context)
        estimator.trainer.load_states(path + ".states")
        self.saved_checkpoints = [f"{self.model_prefix}-epoch{e}batch{b}" for e, b in found]
        self.trained_epoch, self.trained_batch = epoch, batch
        if estimator.max_epoch:
            estimator.max_epoch -= epoch + 1
        else:
            estimator.max_batch -= batch + 1
        estimator.logger.warning("CheckpointHandler: Checkpoint resumed from epoch %d batch %d, continue to train for %d %s ", epoch, batch,
                                 many - done - 1, what)

    def batch_end(self, estimator, *args, **kwargs):
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if _is_due(self.current_batch + 1, self.batch_period):
            self._save(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator, *args, **kwargs):
        if _is_due(self.current_epoch + 1, self.epoch_period):
            self._save(estimator)
        self.current_epoch += 1

    def _save_symbol(self, estimator):
        path = os.path.join(self.model_dir, f"{self.model_prefix}-symbol.json")
        if getattr(estimator.net, "_active", False):
            estimator.net._exported()[0].save(path)
        else:
            estimator.logger.info("Model architecture(symbol file) is not saved, please use HybridBlock to construct your model, and call net.hybridize() "
                                  "before passing to Estimator in order to save model architecture as %s.", path)

    def _write(self, estimator, name):
        path = os.path.join(self.model_dir, name)
        # The parameters, which the handler looks for, come last: a kill leaves no checkpoint without states.
        estimator.trainer.save_states(path + ".states")
        estimator.net.save_parameters(path + ".params")

    def _save(self, estimator):
        epoch, batch = self.current_epoch, self.current_batch
        if self.trained_epoch >= 0:  # behind those of the earlier run
            epoch, batch = epoch + self.trained_epoch + 1, batch + self.trained_batch + (0 if estimator.max_epoch else 1)
        name = f"{self.model_prefix}-epoch{epoch}batch{batch}"
        self._write(estimator, name)
        if self.verbose > 0:
            estimator.logger.info("[Epoch %d] CheckpointHandler: trained total %d batches, saving model at %s with prefix: %s", self.current_epoch,
                                  self.current_batch + 1, self.model_dir, name)
        self.saved_checkpoints.append(name)
        if len(self.saved_checkpoints) > self.max_checkpoints:
            oldest = os.path.join(self.model_dir, self.saved_checkpoints.pop(0))
            for ending in (".params", ".states"):
                os.remove(oldest + ending)
        if self.save_best:
            self._save_best(estimator)

    def _save_best(self, estimator):
        name, value = self.monitor.get()
        if math.isnan(value):
            _warn_of_nothing(name)
        elif self.monitor_op(value, self.best):
            self._write(estimator, f"{self.model_prefix}-best")
            if self.verbose > 0:
                estimator.logger.info("[Epoch %d] CheckpointHandler: %s improved from %0.5f to %0.5f, updating best model at %s", self.current_epoch, name,
                                      self.best, value, self.model_dir)
            self.best = value
        elif self.verbose > 0:
            estimator.logger.info("[Epoch %d] CheckpointHandler: %s did not improve from %0.5f, skipping updating best model", self.current_epoch, name,
                                  self.best)


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Stops when a metric has not improved for `patience` epochs."""

    def __init__(self, monitor, min_delta=0, patience=0, mode="auto", baseline=None):
        if not isinstance(monitor, EvalMetric):
            raise ValueError("Please provide one of the metric objects from estimator.train_metrics and estimator.val_metrics as monitor.")
        if isinstance(monitor, CompositeEvalMetric):
            raise ValueError("CompositeEvalMetric is not supported for EarlyStoppingHandler, please specify a simple metric instead.")
        self.monitor, self.patience, self.baseline, self.monitor_op = monitor, patience, baseline, _comparison(monitor, mode)
        self.min_delta = -min_delta if self.monitor_op is operator.lt else min_delta
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator, *args, **kwargs):
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self.best = _worst(self.monitor_op) if self.baseline is None else self.baseline

    def epoch_end(self, estimator, *args, **kwargs):
        name, value = self.monitor.get()
        if math.isnan(value):
            _warn_of_nothing(name)
        elif self.monitor_op(value - self.min_delta, self.best):
            self.best, self.wait = value, 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch, self.stop_training = self.current_epoch, True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator, *args, **kwargs):
        if self.stopped_epoch > 0:
            estimator.logger.info("[Epoch %d] EarlyStoppingHanlder: early stopping due to %s not improving", self.stopped_epoch, self.monitor.get()[0])
