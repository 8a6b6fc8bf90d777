"""Datasets: things with a length and items by number."""
import os

from ... import ndarray as nd

__all__ = ["Dataset", "SimpleDataset", "ArrayDataset", "RecordFileDataset"]


class Dataset:
    """The base of datasets."""

    def __getitem__(self, idx):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError

    def filter(self, fn):
        """The items for which fn holds."""
        return SimpleDataset([self[i] for i in range(len(self)) if fn(self[i])])

    def shard(self, num_shards, index):
        """One of several parts."""
        if not 0 <= index < num_shards:
            raise AssertionError(f"Index must be between 0 and num_shards-1. Got num_shards={num_shards} and index={index}.")
        size, more = divmod(len(self), num_shards)
        start = size * index + min(index, more)
        return _Part(self, range(start, start + size + (index < more)))

    def take(self, count):
        """The first items."""
        return _Part(self, range(len(self) if count is None else min(count, len(self))))

    def sample(self, sampler):
        """The items that a sampler names."""
        return _Part(self, list(sampler))

    def transform(self, fn, lazy=True):
        """fn of every item."""
        made = _Transformed(self, fn)
        return made if lazy else SimpleDataset([made[i] for i in range(len(made))])

    def transform_first(self, fn, lazy=True):
        """fn of the first part of every item."""
        return self.transform(_First(fn), lazy)


class _First:
    def __init__(self, fn):
        self._fn = fn

    def __call__(self, x, *args):
        return (self._fn(x), *args) if args else self._fn(x)


class _Part(Dataset):
    def __init__(self, data, numbers):
        self._data, self._numbers = data, numbers

    def __len__(self):
        return len(self._numbers)

    def __getitem__(self, idx):
        return self._data[self._numbers[idx]]


class _Transformed(Dataset):
    def __init__(self, data, fn):
        self._data, self._fn = data, fn

    def __len__(self):
        return len(self._data)

    def __getitem__(self, idx):
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)


class SimpleDataset(Dataset):
    """A list as a dataset."""

    def __init__(self, data):
        self._data = data

    def __len__(self):
        return len(self._data)

    def __getitem__(self, idx):
        return self._data[idx]


class ArrayDataset(Dataset):
    """Arrays of the same length, item by item."""

    def __init__(self, *args):
        if not args:
            raise AssertionError("Needs at least 1 arrays")
        self._length = len(args[0])
        self._data = []
        for i, data in enumerate(args):
            if len(data) != self._length:
                raise AssertionError(f"All arrays must have the same length; array[0] has length {self._length} while array[{i}] has {len(data)}.")
            self._data.append(data.asnumpy() if isinstance(data, nd.NDArray) and data.ndim == 1 else data)

    def __len__(self):
        return self._length

    def __getitem__(self, idx):
        return self._data[0][idx] if len(self._data) == 1 else tuple(data[idx] for data in self._data)


class _DownloadedDataset(Dataset):
    """What a class derived from it reads in _get_data(), into _data and _label; other libraries derive theirs."""

    def __init__(self, root, transform):
        self._root, self._transform, self._data, self._label = os.path.expanduser(root), transform, None, None
        os.makedirs(self._root, exist_ok=True)
        self._get_data()

    def _get_data(self):
        raise NotImplementedError(f"{type(self).__name__} must define _get_data")

    def __len__(self):
        return len(self._label)

    def __getitem__(self, idx):
        return self._transform(self._data[idx], self._label[idx]) if self._transform is not None else (self._data[idx], self._label[idx])


class RecordFileDataset(Dataset):
    """The records of a RecordIO file with an index."""

    def __init__(self, filename):
        from ...recordio import MXIndexedRecordIO
        self.filename, self.idx_file = filename, os.path.splitext(filename)[0] + ".idx"
        self._record = MXIndexedRecordIO(self.idx_file, filename, "r")
        if not os.path.isfile(self.idx_file):
            self._record.make_index()

    def __len__(self):
        return len(self._record.keys)

    def __getitem__(self, idx):
        return self._record.read_idx(self._record.keys[idx])
