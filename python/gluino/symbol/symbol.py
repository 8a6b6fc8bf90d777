"""Symbol: a value of a graph that has not run. Inside a hybridized block it also has what arrays have: shape, [], +=, asnumpy."""
import threading

from .. import _core, _register
from ..attribute import current as _attr_scope
from ..base import NotImplementedForSymbol, as_dtype, dtype_name
from ..context import engine_device
from ..executor import Executor
from ..ndarray.ndarray import _STORAGE_TYPE_STR_TO_ID, Readable
from ..util import is_np_shape

__all__ = ["Symbol", "var", "Variable", "Group", "load", "load_json", "fromjson", "zeros", "ones", "full", "arange", "linspace", "eye", "array",
           "concatenate", "split_v2", "zeros_like", "ones_like", "pow", "power", "maximum", "minimum", "hypot", "waitall", "moveaxis",
           "histogram"]

_operators = {}


def _operator(name):
    """An operator by its name in the registry."""
    found = _operators.get(name)
    if found is None:
        found = _operators[name] = _core.make_operator(name, name, False, True)
    return found


_OF_VALUES = frozenset({"asnumpy", "asscalar", "item", "tolist", "detach", "context", "ctx", "dtype", "stype", "attach_grad", "zero_grad", "drop_grad",
                        "_fresh_grad", "grad"})


of_symbols_alone = set()  # attributes that arrays do not have; numpy/multiarray.py fills it


class _Shown(threading.local):
    """Code that is traced sees arrays, so that isinstance gives what it gives eagerly; code that is given F = mx.sym sees symbols, as in MXNet."""
    as_symbols = False

    def __call__(self, as_symbols, function, *args, **kwargs):
        before, self.as_symbols = self.as_symbols, as_symbols
        try:
            return function(*args, **kwargs)
        finally:
            self.as_symbols = before


shown = _Shown()


def is_shown_as_array(symbol):
    """A value of a trace in code that has arrays otherwise: it looks like one, and its text is that of its value."""
    return _core.is_tracing() and _core.is_traced(symbol) and not shown.as_symbols


def _missing(symbol, name):
    return AttributeError(f"'{type(symbol).__name__}' object has no attribute '{name}'")


def _in_both_spellings(attrs):
    """Attributes of nodes are known with underscores and without."""
    for key in ("lr_mult", "wd_mult", "ctx_group", "force_mirroring", "mirror_stage"):
        for known, other in ((key, f"__{key}__"), (f"__{key}__", key)):
            if known in attrs:
                attrs.setdefault(other, attrs[known])
    return attrs


class Symbol(Readable, _core.SymbolBase):
    """Outputs of a graph."""

    __slots__ = ()

    def _call(self, op, **attrs):
        return _operator(op)(self, **attrs)

    # ---- what only values of a trace have

    def __getattribute__(self, name):
        # Readable's methods need a value: outside of a trace they are missing, as in MXNet.
        if name in _OF_VALUES and not _core.is_traced(self):
            raise _missing(self, name)
        if name == "__class__" and _core.is_traced(self) and not shown.as_symbols:
            return _core.array_class(self)
        if name in of_symbols_alone and is_shown_as_array(self):
            raise _missing(self, name)
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        is_special = name.startswith("__") and not name.startswith("__dlpack")
        if not is_special and is_shown_as_array(self) and hasattr(_core.array_class(self), name):
            _core.refuse_trace(f"it asks an array for {name}")
        raise _missing(self, name)

    def __repr__(self):
        if is_shown_as_array(self):
            return _core.array_class(self).__repr__(self)
        if self._num_outputs > 1:
            names = ", ".join(f"{output.name}" for output in self)
            return f"<{type(self).__name__} group [{names}]>"
        return f"<{type(self).__name__} {self.name}>"

    def __str__(self):
        return _core.array_class(self).__str__(self) if is_shown_as_array(self) else self.__repr__()

    def __iter__(self):
        if _core.is_traced(self):
            return Readable.__iter__(self)
        return (self[i] for i in range(len(self)))

    def __call__(self, *args, **kwargs):
        """The graph with variables replaced by other symbols; `name` is the new one of its last node."""
        name = kwargs.pop("name", None) or ""
        if args and kwargs:
            raise TypeError("compose only accept input Symbols either as positional or keyword arguments, not both")
        if args:
            kwargs = dict(zip(self.list_arguments(), args))
        return _core.sym_compose(self, kwargs, name)

    def _compose(self, *args, **kwargs):
        """The same in place: this symbol becomes the graph."""
        _core.sym_become(self, self(*args, **kwargs))

    def __bool__(self):
        if not _core.is_traced(self):
            raise NotImplementedForSymbol("the truth of a Symbol is not known before its graph runs; use mx.sym.where or contrib.cond")
        return _core.SymbolBase.__bool__(self)

    def __copy__(self):
        return self.copy() if _core.is_traced(self) else load_json(self.tojson())

    def __deepcopy__(self, memo):
        return self.copy() if _core.is_traced(self) else load_json(self.tojson())

    def __reduce__(self):
        if _core.is_traced(self):
            _core.refuse_trace("it pickles an array")
        return load_json, (self.tojson(),)

    def __array__(self, dtype=None):
        if not _core.is_traced(self):
            raise TypeError("a symbol has no values before its graph runs; use eval() or bind()")
        values = self.asnumpy()
        return values if dtype is None else values.astype(dtype)

    # ---- what the graph says

    @property
    def name(self):
        """The name of the node; None for a group."""
        return _core.sym_name(self) or None

    @property
    def _num_outputs(self):
        return 1 if _core.is_traced(self) else _core.sym_num_outputs(self)

    num_outputs = _num_outputs

    def list_arguments(self):
        """Names of the variables, in the order they are needed."""
        return _core.sym_list_arguments(self)

    def list_outputs(self):
        """Names of the outputs."""
        return _core.sym_list_outputs(self)

    def list_auxiliary_states(self):
        """Names of the variables that operators update."""
        return _core.sym_list_auxiliary_states(self)

    def list_inputs(self):
        """Names of arguments and auxiliary states."""
        return _core.sym_list_inputs(self)

    def get_internals(self):
        """All outputs of all nodes as a group."""
        return _core.sym_get_internals(self)

    def get_children(self):
        """The inputs of the node, as a group; None for a variable."""
        children = _core.sym_get_children(self)
        return children if _core.sym_num_outputs(children) else None

    # ---- attributes

    def attr(self, key):
        """One attribute, or None."""
        return self.list_attr().get(key, _core.sym_attr(self, f"__{key}__"))

    def list_attr(self, recursive=False):
        """Attributes of the node."""
        if recursive:
            raise DeprecationWarning("Symbol.list_attr with recursive=True has been deprecated. Please use attr_dict instead.")
        return _in_both_spellings(_core.sym_list_attr(self))

    def attr_dict(self):
        """Attributes of all nodes by name."""
        return {name: _in_both_spellings(attrs) for name, attrs in _core.sym_attr_dict(self).items()}

    def _set_attr(self, **kwargs):
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError("Set Attr only accepts string values")
            _core.sym_set_attr(self, key, value)

    # ---- inference

    def _known(self, args, kwargs, convert):
        if args and kwargs:
            raise ValueError("Can only specify known argument shapes either by positional or kwargs way.")
        pairs = zip(self.list_arguments(), args) if args else kwargs.items()
        return {name: convert(value) for name, value in pairs if value is not None}

    def infer_shape(self, *args, **kwargs):
        """(shapes of arguments, of outputs, of auxiliary states) from some known ones; three None when not all follow."""
        unknown = -1 if is_np_shape() else 0
        found = _core.sym_infer_shape(self, self._known(args, kwargs, tuple), unknown)
        if any(shape is None or unknown in shape for shapes in found for shape in shapes):
            return None, None, None
        return tuple(found)

    def infer_shape_partial(self, *args, **kwargs):
        """The same with () and 0 for what does not follow, None and -1 with np_shape()."""
        unknown, nothing = (-1, None) if is_np_shape() else (0, ())
        found = _core.sym_infer_shape(self, self._known(args, kwargs, tuple), unknown)
        return tuple([nothing if shape is None else shape for shape in shapes] for shapes in found)

    def infer_type(self, *args, **kwargs):
        """(dtypes of arguments, of outputs, of auxiliary states) from some known ones; three None when not all follow."""
        found = self.infer_type_partial(*args, **kwargs)
        return (None, None, None) if any(None in types for types in found) else found

    def infer_type_partial(self, *args, **kwargs):
        """The same with None for what does not follow."""
        found = _core.sym_infer_type(self, self._known(args, kwargs, dtype_name), True)
        return tuple([name if name is None else as_dtype(name) for name in names] for names in found)

    # ---- files

    def tojson(self, remove_amp_cast=True):
        """The graph as MXNet's JSON."""
        return _core.sym_tojson(self)

    def save(self, fname, remove_amp_cast=True):
        """Writes the JSON to a file."""
        _core.sym_save(self, str(fname))

    def debug_str(self):
        """The graph as text, one node per line."""
        return _core.sym_text(self)

    # ---- running

    def bind(self, ctx=None, args=None, args_grad=None, grad_req="write", aux_states=None, group2ctx=None, shared_exec=None):
        """An executor over given arrays."""
        return Executor(self, ctx, args, args_grad, grad_req, aux_states)

    def simple_bind(self, ctx=None, grad_req="write", type_dict=None, stype_dict=None, group2ctx=None, shared_arg_names=None, shared_exec=None,
                    shared_buffer=None, **kwargs):
        """An executor over new arrays, whose shapes follow from those given."""
        return Executor.allocate(self, ctx, grad_req, type_dict, kwargs, stype_dict)

    def eval(self, ctx=None, **kwargs):
        """The outputs for these arguments."""
        return self.bind(ctx, kwargs, grad_req="null").forward()

    def optimize_for(self, backend, args=None, aux=None, ctx=None, shape_dict=None, type_dict=None, stype_dict=None, skip_infer=False, **kwargs):
        """This symbol: graphs are optimised when they are bound."""
        return self

    def as_np_ndarray(self):
        """The same value as a symbol of mx.np."""
        return _core.as_flavour(self, True) if _core.is_traced(self) else _core.sym_as_flavour(self, True)

    def as_nd_ndarray(self):
        """The same value as a symbol of mx.nd's kind."""
        return _core.as_flavour(self, False) if _core.is_traced(self) else _core.sym_as_flavour(self, False)

    def reshape(self, *args, **kwargs):
        """Another shape; 0, -1, -2, -3, -4 as in MXNet."""
        return Readable.reshape(self, *args, **kwargs)

    def broadcast_to(self, shape):
        """The value repeated along axes of extent 1, and along new ones in front where its axes are known."""
        return Readable.broadcast_to(self, shape) if _core.is_traced(self) else self._call("broadcast_to", shape=shape)

    def as_in_context(self, context=None):
        """This value: a graph runs where its inputs are."""
        if _core.is_traced(self) and context is not None and engine_device(context) != self._device_id:
            _core.refuse_trace("it moves an array to another device")
        return self

    def expand_dims(self, axis, inplace=False, **kwargs):
        """With a new axis."""
        return self._call("expand_dims", axis=axis, **kwargs)

    def squeeze(self, axis=None, inplace=False, **kwargs):
        """Without axes of extent 1."""
        return self._call("squeeze", axis=axis, **kwargs)

    def flatten(self, inplace=False, **kwargs):
        """All axes but the first as one."""
        return self._call("Flatten", **kwargs)

    def diag(self, k=0, **kwargs):
        """A diagonal, or a matrix with one."""
        return self._call("diag", k=k, **kwargs)

    def get_backend_symbol(self, backend):
        """This symbol: graphs are optimised when they are bound."""
        return self

    def gradient(self, wrt):
        """Raises: MXNet never had it either."""
        raise NotImplementedError("Symbol.gradient is not available; bind() the symbol and call backward(), or use autograd")

    as_in_ctx = as_in_context

    def backward(self, *args, **kwargs):
        """Of a value of a trace, as an array's; not part of a graph."""
        if not _core.is_traced(self):
            raise NotImplementedError("a Symbol has no backward; bind it, or call autograd on the arrays that the network gives")
        Readable.backward(self, *args, **kwargs)

    def wait_to_read(self):
        """Of a value of a trace, nothing to wait for; not part of a graph."""
        if not _core.is_traced(self):
            raise NotImplementedError("a Symbol has no wait_to_read: its graph has not run")


def _attrs_of_variable(attr, hidden):
    attrs = _attr_scope().get(attr)
    for key, value in hidden.items():
        if value is not None:
            attrs[f"__{key}__"] = str(value)
    return attrs


def var(name, attr=None, shape=None, lr_mult=None, wd_mult=None, dtype=None, init=None, stype=None, profiler_scope=None, **kwargs):
    """A variable of a graph."""
    if not isinstance(name, str):
        raise TypeError("Expect a string for variable `name`")
    if init is not None and not isinstance(init, str):
        init = init.dumps()
    stype = None if stype is None else _STORAGE_TYPE_STR_TO_ID[stype]
    attrs = _attrs_of_variable(attr, {"lr_mult": lr_mult, "wd_mult": wd_mult, "init": init, "storage_type": stype})
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(f"Attribute name={key} is not supported. Additional attributes must start and end with double underscores, "
                             "e.g, __yourattr__")
        attrs[key] = str(value)
    return _core.sym_var(name, shape, None if dtype is None else dtype_name(dtype), attrs)


Variable = var


def Group(symbols, create_fn=None):
    """Several symbols as one with several outputs."""
    symbols = list(symbols)
    if not symbols or any(not isinstance(symbol, Symbol) for symbol in symbols):
        raise TypeError("Expected a list of symbols as input")
    return _core.sym_group(symbols)


def load(fname):
    """Reads a -symbol.json of any MXNet."""
    if not isinstance(fname, (str, bytes)) and not hasattr(fname, "__fspath__"):
        raise TypeError("fname need to be string")
    return _core.sym_load(str(fname))


def load_json(json_str):
    """A graph from JSON text."""
    if not isinstance(json_str, str):
        raise TypeError("json_str needs to be string")
    return _core.sym_from_json(json_str, "symbol JSON")


fromjson = load_json


# ---- making values

def _created(op, dtype, name=None, **attrs):
    return _operator(op)(dtype=dtype_name(dtype or "float32"), name=name, **attrs)


def zeros(shape, dtype=None, name=None, **kwargs):
    """Zeros."""
    return _created("_zeros", dtype, name, shape=shape)


def ones(shape, dtype=None, name=None, **kwargs):
    """Ones."""
    return _created("_ones", dtype, name, shape=shape)


def full(shape, val, dtype=None, name=None, **kwargs):
    """One number everywhere."""
    return _created("_full", dtype, name, shape=shape, value=val)


def arange(start, stop=None, step=1.0, repeat=1, infer_range=False, name=None, dtype=None, **kwargs):
    """Numbers from start to stop."""
    if stop is None and not infer_range:
        start, stop = 0, start
    return _created("_arange", dtype, name, start=start, stop=stop, step=step, repeat=repeat, infer_range=infer_range)


def linspace(start, stop, num, endpoint=True, name=None, dtype=None, **kwargs):
    """Numbers at equal distances."""
    return _created("_linspace", dtype, name, start=start, stop=stop, num=num, endpoint=endpoint)


def eye(N, M=0, k=0, dtype=None, name=None, **kwargs):
    """Ones on a diagonal."""
    return _created("_eye", dtype, name, N=N, M=M or 0, k=k)


def array(source_array, ctx=None, dtype=None):
    """Values given as numbers: part of a program that is traced, but not of a symbol, which MXNet does not have either."""
    if not _core.is_tracing():
        raise AttributeError("module 'symbol' has no attribute 'array' outside of a trace; use mx.sym.full, mx.sym.ones or a variable")
    from ..ndarray import array as nd_array
    return nd_array(source_array, ctx, dtype)


def concatenate(arrays, axis=0):
    """Values joined along an axis."""
    return _operator("Concat")(*arrays, dim=axis)


def split_v2(ary, indices_or_sections, axis=0, squeeze_axis=False):
    """Parts of a value."""
    if isinstance(indices_or_sections, int):
        return _operator("_split_v2")(ary, indices=(), axis=axis, squeeze_axis=squeeze_axis, sections=indices_or_sections)
    return _operator("_split_v2")(ary, indices=(0, *indices_or_sections), axis=axis, squeeze_axis=squeeze_axis)


def zeros_like(data, **kwargs):
    """Zeros of the same shape and dtype."""
    return _operator("zeros_like")(data, **kwargs)


def ones_like(data, **kwargs):
    """Ones of the same shape and dtype."""
    return _operator("ones_like")(data, **kwargs)


def moveaxis(tensor, source, destination):
    """The value with axes moved; inside a trace."""
    from ..ndarray import moveaxis as nd_moveaxis
    return nd_moveaxis(tensor, source, destination)


def histogram(a, bins=10, range=None, **kwargs):
    """Counts per bin, and the bins' edges."""
    if isinstance(bins, Symbol):
        return _operator("_histogram")(a, bins, **kwargs)
    if range is None:
        raise ValueError("null range is not supported in symbol mode")
    return _operator("_histogram")(a, bin_cnt=bins, range=range, **kwargs)


def power(base, exp):
    """base to the power of exp, symbols or numbers."""
    return _core.binary_functions["power"](base, exp)


pow = power


def maximum(left, right):
    """The larger of two symbols or numbers."""
    return _core.binary_functions["maximum"](left, right)


def minimum(left, right):
    """The smaller of two symbols or numbers."""
    return _core.binary_functions["minimum"](left, right)


def hypot(left, right):
    """sqrt(left^2 + right^2)."""
    return _core.binary_functions["hypot"](left, right)


def waitall():
    """Returns at once."""



__getattr__ = _register.elsewhere("gluino.symbol")  # maximum, hypot and their like are made there
