"""HybridBlock: hybridize() runs it as a compiled program."""
import copy
import os
import weakref

from .. import _core, autograd
from .. import ndarray as nd
from .. import symbol as sym_module
from .._tracing.snapshot import snapshot
from .._tracing.watch import Collector
from ..base import MXNetError
from ..name import Prefix, current as current_names
from ..symbol.symbol import shown
from ..util import is_np_array
from . import parameter as _parameter
from ._names import ParameterNames
from ._structure import flatten, is_numpy, replaced, values_in
from .block import Block, located
from .parameter import DeferredInitializationError, Parameter
from .parameter_dict import load_by_name

__all__ = ["HybridBlock"]

_FLAGS = frozenset(_core.hybrid_options)
# Without effect. MXNet takes other shapes in spite of static_shape, which the engine would refuse.
_HINTS = {"static_shape", "partition_if_dynamic", "remove_amp_cast", "backend_opts", "data_indices", "param_indices"}


class HybridBlock(Block):
    """A block that can be compiled: define hybrid_forward(self, F, x, *args, **params), or forward(self, *args)."""

    _is_wrapped = False
    # Outside of __dict__, which compiled programs hold and look into: the block would outlive its last user otherwise.
    __slots__ = ("_cache",)

    def __new__(cls, *args, **kwargs):
        made = super().__new__(cls)
        object.__setattr__(made, "_cache", None)
        return made

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix, params)
        self._active, self._flags = False, {}
        self._cache_epoch = 0
        self._in_format = self._out_format = None  # how what the first compiled call takes and gives is nested, as _flatten tells it

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        # A forward around hybrid_forward is Python code that runs at every call and asks for the compiled part with super().forward.
        cls._is_wrapped = cls.forward is not HybridBlock.forward and cls.hybrid_forward is not HybridBlock.hybrid_forward

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if isinstance(value, (HybridBlock, Parameter)) and self._cache is not None:
            self._clear_cached_op()
        if name in ("forward", "hybrid_forward"):
            _core.structure_changed()

    def register_child(self, block, name=None):
        if not isinstance(block, HybridBlock):
            raise ValueError(f"Children of HybridBlock must also be HybridBlock, but {block} has type {type(block)}. If you are using Sequential, "
                             "please try HybridSequential instead.")
        super().register_child(block, name)
        self._clear_cached_op()

    # ---- compiling

    def hybridize(self, active=True, backend=None, clear=True, **kwargs):
        """Compiles this block at its next call. strict=True gives MXNet's errors for what its Symbol could not do."""
        unknown = set(kwargs) - _FLAGS - _HINTS
        if unknown:
            raise TypeError(f"hybridize: no option is named {sorted(unknown)[0]!r}; there are {', '.join(sorted(_FLAGS))}")
        self._active = active
        self._flags = {key: value for key, value in kwargs.items() if key in _FLAGS - _HINTS}
        self._clear_cached_op()
        super().hybridize(active, **kwargs)

    def optimize_for(self, x, *args, backend=None, **kwargs):
        """Hybridizes, and compiles for these inputs."""
        self.hybridize(True)
        return self(x, *args)

    def _clear_cached_op(self):
        self._cache = None

    def cast(self, dtype):
        self._clear_cached_op()
        super().cast(dtype)

    def _build_cache(self):
        self._cache_epoch = _parameter.epoch[0]
        names, myself = ParameterNames(self), weakref.ref(self)  # weak: the cache is the block's own
        method = type(self)._forward_strictly if self._flags.get("strict") else type(self)._run

        def traced(*args, **kwargs):
            return method(myself(), *args, **kwargs)

        def roots():  # asked when blocks or parameters have changed
            names.forget()
            return (myself(),)
        self._cache = _core.HybridCache(traced, names, Collector(roots), snapshot, f"{self.name}, a {type(self).__name__},", self._flags)
        return self._cache

    def _forward_strictly(self, *args):
        """Builds a graph of plain Symbols, as MXNet does, then runs it on the traced values."""
        with _core.pause_tracing():
            symbol, names, _ = self._graph_of(args)
            self._infer_parameters(symbol, names, args)
            function = _core.GraphFunction(symbol)
        tensors = dict(zip(names, values_in(args)))
        wanted = set(symbol.list_inputs())
        tensors.update({p.name: p.data() for p in self.collect_params().values() if p.name in wanted})
        return function(tensors, is_np_array())

    # ---- calling

    def forward(self, x, *args, **kwargs):
        """Calls hybrid_forward with F = mx.nd on arrays, mx.sym on symbols and while tracing."""
        if self._active and self._is_wrapped and not _core.is_tracing():
            return self._call_compiled((x, *args), kwargs)
        if "forward" in self.__dict__:  # one of the object's own, which has asked for this one
            return self._run_hybrid_forward((x, *args), kwargs)
        return self._run(x, *args, **kwargs)

    def __call__(self, *args, **kwargs):
        if not self._active or self._is_wrapped or _core.is_tracing():
            return super().__call__(*args, **kwargs)
        if self._forward_pre_hooks or self._forward_hooks:
            return self._between_hooks(lambda *a, **k: self._call_compiled(a, k), args, kwargs)
        return self._call_compiled(args, kwargs)

    def _call_compiled(self, args, kwargs):
        if args and isinstance(args[0], sym_module.Symbol):
            return self._run(*args, **kwargs)
        cache = self._cache
        if cache is None or self._cache_epoch != _parameter.epoch[0]:
            return self._first_call(args, kwargs)
        try:
            return cache(*args, **kwargs)
        except MXNetError as error:
            raise located(error, self)

    def _first_call(self, args, kwargs):
        cache = self._build_cache()
        try:
            result = cache(*args, **kwargs)
        except MXNetError as error:
            raise located(error, self)
        self._note_formats(args, result)
        return result

    def _note_formats(self, args, result):
        self._in_format, self._out_format = _form_of(args), _form_of(result)

    def _run(self, *args, **kwargs):
        """One call, operator by operator: on arrays, on values of a trace, or on symbols."""
        if type(self).hybrid_forward is HybridBlock.hybrid_forward or "forward" in self.__dict__:
            return self._run_forward(*args, **kwargs)
        if not args:
            raise TypeError("HybridBlock.forward() missing 1 required positional argument: 'x'")
        return self._run_hybrid_forward(args, kwargs)

    def _run_hybrid_forward(self, args, kwargs):
        first = next(values_in(args), None)
        if first is None:
            raise ValueError(f"In HybridBlock, there must be one NDArray or one Symbol in the input. Please check the type of the args of {self.name}: "
                             f"{', '.join(type(a).__name__ for a in args)}; mx.nd.array makes an NDArray")
        traced = _core.is_traced(first) or _core.is_tracing()
        symbolic = isinstance(first, sym_module.Symbol) and not traced
        if symbolic:
            params = {name: p.var() for name, p in self._reg_params.items()}
        else:
            context = first.context if on_several_contexts(self._reg_params) else None
            try:
                params = {name: p.data(context) for name, p in self._reg_params.items()}
            except DeferredInitializationError:
                self._complete(args)
                params = {name: p.data(context) for name, p in self._reg_params.items()}
        if not (symbolic or traced):
            return self.hybrid_forward(nd, *args, **params, **kwargs)
        with self._call_names():
            return shown(True, self.hybrid_forward, sym_module, *args, **params, **kwargs)

    def _run_forward(self, *args, **kwargs):
        if type(self).forward is HybridBlock.forward and "forward" not in self.__dict__:
            raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward or forward")
        if not _core.is_tracing() and not any(isinstance(v, sym_module.Symbol) for v in values_in(args)):
            return self._forward_with_shapes(args, kwargs)
        with self._call_names():
            return shown(False, self._forward_with_shapes, args, kwargs)

    def _forward_with_shapes(self, args, kwargs):
        waiting = any(p._deferred is not None for p in self._reg_params.values())
        if waiting and type(self).infer_shape is not HybridBlock.infer_shape:
            self.infer_shape(*args)
            for parameter in self._reg_params.values():
                parameter._finish_deferred_init()
        return self.forward(*args, **kwargs)

    def _call_names(self):
        return Prefix(self._prefix) if not self._empty_prefix else current_names()

    def hybrid_forward(self, F, x, *args, **kwargs):
        """What the block computes, with the operators of F."""
        raise NotImplementedError

    # ---- shapes

    def _graph_of(self, args):
        """The block on symbols: (outputs, names of inputs, nesting of outputs)."""
        values = list(values_in(args))
        names = ["data"] if len(values) == 1 else [f"data{i}" for i in range(len(values))]
        variables = [sym_module.var(name) for name in names]
        if any(is_numpy(value) for value in values):
            variables = [v.as_np_ndarray() for v in variables]
        queue = iter(variables)
        out = self._run(*replaced(args, queue))
        flat = list(values_in([out]))
        return sym_module.Group(flat) if len(flat) > 1 else flat[0], names, out

    def _complete(self, args):
        """Parameter shapes from the shapes of these inputs."""
        with _core.pause_tracing(), autograd.pause():
            try:
                symbol, names, _ = self._graph_of(args)
            except (AttributeError, NotImplementedError, TypeError) as error:
                raise ValueError(f"Deferred initialization failed because shape cannot be inferred. {error}") from error
            self._infer_parameters(symbol, names, args)

    def _infer_parameters(self, symbol, names, args):
        inputs = set(symbol.list_inputs())
        shapes = dict(zip(names, (_core.peek_shape(v) for v in values_in(args))))
        shapes = {name: shape for name, shape in shapes.items() if name in inputs}
        params = {p.name: p for p in self._own_and_children()}
        given = {n: tuple(extent or -1 for extent in p._shape) for n, p in params.items() if p._shape is not None and n in inputs}
        arguments, _, states = _core.sym_infer_shape(symbol, {**shapes, **given}, -1)
        found = dict(zip(symbol.list_arguments() + symbol.list_auxiliary_states(), arguments + states))
        for name, parameter in params.items():
            if parameter._deferred is not None:
                if found.get(name):
                    parameter.shape = tuple(max(extent, 0) for extent in found[name])
                parameter._finish_deferred_init()

    def infer_shape(self, *args):
        """Completes parameter shapes from those of inputs; blocks that define forward may override it."""
        self._complete(args)

    def infer_type(self, *args):
        """Takes over the dtype of the first input for parameters that have no values yet."""
        first = next(values_in(args))
        for parameter in self.collect_params().values():
            if parameter._data is None:
                parameter.cast(first.dtype)

    # ---- files, and looking inside

    def _symbol(self):
        if self._cache is not None and _core.cache_stats(self._cache)["calls"]:
            return self._without_attributes(_core.cache_symbol(self._cache))
        try:
            args = [nd.zeros((1,))]
            symbol, _, result = self._graph_of(args)
            self._note_formats(args, result)
            return symbol
        except Exception as error:
            raise RuntimeError("Please first call block.hybridize() and then run forward with this block at least once before calling export.") from error

    @property
    def _cached_graph(self):
        """(variables of the inputs, graph) of the last compiled call, as libraries look at it; () before."""
        if self._cache is None or not _core.cache_stats(self._cache)["calls"]:
            return ()
        symbol = self._symbol()
        return [sym_module.var(name) for name in self._inputs_of(symbol, self.collect_params())], symbol

    @property
    def _cached_op(self):
        return self._cache

    def _without_attributes(self, symbol):
        """The program as others run it: what it leaves in attributes of blocks is no result, and what it finds there no input; numbers are
        those of the last call."""
        given, returned = _core.cache_arity(self._cache)
        used = set(symbol.list_inputs())
        numbers = {name: number for name, number in _core.cache_numbers(self._cache).items() if name in used}
        if numbers:
            symbol = symbol(**{name: sym_module.full((1,), number, dtype="float64") for name, number in numbers.items()})
        if returned and len(symbol.list_outputs()) > returned:
            kept = [symbol[i] for i in range(returned)]
            symbol = kept[0] if returned == 1 else sym_module.Group(kept)
        if given == 1 and "data0" in symbol.list_inputs():
            symbol = symbol(data0=sym_module.var("data"))
        return symbol

    def _exported(self):
        symbol = self._symbol()
        params, items = self.collect_params(), []
        for prefix, names in (("arg:", symbol.list_arguments()), ("aux:", symbol.list_auxiliary_states())):
            for name in names:
                if name in params.keys():
                    items.append((prefix + name, params[name].data(params[name].list_ctx()[0]).as_nd_ndarray()))
                elif self._cache is not None:
                    captured = _core.cache_captured(self._cache, name)
                    if captured is not None:
                        items.append((prefix + name, captured))
        return symbol, items

    def export(self, path, epoch=0, remove_amp_cast=True):
        """Writes path-symbol.json and path-0000.params; gives their names."""
        symbol, items = self._exported()
        files = f"{path}-symbol.json", f"{path}-{epoch:04d}.params"
        # Both are complete before either gets its name, the parameters first: imports() tells where they do not belong together.
        _core.write_files([(files[1], _core.write_params([(name, value, None) for name, value in items])), (files[0], symbol.tojson().encode())])
        return files

    def _inputs_of(self, symbol, known):
        return [name for name in symbol.list_inputs() if name not in known]

    def save(self, filename):
        """Writes graph and parameters into one file, which mx.load_block reads."""
        import json
        symbol, items = self._exported()
        known = {name[4:] for name, _ in items}
        names = {place: p.name for place, p in self._collect_params_with_prefix().items()}
        meta = {"format": "gluino", "version": 1, "inputs": self._inputs_of(symbol, known), "names": names}
        _core.write_zip(str(filename), [("meta.json", json.dumps(meta, indent=2).encode()), ("symbol.json", symbol.tojson().encode()),
                                        ("model.params", _core.write_params([(name, value, None) for name, value in items]))])

    def load(self, filename):
        """Takes the parameters of what save() wrote for a network of the same structure; mx.load_block makes a block of the file itself."""
        import json
        if not os.path.exists(filename) and os.path.exists(f"{filename}-model.params"):
            super().load(filename)
            return
        entries = _core.read_zip(str(filename))
        try:
            names, stored = json.loads(entries["meta.json"])["names"], dict(nd.load_frombuffer(entries["model.params"]))
            values = {name[4:]: value for name, value in stored.items()}
            values = {place: values[name] for place, name in names.items() if name in values}
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise MXNetError(f"{filename}: {error}: was it written by save()?") from None
        load_by_name(self._collect_params_with_prefix(), values, filename, None, False, False, False, "current")

    def register_op_hook(self, callback, monitor_all=False):
        """Calls callback(node, operator, array) for what each operator of the compiled graph gives, and with monitor_all for what it gets."""
        from ._hooks import tell_of_operators
        self.register_forward_hook(lambda block, inputs, _: tell_of_operators(block, inputs, callback, monitor_all))

    def explain(self, html=""):
        """What tracing and compiling did: graphs, guards, memory, times. html: a file to write the same to as a page for a browser."""
        return _core.cache_explain(self._built_cache("explain"), os.fspath(html), self.name)

    def memory_plan(self):
        """Every value's place in memory."""
        return _core.cache_memory_plan(self._built_cache("memory_plan"))

    def to_dot(self, before=False):
        """The graph that runs, or the one traced, for graphviz."""
        return _core.cache_to_dot(self._built_cache("to_dot"), before)

    def to_svg(self, before=False):
        """The same as a picture."""
        return _core.cache_to_svg(self._built_cache("to_svg"), before)

    def stats(self):
        """Numbers of calls, traces, plans and segments."""
        return _core.cache_stats(self._built_cache("stats"))

    def _built_cache(self, what):
        if self._cache is None:
            raise MXNetError(f"{what}: hybridize() {self.name} and call it once first")
        return self._cache

    def __deepcopy__(self, memo):
        made = copy.copy(self)
        memo[id(self)] = made
        made.__dict__ = {key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()}
        return made

    def __getstate__(self):
        return self.__dict__.copy()  # without the cache: a copy compiles its own


def _form_of(args):
    try:
        return flatten(args, "input")[1]
    except ValueError:  # numbers and the like, which MXNet's compiled blocks did not take
        return None


def on_several_contexts(params):
    """Whether these parameters have arrays on more than one device: a call takes those of its arguments' then."""
    return len({array._device_id for p in params.values() for array in p._data or ()}) > 1
