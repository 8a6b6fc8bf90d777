"""The states of an optimizer as bytes: numbers and text alone, so that reading them runs none of them.

The form is that of .params: an array "header" with JSON, and the arrays that it names by their numbers.
"""
import copy
import json
import math
import pickle

import numpy as np

from .. import _core, lr_scheduler
from .. import ndarray as nd
from ..base import FileError, MXNetError

__all__ = ["dump", "load"]

_FORMAT, _VERSION = "gluino states", 1
_PARAMS_MAGIC = b"\x12\x01\0\0\0\0\0\0"
# What belongs to the running process, or is written in another way.
_NOT_FIELDS = {"param_dict", "lr_scheduler", "_updates", "_narrow", "_index_update_count"}
_DEEPEST = 32


class _CannotBeWritten(Exception):
    """A value that is neither a number nor text, nor made of them and of arrays."""


class _Damaged(Exception):
    """A header that says what no writer wrote."""


# ---- values: plain ones as JSON has them, all others as [kind, content]

def _encode(value, arrays):
    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0:
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else ["float", repr(value)]
    if isinstance(value, (nd.NDArray, np.ndarray)):
        if isinstance(value, np.ndarray) and value.dtype.kind not in "fiub":
            raise _CannotBeWritten(f"an array of {value.dtype}")
        arrays.append(value if isinstance(value, nd.NDArray) else nd.array(value, dtype=value.dtype))
        return ["numpy" if isinstance(value, np.ndarray) else "array", len(arrays) - 1]
    if isinstance(value, (tuple, list)):
        return [type(value).__name__ if type(value) in (tuple, list) else "tuple", [_encode(item, arrays) for item in value]]
    if isinstance(value, (set, frozenset)):
        return ["set", [_encode(item, arrays) for item in sorted(value, key=repr)]]
    if isinstance(value, dict):
        return ["dict", [[_encode(key, arrays), _encode(item, arrays)] for key, item in value.items()]]
    raise _CannotBeWritten(f"a {type(value).__name__}")


def _decode(value, arrays, depth=0):
    if depth > _DEEPEST:
        raise _Damaged("values inside of values without end")
    if not isinstance(value, list):
        if isinstance(value, dict):
            raise _Damaged("an unknown value")
        return value
    if len(value) != 2 or not isinstance(value[0], str):
        raise _Damaged("an unknown value")
    kind, content = value
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind in ("array", "numpy"):
        if type(content) is not int or not 0 <= content < len(arrays):
            raise _Damaged(f"array {content} of {len(arrays)}")
        return arrays[content] if kind == "array" else arrays[content].asnumpy()
    if kind in ("tuple", "list", "set", "dict") and isinstance(content, list):
        items = [_decode(item, arrays, depth + 1) for item in content] if kind != "dict" else [
            tuple(_decode(part, arrays, depth + 1) for part in pair) for pair in content if isinstance(pair, list) and len(pair) == 2]
        try:
            return {"tuple": tuple, "list": list, "set": set, "dict": dict}[kind](items)
        except TypeError:  # a list as a key
            raise _Damaged("a key that cannot be one") from None
    raise _Damaged(f"an unknown value of kind {kind!r}")


# ---- optimizers and their schedules: the fields that are numbers or text

def _fields(thing):
    kept = {}
    for name, value in vars(thing).items():
        if name in _NOT_FIELDS:
            continue
        arrays = []
        try:
            kept[name] = _encode(value, arrays)
        except _CannotBeWritten:  # an object of the user's: the running one keeps its own
            continue
        if arrays:
            del kept[name]
    return kept


def _kind(value):
    return "number" if isinstance(value, (bool, int, float)) else type(value).__name__


def _set_fields(thing, fields):
    if not isinstance(fields, dict):
        raise _Damaged("fields that are none")
    values = {name: _decode(value, []) for name, value in fields.items() if name not in _NOT_FIELDS and name in vars(thing)}
    for name, value in values.items():
        old = getattr(thing, name)
        if value is not None and old is not None and _kind(value) != _kind(old):
            raise _Damaged(f"{name} of {type(thing).__name__} is a {_kind(value)} instead of a {_kind(old)}")
    vars(thing).update(values)


def _described_schedule(schedule):
    return None if schedule is None else {"class": type(schedule).__name__, "fields": _fields(schedule)}


def _restored_schedule(stored, running):
    """The running schedule, or one of the package's own, with the stored fields."""
    if stored is None:
        return None
    if not isinstance(stored, dict):
        raise _Damaged("a schedule that is none")
    name = stored.get("class")
    if running is None or type(running).__name__ != name:
        if name not in lr_scheduler.__all__:
            raise MXNetError(f"the states were saved with the learning-rate schedule {name}; give the optimizer one before loading them")
        running = object.__new__(getattr(lr_scheduler, name))
        fields = stored.get("fields")
        vars(running).update({field: None for field in fields} if isinstance(fields, dict) else {})
    else:
        running = copy.copy(running)  # the one of before stays as it is if something does not fit
    _set_fields(running, stored.get("fields"))
    return running


def _restore(optimizer, stored):
    if stored is None:
        return
    if not isinstance(stored, dict):
        raise _Damaged("an optimizer that is none")
    schedule = _restored_schedule(stored.get("schedule"), optimizer.lr_scheduler)
    _set_fields(optimizer, stored.get("fields"))
    optimizer.lr_scheduler = schedule
    optimizer._set_current_context(0)


# ---- the whole

def dump(states, optimizer, weights, with_optimizer):
    """Bytes of the states by key. `weights` has (name, shape) by key: whom the states belong to."""
    arrays = []
    try:
        encoded = [[key, _encode(state, arrays)] for key, state in states.items()]
    except _CannotBeWritten as problem:
        raise MXNetError(f"the states of {type(optimizer).__name__} hold {problem}, which a file of states cannot: arrays, numbers and text, and "
                         "tuples, lists and dictionaries of them, are possible") from None
    header = {"format": _FORMAT, "version": _VERSION, "class": type(optimizer).__name__, "states": encoded,
              "weights": [[key, name, list(shape)] for key, (name, shape) in weights.items()],
              "optimizer": {"fields": _fields(optimizer), "schedule": _described_schedule(optimizer.lr_scheduler)} if with_optimizer else None}
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    items = [("header", nd.array(text, dtype="uint8"), None)]
    items += [(str(i), array, array._sparse_parts) for i, array in enumerate(arrays)]
    return _core.write_params(items)


def _read(data, what):
    named = nd.load_frombuffer(data)
    if not isinstance(named, dict) or "header" not in named or named["header"].dtype != np.uint8:
        raise FileError(f"{what}: these are no states of an optimizer of this package; C++'s Trainer reads and writes its own")
    try:
        header = json.loads(named["header"].asnumpy().tobytes().decode())
    except (ValueError, RecursionError):
        raise _Damaged("the header is no JSON") from None
    if not isinstance(header, dict) or header.get("format") != _FORMAT or header.get("version") != _VERSION:
        raise _Damaged("the header is another's")
    arrays = [named.get(str(i)) for i in range(len(named) - 1)]
    if any(array is None for array in arrays):
        raise _Damaged("arrays are missing")
    return header, arrays


def _is_key(key):
    return isinstance(key, str) or type(key) is int


def _stored_weights(header):
    weights = {}
    for entry in header.get("weights", ()):
        if not isinstance(entry, list) or len(entry) != 3 or not _is_key(entry[0]) or not isinstance(entry[1], str) or not isinstance(entry[2], list):
            raise _Damaged("a weight that is none")
        weights[entry[0]] = entry[1], tuple(entry[2])
    return weights


def load(data, optimizer, what="states", allow_pickle=False):
    """(states, optimizer, weights) of what dump gave; the optimizer's fields are set where the bytes have them."""
    if not data.startswith(_PARAMS_MAGIC):
        if not data.startswith(b"\x80"):
            raise FileError(f"{what}: these are no states of an optimizer")
        if not allow_pickle:
            raise FileError(f"{what}: this is a pickle, as MXNet writes states; reading one runs the code that is in it. If you trust where it "
                            "comes from, pass allow_pickle=True, and save the states again")
        content = pickle.loads(data)
        states, optimizer = content if isinstance(content, tuple) and len(content) == 2 else (content, optimizer)
        return states, optimizer, {}
    try:
        header, arrays = _read(data, what)
        if header.get("class") != type(optimizer).__name__:
            raise MXNetError(f"{what}: the states are those of {header.get('class')}, but the optimizer here is {type(optimizer).__name__}")
        entries = header.get("states")
        if not isinstance(entries, list) or not all(isinstance(e, list) and len(e) == 2 and _is_key(e[0]) for e in entries):
            raise _Damaged("states that are none")
        states, weights = {key: _decode(state, arrays) for key, state in entries}, _stored_weights(header)
        _restore(optimizer, header.get("optimizer"))
    except _Damaged as problem:
        raise FileError(f"{what}: damaged: {problem}") from None
    return states, optimizer, weights
