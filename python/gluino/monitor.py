"""Monitor: looks at arrays of an executor while it trains."""
import logging
import re

__all__ = ["Monitor"]


class Monitor:
    """Every `interval` batches, a statistic of arguments and outputs whose names match."""

    def __init__(self, interval, stat_func=None, pattern=".*", sort=False, monitor_all=False):
        self.interval, self.sort, self._pattern = interval, sort, re.compile(pattern)
        self.stat_func = stat_func or (lambda x: x.norm() / x.size**0.5)
        self._executors, self._step, self._active, self._queue = [], 0, False, []

    def install(self, exe):
        """Watches an executor."""
        self._executors.append(exe)

    def tic(self):
        """Before a batch."""
        self._active = self._step % self.interval == 0
        self._step += 1

    def toc(self):
        """After a batch: [(step, name, statistic)]."""
        if not self._active:
            return []
        self._active = False
        found = [(self._step, name, str(self.stat_func(value).asnumpy())) for exe in self._executors
                 for name, value in [*exe.arg_dict.items(), *exe.output_dict.items()] if self._pattern.match(name)]
        return sorted(found, key=lambda item: item[1]) if self.sort else found

    def toc_print(self):
        """After a batch: logs it."""
        for step, name, value in self.toc():
            logging.info("Batch: %7d %30s %s", step, name, value)
