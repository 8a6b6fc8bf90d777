"""Parts of DataLoader's workings under MXNet's names, for loaders that other libraries derive from them."""
import io
import multiprocessing
import multiprocessing.queues
import pickle
from multiprocessing.reduction import ForkingPickler

from ...context import cpu
from ... import ndarray as nd

__all__ = ["ConnectionWrapper", "Queue", "SimpleQueue", "worker_loop_v1", "fetcher_loop_v1", "_as_in_context", "_worker_fn", "_thread_worker_fn",
           "_worker_initializer", "_MultiWorkerIter", "ForkingPickler"]


class ConnectionWrapper:
    """A connection that sends what ForkingPickler can pack."""

    def __init__(self, conn):
        self._conn = conn

    def send(self, obj):
        """Sends an object."""
        buffer = io.BytesIO()
        ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(obj)
        self._conn.send_bytes(buffer.getvalue())

    def recv(self):
        """Receives one."""
        return pickle.loads(self._conn.recv_bytes())

    def __getattr__(self, name):
        return getattr(self.__dict__["_conn"], name)


class Queue(multiprocessing.queues.Queue):
    """A queue between processes."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)


class SimpleQueue(multiprocessing.queues.SimpleQueue):
    """A queue between processes, without a thread."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)


def _as_in_context(data, ctx):
    """Arrays of nested lists on another context."""
    if isinstance(data, nd.NDArray):
        return data.as_in_context(ctx)
    return [_as_in_context(item, ctx) for item in data] if isinstance(data, (list, tuple)) else data


def worker_loop_v1(dataset, key_queue, data_queue, batchify_fn):
    """Takes (number, indices) from a queue and puts (number, batch) into another, until the number is None."""
    for number, indices in iter(key_queue.get, None):
        if number is None:
            break
        data_queue.put((number, batchify_fn([dataset[i] for i in indices])))


def fetcher_loop_v1(data_queue, data_buffer, pin_memory=False, pin_device_id=0, data_buffer_lock=None):
    """Takes (number, batch) from a queue into a dictionary, until the number is None."""
    import contextlib
    while True:
        number, batch = data_queue.get()
        if number is None:
            break
        with data_buffer_lock or contextlib.nullcontext():
            data_buffer[number] = _as_in_context(batch, cpu()) if pin_memory else batch


_shared = {}


def _worker_initializer(dataset, *_):
    """What a worker starts with: the data set that its batches are made of."""
    _shared["dataset"] = dataset


def _worker_fn(samples, batchify_fn, dataset=None):
    """A batch in a worker process, as bytes."""
    source = dataset or _shared["dataset"]
    buffer = io.BytesIO()
    ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(batchify_fn([source[i] for i in samples]))
    return buffer.getvalue()


def _thread_worker_fn(samples, batchify_fn, dataset):
    """A batch in a thread."""
    return batchify_fn([dataset[i] for i in samples])


class _MultiWorkerIter:
    """Batches of a pool of workers, in the order of the sampler, some of them ahead."""

    def __init__(self, worker_pool, batchify_fn, batch_sampler, pin_memory=False, pin_device_id=0, worker_fn=_worker_fn, prefetch=0, dataset=None,
                 data_loader=None, timeout=120):
        self._worker_pool, self._batchify_fn, self._batch_sampler, self._dataset = worker_pool, batchify_fn, batch_sampler, dataset
        self._data_buffer, self._rcvd_idx, self._sent_idx, self._iter = {}, 0, 0, iter(batch_sampler)
        self._worker_fn, self._pin_memory, self._data_loader, self._timeout = worker_fn, pin_memory, data_loader, timeout
        for _ in range(prefetch):
            self._push_next()

    def __len__(self):
        return len(self._batch_sampler)

    def _push_next(self):
        indices = next(self._iter, None)
        if indices is not None:
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(self._worker_fn, (indices, self._batchify_fn, self._dataset))
            self._sent_idx += 1

    def __next__(self):
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            if self._data_buffer:
                raise AssertionError("Data buffer should be empty at this moment")
            raise StopIteration
        found = self._data_buffer.pop(self._rcvd_idx).get(self._timeout)
        self._rcvd_idx += 1
        batch = pickle.loads(found) if isinstance(found, bytes) else found
        return _as_in_context(batch, cpu()) if self._pin_memory else batch

    next = __next__

    def __iter__(self):
        return self
