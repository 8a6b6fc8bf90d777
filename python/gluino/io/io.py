"""Iterators over batches, as Module.fit takes them."""
import collections

import numpy as np

from .. import ndarray as nd

__all__ = ["DataDesc", "DataBatch", "DataIter", "NDArrayIter", "ResizeIter", "PrefetchingIter", "MXDataIter", "CSVIter", "LibSVMIter", "MNISTIter",
           "ImageRecordIter", "ImageDetRecordIter", "ImageRecordUInt8Iter", "ImageRecordInt8Iter", "ImageRecordIter_v1", "ImageRecordUInt8Iter_v1", "read_idx"]


class DataDesc(collections.namedtuple("DataDesc", ["name", "shape"])):
    """Name and shape of an input, with dtype and layout."""

    def __new__(cls, name, shape, dtype=np.float32, layout="NCHW"):
        made = super().__new__(cls, name, tuple(shape))
        made.dtype, made.layout = dtype, layout
        return made

    def __repr__(self):
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout):
        """The axis of the batch."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes, types):
        """Descriptions from [(name, shape)] and [(name, dtype)]."""
        if types is None:
            return [DataDesc(*shape) for shape in shapes]
        known = dict(types)
        return [DataDesc(name, shape, known[name]) for name, shape in shapes]


class DataBatch:
    """Arrays of one batch."""

    def __init__(self, data, label=None, pad=None, index=None, bucket_key=None, provide_data=None, provide_label=None):
        for given, name in ((data, "Data"), (label, "Label")):
            if given is not None and not isinstance(given, (list, tuple)):
                raise AssertionError(f"{name} must be list of NDArrays")
        self.data, self.label, self.pad, self.index, self.bucket_key = data, label, pad, index, bucket_key
        self.provide_data, self.provide_label = provide_data, provide_label

    def __str__(self):
        return f"DataBatch: data shapes: {[d.shape for d in self.data]} label shapes: {[l.shape for l in self.label or []]}"


class DataIter:
    """The base of iterators."""

    def __init__(self, batch_size=0):
        self.batch_size = batch_size

    def __iter__(self):
        return self

    def reset(self):
        """Starts again."""

    def next(self):
        """The next batch; raises StopIteration."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex(), provide_data=self.provide_data, provide_label=self.provide_label)

    def __next__(self):
        return self.next()

    def iter_next(self):
        """Goes on; whether there is a batch."""
        raise NotImplementedError(f"{type(self).__name__} must define iter_next or next")

    def getdata(self):
        """The arrays of the batch."""
        raise NotImplementedError(f"{type(self).__name__} must define getdata or next")

    def getlabel(self):
        """The labels of the batch."""
        raise NotImplementedError(f"{type(self).__name__} must define getlabel or next")

    def getindex(self):
        return None

    def getpad(self):
        return 0


def _named(data, default_name, allow_empty):
    if data is None:
        if not allow_empty:
            raise AssertionError("data is needed")
        return []
    if isinstance(data, (np.ndarray, nd.NDArray)):
        data = [data]
    if isinstance(data, (list, tuple)):
        data = {default_name: data[0]} if len(data) == 1 else {f"_{i}_{default_name}": d for i, d in enumerate(data)}
    if not isinstance(data, dict):
        raise TypeError("Input must be NDArray, numpy.ndarray, a list of them or dict with them as values")
    # As mx.nd.array does: arrays of the package keep their dtype, all others become float32. A csr matrix stays one.
    return [(name, value if isinstance(value, nd.sparse.CSRNDArray) else value.asnumpy() if isinstance(value, nd.NDArray) else
             np.asarray(value, np.float32)) for name, value in data.items()]


def _init_data(data, allow_empty, default_name):
    """Pairs of names and arrays, as iterators take them; programs with iterators of their own call it."""
    return _named(data, default_name, allow_empty)


def _taken(value, rows):
    return value.take_rows(rows) if isinstance(value, nd.sparse.CSRNDArray) else nd.array(value[rows], dtype=value.dtype)


class NDArrayIter(DataIter):
    """Batches of arrays in memory."""

    def __init__(self, data, label=None, batch_size=1, shuffle=False, last_batch_handle="pad", data_name="data", label_name="softmax_label",
                 layout="NCHW"):
        super().__init__(batch_size)
        self.layout = layout
        self._data, self._label = _named(data, data_name, False), _named(label, label_name, True)
        self.num_data, self.shuffle, self.last_batch_handle = len(self._data[0][1]), shuffle, last_batch_handle
        for name, value in self._data + self._label:
            if len(value) != self.num_data:
                raise ValueError(f"'{name}' has {len(value)} rows, '{self._data[0][0]}' has {self.num_data}")
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ValueError(f"last_batch_handle is 'pad', 'discard' or 'roll_over', not {last_batch_handle!r}")
        if batch_size > self.num_data and last_batch_handle != "pad":
            raise AssertionError("batch_size needs to be smaller than data size.")
        self._order, self._left = np.arange(self.num_data), np.arange(0)
        self.reset()

    def _described(self, pairs):
        return [DataDesc(name, (self.batch_size, *value.shape[1:]), value.dtype, self.layout) for name, value in pairs]

    @property
    def provide_data(self):
        """Names and shapes of data."""
        return self._described(self._data)

    @property
    def provide_label(self):
        """Names and shapes of labels."""
        return self._described(self._label)

    @property
    def data(self):
        """(name, array) of all rows."""
        return self._arrays(self._data)

    @property
    def label(self):
        """(name, array) of all rows' labels."""
        return self._arrays(self._label)

    @staticmethod
    def _arrays(pairs):
        return [(name, value if isinstance(value, nd.NDArray) else nd.array(value, dtype=value.dtype)) for name, value in pairs]

    @property
    def data_list(self):
        """The arrays of data and of labels."""
        return [value for _, value in self.data + self.label]

    @property
    def num_source(self):
        """How many arrays there are."""
        return len(self._data) + len(self._label)

    @property
    def idx(self):
        """The rows' numbers in the order of this round."""
        return self._order

    def hard_reset(self):
        """Starts again, forgetting what rolled over."""
        self._left = np.arange(0)
        self.reset()

    def reset(self):
        if self.shuffle:
            np.random.shuffle(self._order)
        self._queue = np.concatenate([self._left, self._order])
        self._left, self.cursor = np.arange(0), -self.batch_size

    def iter_next(self):
        self.cursor += self.batch_size
        rest = len(self._queue) - self.cursor
        if rest <= 0:
            return False
        if rest < self.batch_size and self.last_batch_handle != "pad":
            if self.last_batch_handle == "roll_over":
                self._left = self._queue[self.cursor:]
            return False
        return True

    def _rows(self):
        rows = self._queue[self.cursor:self.cursor + self.batch_size]
        return np.concatenate([rows, np.resize(self._queue, self.getpad())]).astype(int) if self.getpad() else rows

    def getpad(self):
        return max(0, self.cursor + self.batch_size - len(self._queue)) if self.last_batch_handle == "pad" else 0

    def getdata(self):
        return [_taken(value, self._rows()) for _, value in self._data]

    def getlabel(self):
        return [_taken(value, self._rows()) for _, value in self._label]


class _Over(DataIter):
    """An iterator over others: iter_next() keeps the batch that getdata() and its like show."""

    current_batch = None

    def _advance(self):
        """The next batch; raises StopIteration."""
        raise NotImplementedError

    def iter_next(self):
        try:
            self.current_batch = self._advance()
        except StopIteration:
            return False
        return True

    def next(self):
        if not self.iter_next():
            raise StopIteration
        return self.current_batch

    def getdata(self):
        return self.current_batch.data

    def getlabel(self):
        return self.current_batch.label

    def getindex(self):
        return self.current_batch.index

    def getpad(self):
        return self.current_batch.pad


class ResizeIter(_Over):
    """Another iterator, made longer or shorter."""

    def __init__(self, data_iter, size, reset_internal=True):
        super().__init__(data_iter.batch_size)
        self.data_iter, self.size, self.reset_internal, self.cur = data_iter, size, reset_internal, 0
        self.provide_data, self.provide_label = data_iter.provide_data, data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self):
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def _advance(self):
        if self.cur == self.size:
            raise StopIteration
        self.cur += 1
        try:
            return self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            return self.data_iter.next()


def _renamed(iters, kind, names):
    """The descriptions of several iterators, with other names where they are given."""
    described = [[item if isinstance(item, DataDesc) else DataDesc(*item) for item in getattr(i, kind)] for i in iters]
    if names is None:
        return sum(described, [])
    return [DataDesc(table[item.name], item.shape, item.dtype) for table, items in zip(names, described) for item in items]


class PrefetchingIter(_Over):
    """Several iterators side by side; batches are made when asked for."""

    def __init__(self, iters, rename_data=None, rename_label=None):
        self.iters = iters if isinstance(iters, list) else [iters]
        super().__init__(self.iters[0].batch_size)
        self.rename_data, self.rename_label = rename_data, rename_label

    @property
    def provide_data(self):
        """Names and shapes of data."""
        return _renamed(self.iters, "provide_data", self.rename_data)

    @property
    def provide_label(self):
        """Names and shapes of labels."""
        return _renamed(self.iters, "provide_label", self.rename_label)

    def reset(self):
        for i in self.iters:
            i.reset()

    def _advance(self):
        batches = [i.next() for i in self.iters]
        return DataBatch(sum([b.data for b in batches], []), sum([b.label for b in batches], []), batches[0].pad, batches[0].index,
                         provide_data=self.provide_data, provide_label=self.provide_label)


# At the end, because they are made of the classes above; MXNet has them in this module.
from .readers import (CSVIter, ImageRecordInt8Iter, ImageRecordIter, ImageRecordIter_v1, ImageRecordUInt8Iter, ImageRecordUInt8Iter_v1,  # noqa: E402
                      LibSVMIter, MNISTIter, MXDataIter, read_idx)
from .detection_records import ImageDetRecordIter  # noqa: E402,F401
