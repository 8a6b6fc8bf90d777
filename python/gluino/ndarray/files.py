"""Arrays in files, and in other frameworks' memory."""
from .. import _core
from .ndarray import NDArray, array

__all__ = ["load", "save", "loads", "load_frombuffer", "from_numpy", "from_dlpack", "to_dlpack_for_read", "to_dlpack_for_write"]


def save(fname, data):
    """Writes an array, a list or a dictionary of arrays, as MXNet 1.9 reads it (.npz and .npy by their endings)."""
    if isinstance(data, NDArray):
        data = [data]
    if isinstance(data, dict):
        items = [(str(key), value) for key, value in data.items()]
    elif isinstance(data, (list, tuple)):
        items = [("", value) for value in data]
    else:
        raise ValueError(f"data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays, not {type(data)}")
    for _, value in items:
        if not isinstance(value, NDArray):
            raise TypeError(f"save only accepts dict str->NDArray or list of NDArray, not a {type(value)} inside")
    _core.save_tensors(str(fname), [(name, value, value._sparse_parts) for name, value in items])


def _collected(items):
    from .sparse import from_parts
    arrays = [(name, value if parts is None else from_parts(value, *parts)) for name, value, parts in items]
    return dict(arrays) if any(name for name, _ in arrays) else [value for _, value in arrays]


def load(fname):
    """Reads what save() or any MXNet wrote: a dictionary when the arrays have names, else a list."""
    return _collected(_core.load_tensors(str(fname), False))


def load_as_numpy(fname):
    """The same as arrays of mx.np, which may have no axes."""
    return _collected(_core.load_tensors(str(fname), True))


def load_frombuffer(buf):
    """Reads the bytes of such a file."""
    return _collected(_core.read_tensors(bytes(buf)))


loads = load_frombuffer


def from_numpy(ndarray, zero_copy=True, array_cls=None):
    """An array with the values and the dtype of a NumPy array, copied; zero_copy=True makes the source read-only, as in MXNet."""
    made = array(ndarray, dtype=ndarray.dtype)
    if zero_copy:
        ndarray.flags.writeable = False
    return made if array_cls in (None, NDArray) else made.as_np_ndarray()


def from_dlpack(dlpack):
    """An array that shares memory with another framework's."""
    return _core.from_dlpack(dlpack.__dlpack__() if hasattr(dlpack, "__dlpack__") else dlpack)


def to_dlpack_for_read(data):
    """A DLPack capsule of the array."""
    return _core.to_dlpack(data)


to_dlpack_for_write = to_dlpack_for_read
