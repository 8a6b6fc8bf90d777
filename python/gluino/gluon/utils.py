"""Helpers for training loops."""
import hashlib
import os

from .. import _core
from .. import ndarray as nd
from ..util import default_array, is_np_shape

__all__ = ["split_data", "split_and_load", "clip_global_norm", "check_sha1", "download", "replace_file", "HookHandle", "shape_is_known"]


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
    return [data._like_self(nd.slice_axis(data, axis=batch_axis, begin=b, end=e)) for b, e in zip(ends, ends[1:])]


def split_and_load(data, ctx_list, batch_axis=0, even_split=True):
    """Parts of a batch, one on each context."""
    if not isinstance(data, nd.NDArray):
        data = default_array(data, ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    return [part.as_in_context(ctx) for part, ctx in zip(split_data(data, len(ctx_list), batch_axis, even_split), ctx_list)]


def clip_global_norm(arrays, max_norm, check_isfinite=True):
    """Rescales arrays so that their common norm is at most max_norm; gives the norm."""
    if not arrays:
        raise AssertionError("at least one array is needed")
    stored = [array if array.stype == "default" else array.data for array in arrays]  # what is not stored is zero
    total = sum(float((array * array).sum().asscalar()) for array in stored if array.size) ** 0.5
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


def _get_repo_url():
    """Where weights and data sets are fetched from: MXNET_GLUON_REPO, or MXNet's repository."""
    url = os.environ.get("MXNET_GLUON_REPO", "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/")
    return url if url.endswith("/") else url + "/"


def _get_repo_file_url(namespace, filename):
    """The address of a file there."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def replace_file(src, dst):
    """Puts a file in the place of another one, at once."""
    os.replace(src, dst)


def download(url, path=None, overwrite=False, sha1_hash=None, retries=5, verify_ssl=True):
    """Fetches a file, unless it is there already."""
    import ssl
    import urllib.request
    name = url.split("/")[-1]
    target = os.path.expanduser(name if path is None else os.path.join(path, name) if os.path.isdir(os.path.expanduser(path)) else path)
    if not overwrite and os.path.exists(target) and (not sha1_hash or check_sha1(target, sha1_hash)):
        return target
    if retries < 0:
        raise AssertionError(f"Number of retries should be at least 0, currently it's {retries}")
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    context = None if verify_ssl or not url.startswith("https") else ssl._create_unverified_context()
    for left in range(retries, -1, -1):
        try:
            digest, file = hashlib.sha1(), _core.AtomicFile(target)  # a download that breaks off must not pass for the file
            with urllib.request.urlopen(url, context=context) as source:
                for block in iter(lambda: source.read(1 << 20), b""):
                    digest.update(block)
                    file.write(block)
            if sha1_hash and digest.hexdigest() != sha1_hash:
                raise UserWarning(f"File {name} is downloaded but the content hash does not match. The repo may be outdated or download may be incomplete.")
            file.commit()
            break
        except Exception:
            if not left:
                raise
    return target


def shape_is_known(shape):
    """Whether a shape and all its extents are known; 0 is an extent with NumPy's shapes, else it stands for an unknown one."""
    if shape is None:
        return False
    unknown = -1 if is_np_shape() else 0
    if len(shape) == 0:
        return unknown == -1
    return all(extent > unknown for extent in shape)


class HookHandle:
    """What takes a hook away again: detach()."""

    def __init__(self):
        self._hooks, self._key = None, None

    def attach(self, hooks_dict, hook):
        """Enters a hook into a dictionary."""
        if self._hooks is not None:
            raise AssertionError("The same handle cannot be attached twice.")
        self._hooks, self._key = hooks_dict, id(hook)
        hooks_dict[self._key] = hook

    def detach(self):
        """Takes it out."""
        if self._hooks is not None:
            self._hooks.pop(self._key, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.detach()


def _indent(text, spaces):
    """Further lines of a text, moved to the right."""
    first, *rest = text.split("\n")
    return "\n".join([first, *[" " * spaces + line for line in rest]])


def _brief_print_list(names, limit=7):
    """Names in quotes, those in the middle left out where there are many."""
    names = list(names)
    if len(names) > limit:
        return f"{_brief_print_list(names[:limit // 2], limit)}, ..., {_brief_print_list(names[-limit // 2:], limit)}"
    return ", ".join(f"'{name}'" for name in names)
