"""Monitor: looks at arrays of an executor while it trains."""
import logging
import re

from .ndarray import NDArray

__all__ = ["Monitor"]


class Monitor:
    """Every `interval` batches, a statistic of arguments and of operators' outputs whose names match."""

    def __init__(self, interval, stat_func=None, pattern=".*", sort=False, monitor_all=False):
        self.interval, self.sort, self.monitor_all, self.re_prog = interval, sort, monitor_all, re.compile(pattern)
        self.stat_func = stat_func or (lambda x: x.norm() / x.size**0.5)
        self.exes, self.step, self.activated, self.queue = [], 0, False, []

    def stat_helper(self, name, array):
        """What executors call: keeps the statistic of an output."""
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe):
        """Watches an executor."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def tic(self):
        """Before a batch."""
        if self.step % self.interval == 0:
            self.queue, self.activated = [], True
        self.step += 1

    def toc(self):
        """After a batch: [(step, name, statistic as text)]."""
        if not self.activated:
            return []
        self.activated = False
        for exe in self.exes:
            for name, array in [*exe.arg_dict.items(), *exe.aux_dict.items()]:
                if self.re_prog.match(name):
                    self.queue.append((self.step, name, self.stat_func(array)))
        found = sorted(self.queue, key=lambda item: item[1]) if self.sort else self.queue
        self.queue = []
        return [(step, name, self._text(value)) for step, name, value in found]

    @staticmethod
    def _text(statistics):
        values = statistics if isinstance(statistics, list) else [statistics]
        for value in values:
            if not isinstance(value, NDArray):
                raise AssertionError(f"the statistic of an array is an NDArray or a list of them, not {type(value)}")
        return "".join(f"{value.asscalar() if value.shape == (1,) else value.asnumpy()}\t" for value in values)

    def toc_print(self):
        """After a batch: logs it."""
        for step, name, value in self.toc():
            logging.info("Batch: %7d %30s %s", step, name, value)
