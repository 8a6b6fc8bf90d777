"""mx.contrib.amp: casts around operators, in programs and in symbols, and training with a scaled loss."""
import contextlib
import functools
import json
import logging
import os
import tempfile
import types

from ... import _core, ndarray, symbol
from ...base import MXNetError, dtype_name
from . import lists
from .loss_scaler import LossScaler

__all__ = ["init", "init_trainer", "scale_loss", "unscale", "convert_model", "convert_hybrid_block", "convert_bucketing_module", "convert_symbol",
           "list_lp16_ops", "list_fp32_ops", "list_lp16_fp32_ops", "list_conditional_fp32_ops", "list_widest_type_cast", "list_loss_output_functions",
           "list_lp16_use_fp32_params"]

_amp_initialized = False  # libraries ask for it
_amp_loss_scale_initialized, _loss_scaler = False, None  # the first trainer's
_target_dtype = None


def _checked(target_dtype):
    name = dtype_name(target_dtype)
    if name not in ("float16", "bfloat16"):
        raise ValueError(f"target_dtype is float16 or bfloat16, not {name}")
    return name


# ---- programs

def _is_value(x):
    return isinstance(x, (_core.Array, _core.SymbolBase))


def _cast_all(x, change):
    if isinstance(x, (list, tuple)):
        return type(x)(_cast_all(item, change) for item in x)
    return change(x) if _is_value(x) else x


def _to(dtype):
    def change(x):
        return x._call("amp_cast", dtype=dtype)
    return change


def _widened(function):
    @functools.wraps(function, assigned=("__name__", "__doc__"))
    def wrapped(*args, **kwargs):
        names = {getattr(x, "_dtype_name", "float32") for x in args if isinstance(x, _core.Array)}
        widest = next((name for name in ("float64", "float32") if name in names), None)
        if len(names) > 1 and widest:
            args = [_to(widest)(x) if isinstance(x, _core.Array) and "float" in x._dtype_name else x for x in args]
        return function(*args, **kwargs)
    return wrapped


def _cast_before(function, dtype, condition=None):
    @functools.wraps(function, assigned=("__name__", "__doc__"))
    def wrapped(*args, **kwargs):
        if condition is None or kwargs.get(condition[0]) in condition[1]:
            args = [_cast_all(x, _to(dtype)) for x in args]
            kwargs = {key: _cast_all(value, _to(dtype)) if key != "out" else value for key, value in kwargs.items()}
        return function(*args, **kwargs)
    return wrapped


def _wrap(names, make):
    from ..._register import _PLACES, place_of
    for package in (ndarray, symbol):
        for name in names:
            place, short = place_of(name, _PLACES) or ("", name)
            for module, known in ((getattr(package, place) if place else package, short), (package._internal, name)):
                if hasattr(module, known):
                    setattr(module, known, make(getattr(module, known)))


def init(target_dtype="float16", target_precision_ops=None, conditional_fp32_ops=None, fp32_ops=None):
    """From now on operators of blocks and programs cast their inputs: products to the low precision, sensitive ones to float32."""
    global _amp_initialized, _target_dtype
    target = _checked(target_dtype)
    if _amp_initialized:
        if _target_dtype != target:
            raise MXNetError(f"amp.init: {_target_dtype} is in use already; {target} needs another process")
        return
    logging.info("Using AMP")
    _amp_initialized, _target_dtype = True, target
    _wrap(lists.LOW if target_precision_ops is None else target_precision_ops, lambda f: _cast_before(f, target))
    _wrap(lists.FLOAT32 if fp32_ops is None else fp32_ops, lambda f: _cast_before(f, "float32"))
    for name, attribute, values in lists.CONDITIONAL_FLOAT32 if conditional_fp32_ops is None else conditional_fp32_ops:
        _wrap([name], lambda f, attribute=attribute, values=values: _cast_before(f, "float32", (attribute, values)))
    _wrap(lists.WIDEST, _widened)
    from ...gluon import loss  # their operators are called by the library
    loss._prepared.append(lambda inputs: _cast_all(inputs, _to("float32")))


# ---- training

def init_trainer(optimizer_or_trainer):
    """Lets a trainer skip steps whose gradients are not finite, and choose the factor of scale_loss."""
    global _amp_loss_scale_initialized, _loss_scaler
    trainer = _trainer(optimizer_or_trainer)
    trainer._amp_loss_scaler, trainer._amp_original_scale = LossScaler(), trainer._scale
    if not _amp_loss_scale_initialized:
        _amp_loss_scale_initialized, _loss_scaler = True, trainer._amp_loss_scaler
    update = trainer._update

    def careful_update(self, ignore_stale_grad=False):
        if not self._amp_loss_scaler.has_overflow(self._params):
            update(ignore_stale_grad)
        else:
            for parameter in self._params:
                for array in parameter._data or ():
                    array._fresh_grad = False
    trainer._update = types.MethodType(careful_update, trainer)


def _trainer(given):
    from ...gluon import Trainer
    if not isinstance(given, Trainer):
        raise TypeError(f"optimizer_or_trainer should be a Gluon Trainer, instead is {type(given)}")
    return given


@contextlib.contextmanager
def scale_loss(loss, optimizer_or_trainer):
    """`with amp.scale_loss(loss, trainer) as scaled: autograd.backward(scaled)`."""
    trainer = _trainer(optimizer_or_trainer)
    if getattr(trainer, "_amp_loss_scaler", None) is None:
        raise AssertionError("Loss scaler is not initialized, did you forget to call amp.init_trainer()?")
    factor = trainer._amp_loss_scaler.loss_scale
    trainer._scale = trainer._amp_original_scale / factor
    yield [each * factor for each in loss] if isinstance(loss, (list, tuple)) else loss * factor


def unscale(optimizer_or_trainer):
    """Divides the gradients by the factor of the loss, for clipping and the like."""
    trainer = _trainer(optimizer_or_trainer)
    factor = trainer._amp_loss_scaler.loss_scale
    for parameter in trainer._params:
        for grad in parameter.list_grad() if parameter.grad_req != "null" else ():
            grad[:] = grad / factor
    trainer._scale = trainer._amp_original_scale


# ---- symbols

class _Caster:
    """Rewrites the nodes of a graph's JSON with casts before them."""

    def __init__(self, nodes):
        self.old, self.nodes, self.number, self.casts = nodes, [], {}, {}

    def entry(self, old):
        """An input of an old node, in the new graph."""
        return [self.number[old[0]], *old[1:]]

    def cast(self, entry, dtype):
        """The entry after amp_cast; one cast for all who want the same."""
        key = tuple(entry[:2]), dtype
        if key not in self.casts:
            source = self.nodes[entry[0]]
            name = f"{source['name']}_amp_cast_{dtype}" + (f"_{entry[1]}" if entry[1] else "")
            self.nodes.append({"op": "amp_cast", "name": name, "attrs": {"dtype": dtype}, "inputs": [entry]})
            self.casts[key] = [len(self.nodes) - 1, 0, 0]
        return self.casts[key]

    def widen(self, node, entries):
        """The entries after amp_multicast."""
        self.nodes.append({"op": "amp_multicast", "name": f"{node['name']}_amp_multicast", "attrs": {"num_outputs": str(len(entries))}, "inputs": entries})
        return [[len(self.nodes) - 1, i, 0] for i in range(len(entries))]

    def add(self, number, node, entries):
        """The old node, with these inputs."""
        self.nodes.append({**node, "inputs": entries})
        self.number[number] = len(self.nodes) - 1


def convert_symbol(sym, target_dtype="float16", target_dtype_ops=None, fp32_ops=None, conditional_fp32_ops=None, excluded_sym_names=None, data_names=None,
                   cast_optional_params=False):
    """The symbol with casts: before products to the low precision, before sensitive operators to float32."""
    target, excluded = _checked(target_dtype), set(excluded_sym_names or ())
    low, high = (set(default if given is None else given) for default, given in ((lists.LOW, target_dtype_ops), (lists.FLOAT32, fp32_ops)))
    conditional = lists.CONDITIONAL_FLOAT32 if conditional_fp32_ops is None else conditional_fp32_ops
    graph = json.loads(sym.tojson())
    states = set(sym.list_auxiliary_states())
    caster = _Caster(graph["nodes"])
    for number, node in enumerate(graph["nodes"]):
        entries = [caster.entry(entry) for entry in node["inputs"]]
        attrs = node.get("attrs") or {}
        sensitive = node["op"] in high or any(node["op"] == op and attrs.get(key) in values for op, key, values in conditional)
        if node["op"] != "null" and node["name"] not in excluded:
            if node["op"] in low or sensitive:
                dtype = target if node["op"] in low else "float32"
                entries = [entry if caster.nodes[entry[0]]["name"] in states else caster.cast(entry, dtype) for entry in entries]
            elif node["op"] in lists.WIDEST and len(entries) > 1 and node["op"] != "where":
                entries = caster.widen(node, entries)
        caster.add(number, node, entries)
    graph["nodes"] = caster.nodes
    graph["arg_nodes"] = [i for i, node in enumerate(caster.nodes) if node["op"] == "null"]
    graph["heads"] = [caster.entry(head) for head in graph["heads"]]
    graph.pop("node_row_ptr", None)
    return symbol.load_json(json.dumps(graph))


def convert_model(sym, arg_params, aux_params, target_dtype="float16", target_dtype_ops=None, fp32_ops=None, conditional_fp32_ops=None,
                  excluded_sym_names=None, cast_optional_params=False):
    """(symbol with casts, arguments, auxiliary states); parameters stay as they are, casts are part of the graph."""
    made = convert_symbol(sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names, None, cast_optional_params)
    return made, dict(arg_params), dict(aux_params)


def convert_hybrid_block(block, target_dtype="float16", target_dtype_ops=None, fp32_ops=None, conditional_fp32_ops=None, excluded_sym_names=None,
                         ctx=None, cast_optional_params=False):
    """A SymbolBlock of a hybridized block that has been called, with casts."""
    from ...gluon import SymbolBlock
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "block")
        block.export(prefix)
        sym = symbol.load(f"{prefix}-symbol.json")
        parameters = {name[4:] for name in ndarray.load(f"{prefix}-0000.params")}
        inputs = [name for name in sym.list_inputs() if name not in parameters]
        convert_symbol(sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names).save(f"{prefix}-symbol.json")
        return SymbolBlock.imports(f"{prefix}-symbol.json", inputs, f"{prefix}-0000.params", ctx=ctx)


def convert_bucketing_module(bucketing_mod, target_dtype="float16", target_dtype_ops=None, fp32_ops=None, conditional_fp32_ops=None,
                             excluded_sym_names=None, cast_optional_params=False):
    """A BucketingModule of symbols with casts; bound, it has the parameters of the other."""
    from ...module import BucketingModule

    def sym_gen(key):
        sym, data_names, label_names = bucketing_mod._sym_gen(key)
        return convert_symbol(sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names), data_names, label_names
    return BucketingModule.load_dict(None, sym_gen, bucketing_mod._default_bucket_key, *bucketing_mod.get_params(),
                                     context=bucketing_mod._kwargs["context"])


# ---- the lists

def list_lp16_ops(target_dtype):
    """Operators that run in the low precision."""
    return _checked(target_dtype) and list(lists.LOW)


def list_fp32_ops(target_dtype):
    """Operators that run in float32."""
    return _checked(target_dtype) and list(lists.FLOAT32)


def list_lp16_fp32_ops(target_dtype):
    """Operators that run in the precision of their inputs: all that are in no other list."""
    return _checked(target_dtype) and lists.rest()


def list_conditional_fp32_ops(target_dtype):
    """(operator, attribute, values for which it runs in float32)."""
    return _checked(target_dtype) and list(lists.CONDITIONAL_FLOAT32)


def list_widest_type_cast(target_dtype):
    """Operators whose inputs get the widest of their types."""
    return _checked(target_dtype) and list(lists.WIDEST)


def list_loss_output_functions(target_dtype):
    """Losses of symbols, which stay as they are."""
    return _checked(target_dtype) and list(lists.LOSSES)


def list_lp16_use_fp32_params(target_dtype):
    """Operators of the low precision whose parameters stay float32: none, casts are made anew."""
    return _checked(target_dtype) and None
