"""Block: networks written imperatively."""
import json
import re
import warnings

from .. import _core
from .. import ndarray as nd
from ..base import MXNetError
from ._scope import BlockScope, HookHandle, Parts
from .parameter import Parameter
from .parameter_dict import ParameterDict, load_by_name

__all__ = ["Block", "HybridBlock"]  # noqa: F822 - HybridBlock is looked up when asked for

_ABSENT = object()


class Block:
    """A part of a network: define forward(self, *args)."""

    # Attributes that say nothing about what a block computes: compiled programs do not depend on them.
    _unwatched = frozenset({"_empty_prefix", "_prefix", "_params", "_name", "_scope_counts", "_children", "_reg_params", "_forward_hooks",
                            "_forward_pre_hooks", "_active", "_flags", "_cache", "_cache_epoch", "_in_format", "_out_format"})

    def __init__(self, prefix=None, params=None):
        self._empty_prefix = prefix == ""
        self._prefix, self._params = BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix[:-1] if self._prefix.endswith("_") else self._prefix
        self._scope_counts = {}  # of the names given in name_scope(), by kind of block
        self._children, self._reg_params = Parts(), Parts()
        self._forward_hooks, self._forward_pre_hooks = [], []

    def _alias(self):
        return type(self).__name__.lower()

    def __repr__(self):
        lines = "\n".join(f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self._children.items())
        return f"{type(self).__name__}(\n{lines}\n)"

    def __setattr__(self, name, value):
        existing = self.__dict__.get(name, _ABSENT)
        if "_children" in self.__dict__:
            if isinstance(existing, (Parameter, Block)) and not isinstance(value, type(existing)) and not isinstance(existing, type(value)):
                raise TypeError(f"Changing attribute type for {name} from {type(existing)} to {type(value)}is not allowed.")
            if isinstance(value, Block):
                self.register_child(value, name)
            elif isinstance(value, Parameter):
                if name in self._reg_params and self._reg_params[name] is not value:
                    raise AssertionError(f"Overriding Parameter attribute {name} is not allowed. If you want to share parameters between blocks, "
                                         "please set 'params' at Block construction instead.")
                self._reg_params[name] = value
            if name not in self._unwatched:
                _note_change(self, name, existing, value)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        _core.attribute_written(self, name, _ABSENT)
        _core.structure_changed()
        object.__delattr__(self, name)

    # ---- names and parameters

    @property
    def prefix(self):
        return self._prefix

    @property
    def name(self):
        return self._name

    def name_scope(self):
        """A `with` scope in which new blocks and parameters get this block's prefix."""
        return BlockScope(self)

    _scope = property(name_scope)

    @property
    def params(self):
        """The parameters of this block itself, not of its children."""
        return self._params

    def collect_params(self, select=None):
        """The parameters of this block and all below, or those whose names match a pattern."""
        self._warn_of_hidden_blocks()
        found = ParameterDict(self._params.prefix)
        pattern = re.compile(select) if select else None
        for parameter in self._own_and_children():
            if pattern is None or pattern.match(parameter.name):
                found._params.setdefault(parameter.name, parameter)
        return found

    def _warn_of_hidden_blocks(self):
        """Blocks in lists and dictionaries are not children: their parameters are neither learnt nor saved."""
        children = set(self._children.values())
        for name, value in self.__dict__.items():
            if name not in ("_children", "_reg_params") and isinstance(value, (list, tuple, dict)) and _hides_block(value, children):
                warnings.warn(f"'{type(self).__name__}.{name}' is a container with Blocks that are not registered: call register_child, or "
                              "put them into a Sequential", stacklevel=3)

    def _own_and_children(self):
        yield from self._params.values()
        yield from self._reg_params.values()
        for child in self._children.values():
            yield from child._own_and_children()

    def _collect_params_with_prefix(self, prefix=""):
        if prefix:
            prefix += "."
        found = {prefix + name: parameter for name, parameter in self._reg_params.items()}
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(prefix + name))
        return found

    def register_child(self, block, name=None):
        """Adds a child."""
        self._children[str(len(self._children)) if name is None else name] = block
        _core.structure_changed()

    def apply(self, fn):
        """Calls fn for all blocks below, then for this one."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def initialize(self, init=None, ctx=None, verbose=False, force_reinit=False, device=None):
        """Initialises all parameters."""
        self.collect_params().initialize(init, ctx or device, verbose, force_reinit)

    def cast(self, dtype):
        """Changes the element type of all parameters."""
        for child in self._children.values():
            child.cast(dtype)
        for parameter in self._params.values():
            parameter.cast(dtype)

    def zero_grad(self):
        """Sets all gradients to 0."""
        self.collect_params().zero_grad()

    def setattr(self, name, value):
        """Sets an attribute of all parameters."""
        self.collect_params().setattr(name, value)

    reset_ctx = reset_device = lambda self, ctx: self.collect_params().reset_ctx(ctx)

    def share_parameters(self, shared):
        """Uses the parameters of another block of the same structure."""
        own = self._collect_params_with_prefix()
        for name, parameter in shared.items():
            if name in own:
                *path, leaf = name.split(".")
                owner = self
                for part in path:
                    owner = owner._children[part]
                owner._reg_params[leaf] = parameter
                object.__setattr__(owner, leaf, parameter)
        return self

    # ---- files

    def save_parameters(self, filename, deduplicate=False):
        """Writes the parameters by where they stand: 0.weight."""
        params = self._collect_params_with_prefix()
        if deduplicate:
            params = {name: p for p, name in {p: name for name, p in reversed(list(params.items()))}.items()}
        nd.save(filename, {name: p.data(p.list_ctx()[0]).as_nd_ndarray() for name, p in params.items()})

    def save_params(self, filename):
        """Writes the parameters by name, without this block's prefix."""
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_parameters(self, filename, ctx=None, allow_missing=False, ignore_extra=False, cast_dtype=False, dtype_source="current", device=None):
        """Reads parameters by where they stand, by name, or from an exported model."""
        loaded, ctx = nd.load(filename), ctx or device
        params = self._collect_params_with_prefix()
        if not loaded and not params:
            return
        if not isinstance(loaded, dict) and len(loaded) == len(params) == 1:  # MXNet gives the only parameter of a SymbolBlock an empty name
            loaded = dict(zip(params, loaded))
        if not isinstance(loaded, dict):
            raise ValueError(f"'{filename}' holds arrays without names")
        if not any("." in name for name in loaded) and not all(name in params for name in loaded):
            self.collect_params().load(filename, ctx, allow_missing, ignore_extra, self._restore_prefix(loaded), cast_dtype, dtype_source)
            return
        load_by_name(params, loaded, filename, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source)

    def _restore_prefix(self, loaded):
        known = self.collect_params()
        return "" if any(n in known or n[4:] in known for n in loaded) else self.prefix

    load_params = load_parameters

    def save(self, prefix):
        """Writes prefix-model.json, the classes of the blocks as they stand below each other, and prefix-model.params."""
        def described(block):
            return {"class": type(block).__name__, "children": {name: described(child) for name, child in block._children.items()}}
        values = {name: p.data(p.list_ctx()[0]).as_nd_ndarray() for name, p in self._collect_params_with_prefix().items()}
        _core.write_files([(f"{prefix}-model.params", _core.write_params([(name, value, value._sparse_parts) for name, value in values.items()])),
                           (f"{prefix}-model.json", json.dumps(described(self), indent=2).encode())])

    def load(self, prefix):
        """Reads the parameters that save() wrote for a network of the same structure."""
        load_by_name(self._collect_params_with_prefix(), dict(nd.load(f"{prefix}-model.params")), f"{prefix}-model.params", None, False, False, False,
                     "current")

    def load_dict(self, param_dict, ctx=None, allow_missing=False, ignore_extra=False, cast_dtype=False, dtype_source="current"):
        """Takes parameters from a dictionary by where they stand."""
        load_by_name(self._collect_params_with_prefix(), param_dict, "param_dict", ctx, allow_missing, ignore_extra, cast_dtype, dtype_source)

    # ---- calling

    def register_forward_pre_hook(self, hook):
        """Calls hook(block, inputs) before every call."""
        self._forward_pre_hooks.append(hook)
        _core.structure_changed()
        return HookHandle(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook):
        """Calls hook(block, inputs, outputs) after every call."""
        self._forward_hooks.append(hook)
        _core.structure_changed()
        return HookHandle(self._forward_hooks, hook)

    def register_op_hook(self, callback, monitor_all=False):
        """Calls callback(node, operator, array) for what the operators of hybridized blocks below give, and with monitor_all for what they get."""
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def __call__(self, *args, **kwargs):
        try:
            if self._forward_pre_hooks or self._forward_hooks:
                return self._between_hooks(self.forward, args, kwargs)
            return self.forward(*args, **kwargs)
        except MXNetError as error:
            raise located(error, self)

    def _between_hooks(self, function, args, kwargs):
        for hook in list(self._forward_pre_hooks):
            hook(self, args)
        out = function(*args, **kwargs)
        for hook in list(self._forward_hooks):
            hook(self, args, out)
        return out

    def forward(self, *args):
        """What the block computes."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def hybridize(self, active=True, **kwargs):
        """Compiles the hybrid blocks below."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def summary(self, *inputs):
        """Prints output shapes and parameter counts, layer by layer."""
        from ._summary import summarize
        summarize(self, inputs)


def _hides_block(x, children):
    if isinstance(x, Block):
        return x not in children
    return isinstance(x, (list, tuple, dict)) and any(_hides_block(item, children) for item in (x.values() if isinstance(x, dict) else x))


def _note_change(block, name, existing, value):
    """Compiled programs look again at what they depend on."""
    _core.attribute_written(block, name, value)
    if existing is _ABSENT or isinstance(value, (Block, list, tuple, dict)) or callable(value):
        _core.structure_changed()
    else:
        _core.attribute_changed()


def located(error, block):
    """The same error, saying in which block it happened: the innermost names itself."""
    if error.args and isinstance(error.args[0], str) and not getattr(error, "is_located", False):
        error.args = (f"{error.args[0]} (in {block.name}, a {type(block).__name__})", *error.args[1:])
        error.is_located = True
    return error


_ELSEWHERE = {"HybridBlock": ("hybrid_block", "HybridBlock"), "SymbolBlock": ("symbol_block", "SymbolBlock"),
              "_flatten": ("_structure", "flatten"), "_regroup": ("_structure", "regroup")}


def __getattr__(name):  # MXNet has these in this module
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module
    module, name_there = _ELSEWHERE[name]
    return getattr(import_module(f".{module}", __package__), name_there)
