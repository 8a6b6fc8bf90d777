"""What code may change besides arrays: remembered before it is traced, compared, and put back."""
import array
import collections
import contextvars
import functools
import types

import numpy as np

__all__ = ["PLAIN", "content_of", "contents", "snapshot"]

PLAIN = (int, float, complex, str, bytes, type(None))
_ABSENT = object()


def content_of(cell):
    """What a variable of a closure holds; None before it holds anything."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def contents(function):
    """What the variables of a closure hold, to be compared: containers and attributes by what stands in them, everything else by identity."""
    found, slots = {}, []
    for cell in getattr(function, "__closure__", None) or ():
        value = content_of(cell)
        found[id(cell)] = cell, (value,)
        _find(value.__dict__ if hasattr(type(value), "_unwatched") else value, found, slots, 0)
        for inner in getattr(value, "__closure__", None) or ():
            found[id(inner)] = inner, (content_of(inner),)
            _find(content_of(inner), found, slots, 0)
    return [(key, _parts(kept[1])) for key, kept in found.items() if kept] + [(name, id(value)) for _, name, value in slots]


def _parts(content):
    """Objects and numbers in what _find has kept of a container."""
    if isinstance(content, np.ndarray):
        return content.tobytes()
    return [part if isinstance(part, PLAIN) else id(part) for item in content for part in (item if isinstance(item, tuple) else (item,))]


def snapshot(places, values):
    """Remembers variables and everything changeable in them; the function that it gives puts them back, and has their numbers as `found`."""
    variables = [(owner, name, _value(owner, name)) for owner, name in places if not isinstance(owner, type)]
    # Of a class what stands there: a method is bound when it is asked for.
    members = [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name in places if isinstance(owner, type)]
    found, slots = {}, []
    for _, _, value in variables + members:
        _find(value, found, slots, 0)
    for value in values:
        _find(value, found, slots, 0)

    def put_back():
        for container, content in filter(None, found.values()):
            _fill(container, content)
        for owner, name, value in variables:
            if isinstance(owner, dict):
                owner[name] = value
            elif isinstance(owner, types.CellType):
                owner.cell_contents = value
        for owner, name, value in members:
            if vars(owner).get(name, _ABSENT) is value:
                continue
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        for owner, name, value in slots:
            if getattr(owner, name, _ABSENT) is not value:
                setattr(owner, name, value)
    put_back.found = found
    return put_back


def _value(owner, name):
    if isinstance(owner, dict):
        return owner.get(name)
    return content_of(owner) if isinstance(owner, types.CellType) else getattr(owner, name, None)


def _find(value, found, slots, depth):
    if depth > 8 or isinstance(value, PLAIN) or id(value) in found or len(found) > 4000:
        return
    if isinstance(value, (list, set, bytearray, collections.deque, array.array)):
        found[id(value)] = value, type(value)(value) if type(value) in (list, set, bytearray) else list(value)
        items = [*value] if isinstance(value, (list, collections.deque)) else []
        items.append(getattr(value, "__dict__", None))  # of a class derived from these
    elif isinstance(value, dict):
        found[id(value)] = value, list(value.items())
        items = [*value.values(), getattr(value, "__dict__", None)]
    elif isinstance(value, tuple):
        items = value
    elif isinstance(value, np.ndarray):
        found[id(value)] = value, value.copy()
        return
    elif isinstance(value, contextvars.ContextVar):
        try:
            content = value.get()
        except LookupError:
            return
        found[id(value)] = value, content
        items = (content,)
    elif isinstance(value, functools.partial):
        items = (value.func, value.args, value.keywords)
    elif isinstance(value, types.MethodType):
        items = (value.__self__,)
    elif isinstance(value, types.BuiltinFunctionType):
        items = () if isinstance(value.__self__, types.ModuleType) else (value.__self__,)
    elif not isinstance(value, (type, types.ModuleType)) and not hasattr(type(value), "_unwatched"):
        found[id(value)] = None
        items = _slots_of(value, slots)
        if hasattr(value, "__dict__"):
            items.append(value.__dict__)
    else:
        return
    for item in list(items):
        _find(item, found, slots, depth + 1)


def _slots_of(value, slots):
    """The contents of an object's __slots__; where they stand is added to `slots`."""
    items = []
    for base in type(value).__mro__:
        for name, member in list(vars(base).items()):
            if isinstance(member, types.MemberDescriptorType) and hasattr(value, name) and base.__flags__ & (1 << 9):
                items.append(getattr(value, name))
                slots.append((value, name, items[-1]))
    return items


def _fill(container, content):
    if isinstance(container, (list, bytearray)):
        container[:] = content
    elif isinstance(container, collections.deque):
        container.clear()
        container.extend(content)
    elif isinstance(container, array.array):
        container[:] = array.array(container.typecode, content)
    elif isinstance(container, dict):  # not by methods of derived classes, which may do something else: a Counter adds
        kind = collections.OrderedDict if isinstance(container, collections.OrderedDict) else dict
        kind.clear(container)
        for key, value in content:
            kind.__setitem__(container, key, value)
    elif isinstance(container, set):
        container.clear()
        container.update(content)
    elif isinstance(container, contextvars.ContextVar):
        container.set(content)
    elif container.flags.writeable:
        container[...] = content
