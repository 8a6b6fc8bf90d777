"""DataLoader: batches of a dataset, made here, in threads, or in other processes."""
import collections
import concurrent.futures
import itertools
import multiprocessing.pool  # programs use it and rely on MXNet having imported it
import os
import threading

import numpy as np

from ... import ndarray as nd
from ...util import is_np_array
from .sampler import BatchSampler, RandomSampler, SequentialSampler

__all__ = ["DataLoader", "DataLoaderV1", "default_batchify_fn", "default_mp_batchify_fn"]


def default_batchify_fn(data):
    """Items joined along a new first axis."""
    if isinstance(data[0], nd.NDArray):
        return nd.stack(*data)
    if isinstance(data[0], tuple):
        return [default_batchify_fn(part) for part in zip(*data)]
    values = np.asarray(data)
    made = nd.array(values, dtype=values.dtype)
    return made.as_np_ndarray() if is_np_array() else made


default_mp_batchify_fn = default_batchify_fn

_worker = {}
# Both ends of a pipe that nothing is written to: it ends when this process does, however that happens, and its workers see that.
_lifeline = []


def _held_lifeline():
    """The end that workers watch; this process holds the other."""
    if not _lifeline:
        _lifeline.extend(os.pipe())
    return _lifeline[0]


def _let_go_of_lifeline():
    if _lifeline:
        os.close(_lifeline[1])
        _lifeline.clear()


os.register_at_fork(after_in_child=_let_go_of_lifeline)  # what a child held would not end with its parent


def _end_with(lifeline):
    os.read(lifeline, 1)
    os._exit(1)


def _start_worker(dataset, batchify_fn, lifeline):
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    # The cores belong to all workers together: each has one.
    from ... import _core
    _core.set_num_threads(1)
    _worker["dataset"], _worker["batchify"] = dataset, batchify_fn


def _make_batch(numbers):
    return _worker["batchify"]([_worker["dataset"][i] for i in numbers])


class DataLoader:
    """Iterates over batches; num_workers > 0 makes them in other processes (or threads with thread_pool=True)."""

    def __init__(self, dataset, batch_size=None, shuffle=False, sampler=None, last_batch=None, batch_sampler=None, batchify_fn=None, num_workers=0,
                 pin_memory=False, pin_device_id=0, prefetch=None, thread_pool=False, timeout=120, auto_reload=False, try_nopython=None):
        if batch_sampler is None:
            if batch_size is None:
                raise ValueError("batch_size must be specified unless batch_sampler is specified")
            if sampler is not None and shuffle:
                raise ValueError("shuffle must not be specified if sampler is specified")
            sampler = sampler or (RandomSampler if shuffle else SequentialSampler)(len(dataset))
            batch_sampler = BatchSampler(sampler, batch_size, last_batch or "keep")
        elif batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError("batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler is specified.")
        if num_workers < 0:
            raise ValueError(f"num_workers is {num_workers}; it must be at least 0")
        self._dataset, self._batch_sampler = dataset, batch_sampler
        self._batchify_fn, self._num_workers, self._timeout = batchify_fn or default_batchify_fn, num_workers, timeout
        self._prefetch = max(0, prefetch if prefetch is not None else 2 * num_workers)
        self._thread_pool, self._pool = thread_pool, None
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id  # on a CPU all memory is the same
        self._auto_reload, self._ahead = auto_reload, None

    def __len__(self):
        return len(self._batch_sampler)

    def _executor(self):
        if self._pool is None:
            if self._thread_pool:
                _worker["dataset"], _worker["batchify"] = self._dataset, self._batchify_fn
                self._pool = concurrent.futures.ThreadPoolExecutor(self._num_workers)
            else:
                self._pool = concurrent.futures.ProcessPoolExecutor(self._num_workers, multiprocessing.get_context("fork"), _start_worker,
                                                                    (self._dataset, self._batchify_fn, _held_lifeline()))
        return self._pool

    def __iter__(self):
        if self._num_workers == 0:
            for numbers in self._batch_sampler:
                yield self._batchify_fn([self._dataset[i] for i in numbers])
            return
        numbers, waiting = self._ahead or self._started()
        self._ahead = None
        while waiting:
            self._submit(numbers, waiting, 1)
            yield waiting.popleft().result(self._timeout)
        if self._auto_reload:
            self.refresh()

    def _started(self):
        """The numbers of batches that are still to be made, and the first batches on their way."""
        numbers, waiting = iter(self._batch_sampler), collections.deque()
        self._submit(numbers, waiting, max(1, self._prefetch))
        return numbers, waiting

    def _submit(self, numbers, waiting, count):
        pool, make = self._executor(), self._threaded if self._thread_pool else _make_batch
        waiting.extend(pool.submit(make, each) for each in itertools.islice(numbers, count))

    def refresh(self):
        """Workers start with the batches of the next round."""
        self._ahead = self._started() if self._num_workers else None

    def clean(self):
        """Forgets batches that were made ahead."""
        self._ahead = None

    def _threaded(self, numbers):
        return self._batchify_fn([self._dataset[i] for i in numbers])

    def __del__(self):
        if getattr(self, "_pool", None) is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class DataLoaderV1(DataLoader):
    """DataLoader with the arguments that it had first."""

    def __init__(self, dataset, batch_size=None, shuffle=False, sampler=None, last_batch=None, batch_sampler=None, batchify_fn=None, num_workers=0,
                 pin_memory=False, pin_device_id=0):
        super().__init__(dataset, batch_size, shuffle, sampler, last_batch, batch_sampler, batchify_fn, num_workers, pin_memory, pin_device_id)


def __getattr__(name):  # what few programs look for
    if not name.startswith("__"):
        from . import _workers
        if name in _workers.__all__:
            return getattr(_workers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
