"""Callbacks of Module.fit."""
import logging
import time

from .model import save_checkpoint

__all__ = ["Speedometer", "do_checkpoint", "module_checkpoint", "log_train_metric", "ProgressBar", "LogValidationMetricsCallback"]


def do_checkpoint(prefix, period=1):
    """Saves the model every `period` epochs."""
    def callback(iter_no, sym, arg, aux):
        if (iter_no + 1) % max(1, int(period)) == 0:
            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)
    return callback


def module_checkpoint(mod, prefix, period=1, save_optimizer_states=False):
    """Saves a module every `period` epochs."""
    def callback(iter_no, sym=None, arg=None, aux=None):
        if (iter_no + 1) % max(1, int(period)) == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)
    return callback


def _values(metric):
    return "\t".join(f"{name}={value:f}" for name, value in metric.get_name_value())


def log_train_metric(period, auto_reset=False):
    """Logs the metric every `period` batches."""
    def callback(param):
        if param.nbatch % period == 0 and param.eval_metric is not None:
            logging.info("Iter[%d] Batch[%d] Train-%s", param.epoch, param.nbatch, _values(param.eval_metric))
            if auto_reset:
                param.eval_metric.reset_local()
    return callback


class Speedometer:
    """Logs samples per second and metrics every `frequent` batches."""

    def __init__(self, batch_size, frequent=50, auto_reset=True):
        self.batch_size, self.frequent, self.auto_reset = batch_size, frequent, auto_reset
        self._since, self._last = None, 0

    def __call__(self, param):
        if self._last > param.nbatch or self._since is None:
            self._since = time.time()
        elif param.nbatch % self.frequent == 0:
            speed = self.frequent * self.batch_size / max(1e-9, time.time() - self._since)
            text = "" if param.eval_metric is None else "\t" + _values(param.eval_metric)
            logging.info("Epoch[%d] Batch [%d]\tSpeed: %.2f samples/sec%s", param.epoch, param.nbatch, speed, text)
            if param.eval_metric is not None and self.auto_reset:
                param.eval_metric.reset_local()
            self._since = time.time()
        self._last = param.nbatch


class ProgressBar:
    """Logs a bar."""

    def __init__(self, total, length=80):
        self.total, self.bar_len = total, length

    def __call__(self, param):
        done = int(round(self.bar_len * param.nbatch / float(self.total)))
        logging.info("[%s] %d%%\r", "=" * done + "-" * (self.bar_len - done), round(100.0 * param.nbatch / self.total))


class LogValidationMetricsCallback:
    """Logs validation metrics after an epoch."""

    def __call__(self, param):
        if param.eval_metric is not None:
            logging.info("Epoch[%d] Validation-%s", param.epoch, _values(param.eval_metric))
