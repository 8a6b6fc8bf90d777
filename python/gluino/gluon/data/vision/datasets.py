"""Datasets of images, from files on disk."""
import os
import pickle

import numpy as np

from .... import image
from ....base import FileError, data_dir
from ....io import read_idx
from ....util import default_array, is_np_array
from ..dataset import Dataset, RecordFileDataset

__all__ = ["MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "ImageRecordDataset", "ImageFolderDataset"]


class _OnlyArrays(pickle.Unpickler):
    """A pickle runs the functions that it names: here none but those that make arrays."""

    _allowed = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype"),
                ("_codecs", "encode")}

    def find_class(self, module, name):
        if (module, name) not in self._allowed:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which makes no array")
        return super().find_class(module, name)


def _read_arrays(path):
    """The dictionary of one of CIFAR's Python files."""
    with open(path, "rb") as file:
        try:
            content = _OnlyArrays(file, encoding="latin1").load()
        except Exception as error:
            raise FileError(f"{path}: not a file of CIFAR: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("data"), np.ndarray):
        raise FileError(f"{path}: not a file of CIFAR: it has no data")
    return content


class _Stored(Dataset):
    """Images and labels in memory, with a transform of each pair."""

    _name = None  # of the folder where MXNet keeps the files

    def __init__(self, root, train, transform):
        self._root = os.path.expanduser(root or os.path.join(data_dir(), "datasets", self._name))
        self._train, self._transform = train, transform
        self._data, self._label = self._read()
        if is_np_array():  # as MXNet has it: NumPy's otherwise
            self._label = default_array(self._label, dtype=self._label.dtype)

    def __len__(self):
        return len(self._label)

    def __getitem__(self, idx):
        data = default_array(self._data[idx], dtype=self._data.dtype)
        return self._transform(data, self._label[idx]) if self._transform is not None else (data, self._label[idx])

    def _file(self, *names):
        for name in names:
            path = os.path.join(self._root, name)
            if os.path.exists(path):
                return path
        raise FileNotFoundError(f"{self._root} has no {names[0]}, and nothing is downloaded; put the files of the data set there, or say root=")


class MNIST(_Stored):
    """Digits, from IDX files, gzipped or not, in `root`."""

    _name = "mnist"

    def __init__(self, root=None, train=True, transform=None):
        super().__init__(root, train, transform)

    def _read(self):
        part = "train" if self._train else "t10k"
        names = (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte")
        images, labels = (read_idx(self._file(name + ".gz", name)) for name in names)
        return images[..., None], labels.astype(np.int32)


class FashionMNIST(MNIST):
    """Clothes, in the same format."""

    _name = "fashion-mnist"

    def __init__(self, root=None, train=True, transform=None):
        super().__init__(root, train, transform)


class CIFAR10(_Stored):
    """Small photographs, from the binary or the Python files in `root`."""

    def __init__(self, root=None, train=True, transform=None):
        super().__init__(root, train, transform)

    _name, _labels, _bytes = "cifar10", "labels", 1

    def _names(self):
        return [f"data_batch_{i}" for i in range(1, 6)] if self._train else ["test_batch"]

    def _read(self):
        images, labels = [], []
        for name in self._names():
            path = self._file(name + ".bin", name, os.path.join("cifar-10-batches-bin", name + ".bin"), os.path.join("cifar-10-batches-py", name))
            if path.endswith(".bin"):
                rows = np.fromfile(path, np.uint8).reshape(-1, 3072 + self._bytes)
                labels.append(rows[:, self._bytes - 1])
                images.append(rows[:, self._bytes:])
            else:
                content = _read_arrays(path)
                labels.append(np.asarray(content[self._labels]))
                images.append(content["data"])
        return np.concatenate(images).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), np.concatenate(labels).astype(np.int32)


class CIFAR100(CIFAR10):
    """The same with 100 classes."""

    _name = "cifar100"

    def __init__(self, root=None, fine_label=False, train=True, transform=None):
        self._labels, self._bytes = ("fine_labels" if fine_label else "coarse_labels"), 2
        super().__init__(root, train, transform)

    def _names(self):
        return ["train" if self._train else "test"]


class ImageRecordDataset(RecordFileDataset):
    """Images and labels of a RecordIO file."""

    def __init__(self, filename, flag=1, transform=None):
        super().__init__(filename)
        self._flag, self._transform = flag, transform

    def __getitem__(self, idx):
        from ....recordio import unpack
        header, data = unpack(super().__getitem__(idx))
        picture = image.imdecode(data, self._flag)
        return self._transform(picture, header.label) if self._transform is not None else (picture, header.label)


class ImageFolderDataset(Dataset):
    """One folder per class."""

    def __init__(self, root, flag=1, transform=None):
        self._root, self._flag, self._transform = os.path.expanduser(root), flag, transform
        self.synsets = sorted(name for name in os.listdir(self._root) if os.path.isdir(os.path.join(self._root, name)))
        self.items = [(os.path.join(self._root, name, file), label) for label, name in enumerate(self.synsets)
                      for file in sorted(os.listdir(os.path.join(self._root, name))) if file.lower().endswith((".jpg", ".jpeg", ".png"))]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        path, label = self.items[idx]
        picture = image.imread(path, self._flag)
        return self._transform(picture, label) if self._transform is not None else (picture, label)
