"""ParameterDict: parameters by name."""
import numpy as np

from .. import initializer
from .. import ndarray as nd
from ..base import dtype_name
from .parameter import Constant, Parameter

__all__ = ["ParameterDict", "load_by_name"]


def _check_constant(known, value):
    if not isinstance(known, Constant):
        raise AssertionError(f"Parameter '{known.name}' already exists but it is not a constant.")
    value = np.asarray(value.asnumpy() if hasattr(value, "asnumpy") else value)
    if known.shape != value.shape or (known.value.asnumpy() != value).any():
        raise AssertionError(f"Constant '{known.name}' already exists but its value doesn't match the new value")


class ParameterDict:
    """Parameters by name, all names with a prefix; get() makes them."""

    def __init__(self, prefix="", shared=None):
        self._prefix, self._shared, self._params = prefix, shared, {}

    def __repr__(self):
        name = f"{self._prefix} " if self._prefix else ""
        return f"{name}(\n" + "\n".join(f"  {p}" for p in self.values()) + "\n)"

    def __getitem__(self, key):
        return self._params[key]

    def __iter__(self):
        return iter(self._params)

    def __len__(self):
        return len(self._params)

    def __contains__(self, key):
        return key in self._params

    def items(self):
        return self._params.items()

    def keys(self):
        return self._params.keys()

    def values(self):
        return self._params.values()

    @property
    def prefix(self):
        return self._prefix

    def get(self, name, **kwargs):
        """The parameter prefix + name: an existing one that fits, or a new one."""
        name = self._prefix + name
        known = self._find(name)
        if known is None:
            known = self._params[name] = Parameter(name, **kwargs)
            return known
        for key, value in kwargs.items():
            if value is None:
                continue
            if key == "shape":
                known.shape = value
            elif key == "dtype" and dtype_name(value) != dtype_name(known.dtype):
                raise AssertionError(f"Cannot retrieve Parameter '{name}' because desired attribute does not match with stored for attribute "
                                     f"'dtype': desired '{value}' vs stored '{known.dtype}'.")
            elif getattr(known, key, None) is None:
                setattr(known, key, value)
        return known

    def _find(self, name):
        if name in self._params:
            return self._params[name]
        if self._shared is not None and name in self._shared:
            self._params[name] = self._shared[name]
            return self._params[name]
        return None

    def get_constant(self, name, value=None):
        """A constant of this name."""
        full = self._prefix + name
        known = self._find(full)
        if known is None:
            if value is None:
                raise KeyError(f"No constant named '{full}'. Please specify value if you want to create a new constant.")
            known = self._params[full] = Constant(full, value)
        elif value is not None:
            _check_constant(known, value)
        return known

    def update(self, other):
        """Takes over all parameters of another dictionary."""
        for name, parameter in other.items():
            if name in self._params and self._params[name] is not parameter:
                raise ValueError(f"Cannot update self with other because they have different Parameters with the same name '{name}'")
            self._params[name] = parameter

    def initialize(self, init=None, ctx=None, verbose=False, force_reinit=False, device=None):
        """Initialises all parameters."""
        init = initializer.create(init) or initializer.Uniform()
        for parameter in self.values():
            parameter.initialize(None, ctx or device, init, force_reinit=force_reinit)

    def zero_grad(self):
        """Sets all gradients to 0."""
        for parameter in self.values():
            parameter.zero_grad()

    def reset_ctx(self, ctx):
        """Moves all parameters."""
        for parameter in self.values():
            parameter.reset_ctx(ctx)

    def list_ctx(self):
        """All contexts in use."""
        return list(dict.fromkeys(ctx for parameter in self.values() for ctx in parameter.list_ctx()))

    def setattr(self, name, value):
        """Sets an attribute of all parameters: setattr('grad_req', 'null')."""
        for parameter in self.values():
            setattr(parameter, name, value)

    def save(self, filename, strip_prefix=""):
        """Writes all values by name."""
        values = {}
        for parameter in self.values():
            if not parameter.name.startswith(strip_prefix):
                raise ValueError(f"Prefix '{strip_prefix}' is to be striped before saving, but Parameter's name '{parameter.name}' does not start with it")
            values[parameter.name[len(strip_prefix):]] = parameter.data(parameter.list_ctx()[0]).as_nd_ndarray()
        nd.save(filename, values)

    def load(self, filename, ctx=None, allow_missing=False, ignore_extra=False, restore_prefix="", cast_dtype=False, dtype_source="current"):
        """Reads values by name."""
        self.load_dict(nd.load(filename), ctx, allow_missing, ignore_extra, restore_prefix, filename, cast_dtype, dtype_source)

    def load_dict(self, param_dict, ctx=None, allow_missing=False, ignore_extra=False, restore_prefix="", filename=None, cast_dtype=False,
                  dtype_source="current"):
        """Takes values by name from a dictionary."""
        loaded, filename = param_dict, filename or "param_dict"
        values = {restore_prefix + (n[4:] if n.startswith(("arg:", "aux:")) else n): v for n, v in loaded.items()}
        load_by_name(self, values, filename, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source)


def load_by_name(params, values, filename, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source):
    """Gives parameters their values; raises where names do not match."""
    if not allow_missing:
        stored = {id(params[name]) for name in params.keys() if name in values}  # one that has several names may be stored under one of them
        for name in params.keys():
            if name not in values and id(params[name]) not in stored:
                raise AssertionError(f"Parameter '{name}' is missing in file '{filename}', which contains parameters: {_brief(values)}. Please make "
                                     "sure source and target networks have the same prefix; set allow_missing=True to ignore missing parameters.")
    for name, value in values.items():
        if name in params.keys():
            params[name]._load(value, ctx, cast_dtype, dtype_source)
        elif not ignore_extra:
            raise ValueError(f"Parameter '{name}' loaded from file '{filename}' is not present in Dict, which contains parameters {_brief(params)}. "
                             "Set ignore_extra=True to ignore.")


def _brief(names):
    names = [f"'{name}'" for name in names]
    return ", ".join(names if len(names) < 8 else names[:4] + ["..."] + names[-3:])
