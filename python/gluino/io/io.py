"""Iterators over batches, as Module.fit takes them."""
import collections

import numpy as np

from .. import _core, ndarray as nd
from ..base import FileError

__all__ = ["DataDesc", "DataBatch", "DataIter", "NDArrayIter", "ResizeIter", "PrefetchingIter", "CSVIter", "LibSVMIter", "MNISTIter", "ImageRecordIter",
           "ImageRecordUInt8Iter", "ImageRecordInt8Iter", "ImageRecordIter_v1", "ImageRecordUInt8Iter_v1", "read_idx"]


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


class CSVIter(NDArrayIter):
    """Batches of rows of a table."""

    def __init__(self, data_csv, data_shape, label_csv=None, label_shape=(1,), batch_size=1, round_batch=True, **kwargs):
        data = _core.read_csv(str(data_csv)).asnumpy().reshape(-1, *data_shape)
        label = np.zeros(len(data), np.float32) if label_csv is None else _core.read_csv(str(label_csv)).asnumpy().reshape(-1, *label_shape)
        super().__init__(data, label, batch_size, last_batch_handle="pad" if round_batch else "discard", label_name="label")


def _read_libsvm(path, width):
    """(labels, matrix) of lines "label index:value ..."; several labels are joined by commas."""
    labels, columns, values, ends = [], [], [], [0]
    with open(path, encoding="utf-8") as file:
        for line in filter(str.strip, file):
            first, *pairs = line.split()
            if ":" in first:
                first, pairs = "0", [first, *pairs]
            labels.append([float(label) for label in first.split(",")])
            row = {int(index): float(value) for index, _, value in (pair.partition(":") for pair in pairs)}
            if row and not 0 <= min(row) <= max(row) < width:
                raise FileError(f"{path}: column {max(row)} of rows with {width}")
            columns.extend(sorted(row))
            values.extend(row[column] for column in sorted(row))
            ends.append(len(columns))
    matrix = nd.sparse.csr_matrix((np.array(values, np.float32), np.array(columns, np.int64), np.array(ends)), shape=(len(labels), width))
    return np.array(labels, np.float32), matrix


class LibSVMIter(NDArrayIter):
    """Batches of csr rows of a file in LibSVM's form, indices from 0 on; labels are its own or those of another file."""

    def __init__(self, data_libsvm, data_shape, label_libsvm=None, label_shape=(1,), batch_size=1, round_batch=True, **kwargs):
        labels, matrix = _read_libsvm(data_libsvm, int(np.prod(data_shape)))
        if label_libsvm is not None:
            labels = _read_libsvm(label_libsvm, int(np.prod(label_shape)))[1].asnumpy()
        labels = labels.reshape(len(matrix), *([] if tuple(np.atleast_1d(label_shape)) == (1,) else np.atleast_1d(label_shape)))
        super().__init__(matrix, labels, batch_size, last_batch_handle="pad" if round_batch else "discard", label_name="label")


def read_idx(path):
    """The array of an IDX file, gzipped or not, as MNIST has it."""
    return _core.read_idx(str(path)).asnumpy()


class MNISTIter(NDArrayIter):
    """Batches of MNIST."""

    def __init__(self, image="train-images-idx3-ubyte", label="train-labels-idx1-ubyte", batch_size=128, shuffle=True, flat=False, num_parts=1,
                 part_index=0, **kwargs):
        pixels, labels = read_idx(image), read_idx(label)
        part = slice(len(pixels) * part_index // num_parts, len(pixels) * (part_index + 1) // num_parts)
        pixels = pixels[part].astype(np.float32) / 255
        pixels = pixels.reshape(len(pixels), -1) if flat else pixels[:, None]
        super().__init__(pixels, labels[part].astype(np.float32), batch_size, shuffle, "discard")


class ImageRecordIter(DataIter):
    """Batches of the images of a RecordIO file, cut, mirrored and normalised on the way."""

    def __init__(self, path_imgrec, data_shape, batch_size, label_width=1, shuffle=False, resize=-1, rand_crop=False, rand_mirror=False,
                 mean_r=0, mean_g=0, mean_b=0, std_r=1, std_g=1, std_b=1, scale=1, data_name="data", label_name="softmax_label", round_batch=True,
                 num_parts=1, part_index=0, **kwargs):
        from .. import image
        super().__init__(batch_size)
        changes = image.CreateAugmenter(data_shape, max(resize, 0), bool(rand_crop), rand_mirror=bool(rand_mirror))
        mean, std = np.array([mean_r, mean_g, mean_b], np.float32), np.array([std_r, std_g, std_b], np.float32) / scale
        if mean.any() or (std != 1).any():
            changes.append(image.ColorNormalizeAug(nd.array(mean), nd.array(std)))
        self._images = image.ImageIter(batch_size, data_shape, label_width, path_imgrec, shuffle=shuffle, aug_list=changes, num_parts=num_parts,
                                       part_index=part_index, data_name=data_name, label_name=label_name,
                                       last_batch_handle="pad" if round_batch else "discard")
        self.provide_data, self.provide_label = self._images.provide_data, self._images.provide_label

    def reset(self):
        self._images.reset()

    def next(self):
        return self._images.next()


class ImageRecordUInt8Iter(ImageRecordIter):
    """Images as whole numbers from 0 to 255, not normalised."""

    _dtype, _least = "uint8", 0

    def __init__(self, path_imgrec, data_shape, batch_size, **kwargs):
        for name in ("mean_r", "mean_g", "mean_b", "std_r", "std_g", "std_b", "scale"):
            if name in kwargs:
                raise ValueError(f"{type(self).__name__}: whole numbers are not normalised; {name} belongs to ImageRecordIter")
        super().__init__(path_imgrec, data_shape, batch_size, **kwargs)
        self.provide_data = [DataDesc(d.name, d.shape, np.dtype(self._dtype), d.layout) for d in self.provide_data]

    def next(self):
        batch = super().next()
        batch.data = [(x + self._least).astype(self._dtype) for x in batch.data]
        return batch


class ImageRecordInt8Iter(ImageRecordUInt8Iter):
    """Images as whole numbers from -128 to 127."""

    _dtype, _least = "int8", -128


ImageRecordIter_v1, ImageRecordUInt8Iter_v1 = ImageRecordIter, ImageRecordUInt8Iter
