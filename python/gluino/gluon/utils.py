"""Helpers for training loops."""
import hashlib
import os

from .. import _core
from .. import ndarray as nd

__all__ = ["split_data", "split_and_load", "clip_global_norm", "check_sha1", "download"]


def split_data(data, num_slice, batch_axis=0, even_split=True):
    """Parts of a batch."""
    size = data.shape[batch_axis]
    if size < num_slice:
        raise ValueError(f"Too many slices for data with shape {data.shape}. Arguments are num_slice={num_slice} and batch_axis={batch_axis}.")
    if even_split and size % num_slice:
        raise ValueError(f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along axis {batch_axis}. Use a batch size "
                         "that's multiple of the number of devices, or set even_split=False to allow uneven partitioning of data.")
    step = size // num_slice
    ends = [step * i for i in range(num_slice)] + [size]
    return [nd.slice_axis(data, axis=batch_axis, begin=b, end=e) for b, e in zip(ends, ends[1:])]


def split_and_load(data, ctx_list, batch_axis=0, even_split=True):
    """Parts of a batch, one on each context."""
    if not isinstance(data, nd.NDArray):
        data = nd.array(data, ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    return [part.as_in_context(ctx) for part, ctx in zip(split_data(data, len(ctx_list), batch_axis, even_split), ctx_list)]


def clip_global_norm(arrays, max_norm, check_isfinite=True):
    """Rescales arrays so that their common norm is at most max_norm; gives the norm."""
    if not arrays:
        raise AssertionError("at least one array is needed")
    total = sum(float((array * array).sum().asscalar()) for array in arrays) ** 0.5
    if check_isfinite and not total < float("inf"):
        import warnings
        warnings.warn("nan or inf is detected. Clipping results will be undefined.", stacklevel=2)
    if total > max_norm:
        for array in arrays:
            array *= max_norm / (total + 1e-8)
    return total


def check_sha1(filename, sha1_hash):
    """Whether a file has this SHA-1."""
    digest = hashlib.sha1()
    with open(filename, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest() == sha1_hash


def download(url, path=None, overwrite=False, sha1_hash=None, retries=5, verify_ssl=True):
    """Fetches a file, unless it is there already."""
    import urllib.request
    name = os.path.basename(url)
    target = name if path is None else os.path.join(path, name) if os.path.isdir(path) else path
    if overwrite or not os.path.exists(target) or (sha1_hash and not check_sha1(target, sha1_hash)):
        os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
        file = _core.AtomicFile(target)  # a download that breaks off must not pass for the file
        with urllib.request.urlopen(url) as source:
            for block in iter(lambda: source.read(1 << 20), b""):
                file.write(block)
        file.commit()
    return target
