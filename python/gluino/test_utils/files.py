"""Data of tests, from files that are there: nothing is fetched unless a program asks for a URL."""
import bz2
import gzip
import os
import zipfile

import numpy as np

from ..base import data_dir
from ..io import DataIter, MNISTIter, read_idx

__all__ = ["get_mnist", "get_mnist_iterator", "get_mnist_pkl", "get_mnist_ubyte", "get_cifar10", "get_zip_data", "get_bz2_data", "get_im2rec_path",
           "download", "download_model", "DummyIter"]

_MNIST = {"train": "train", "test": "t10k"}


def _mnist_file(path, name):
    kept = os.path.join(data_dir(), "datasets", "mnist")  # where Gluon's data set keeps the same files
    for folder in (path, kept):
        for found in (os.path.join(folder, name), os.path.join(folder, name + ".gz")):
            if os.path.exists(found):
                return found
    raise FileNotFoundError(f"neither {path} nor {kept} has {name}, gzipped or not; MNIST is not downloaded")


def get_mnist(path="data"):
    """MNIST's files in a folder as arrays: train_data, train_label, test_data and test_label."""
    arrays = {}
    for part, name in _MNIST.items():
        images = read_idx(_mnist_file(path, f"{name}-images-idx3-ubyte"))
        arrays[f"{part}_data"] = images[:, None].astype(np.float32) / 255
        arrays[f"{part}_label"] = read_idx(_mnist_file(path, f"{name}-labels-idx1-ubyte"))
    return arrays


def get_mnist_iterator(batch_size, input_shape, num_parts=1, part_index=0, path="data"):
    """(training, validation) iterators over MNIST's files in a folder; flat images for an input shape of one axis."""
    def made(name, shuffle):
        images, labels = (_mnist_file(path, f"{name}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
        return MNISTIter(image=images, label=labels, batch_size=batch_size, shuffle=shuffle, flat=len(input_shape) == 1, num_parts=num_parts,
                         part_index=part_index, input_shape=input_shape)
    return made("train", True), made("t10k", False)


def _needed(path, what):
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: not there, and {what} is not downloaded; put it there")


def get_mnist_ubyte():
    """Sees to it that the folder data has MNIST's files, unpacked: those that are gzipped are unpacked."""
    for part in _MNIST.values():
        for name in (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"):
            found = _mnist_file("data", name)
            if found.endswith(".gz"):
                with gzip.open(found) as source, open(found[:-3], "wb") as target:
                    target.write(source.read())


def get_mnist_pkl():
    """Sees to it that data/mnist.pkl.gz is there."""
    _needed("data/mnist.pkl.gz", "MNIST")


def get_cifar10():
    """Sees to it that the folder data/cifar has train.rec and test.rec."""
    for name in ("train.rec", "test.rec"):
        _needed(os.path.join("data", "cifar", name), "CIFAR-10")


def get_im2rec_path(home_env="MXNET_HOME"):
    """The script im2rec.py below the folder that an environment variable names."""
    for folder in (os.environ.get(home_env), data_dir()):
        path = os.path.join(folder, "tools", "im2rec.py") if folder else ""
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(f"Could not find path to tools/im2rec.py; set {home_env} to a folder that has it")


def download(url, fname=None, dirname=None, overwrite=False, retries=5):
    """Fetches a file, unless it is there already; gives its path."""
    from ..gluon.utils import download as fetched
    path = url.split("/")[-1] if fname is None else fname
    if dirname is not None:
        os.makedirs(dirname, exist_ok=True)
        path = os.path.join(dirname, path)
    return fetched(url, path, overwrite=overwrite, retries=retries)


def download_model(model_name, dst_dir="./", meta_info=None):
    """Fetches the symbol and the parameters that meta_info names for a model; gives (prefix, epoch)."""
    if not meta_info or model_name not in meta_info:
        raise ValueError(f"meta_info knows no model {model_name}: it is a dictionary with 'symbol' and 'params', URLs, for each")
    prefix = os.path.join(dst_dir, model_name)
    download(meta_info[model_name]["symbol"], f"{prefix}-symbol.json")
    download(meta_info[model_name]["params"], f"{prefix}-0000.params")
    return prefix, 0


def get_zip_data(data_dir, url, data_origin_name):
    """Fetches an archive into a folder and unpacks it, unless it is there."""
    archive = os.path.join(data_dir, data_origin_name)
    if not os.path.exists(archive):
        download(url, dirname=data_dir, overwrite=False)
        with zipfile.ZipFile(archive) as file:
            file.extractall(path=data_dir)


def get_bz2_data(data_dir, data_name, url, data_origin_name):
    """Fetches a file into a folder and unpacks it, unless it is there."""
    target, packed = os.path.join(data_dir, data_name), os.path.join(data_dir, data_origin_name)
    if not os.path.exists(target):
        download(url, fname=packed, overwrite=False)
        with bz2.BZ2File(packed) as source, open(target, "wb") as file:
            file.writelines(iter(lambda: source.read(100 * 1024), b""))
        os.remove(packed)


class DummyIter(DataIter):
    """The first batch of another iterator, again and again."""

    def __init__(self, real_iter):
        super().__init__()
        self.real_iter, self.provide_data, self.provide_label = real_iter, real_iter.provide_data, real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(real_iter)

    def __iter__(self):
        return self

    def next(self):
        """The batch."""
        return self.the_batch
