"""Parameter: what blocks learn."""
import warnings
import weakref

import numpy as np

from .. import _core, autograd, initializer
from .. import ndarray as nd
from ..base import MXNetError, as_dtype, dtype_name
from ..context import Context, cpu, current_context
from ..symbol import symbol as sym
from ..util import is_np_array

__all__ = ["DeferredInitializationError", "Parameter", "Constant", "ParameterDict", "tensor_types"]  # noqa: F822 - looked up when asked for

tensor_types = (sym.Symbol, nd.NDArray)

# Grows when an array behind a parameter is replaced by another: compiled programs that captured the old one are stale.
epoch = [0]
# Grows when a trace is given up and the parameters that it initialised wait for their values again.
forgotten = [0]


class DeferredInitializationError(MXNetError):
    """The parameter waits for its shape."""


def shape_is_known(shape):
    """Whether every extent is known."""
    return shape is not None and all(extent > 0 for extent in shape)


def _refuse_in_trace(what):
    """A program reads and updates the arrays of parameters, but does not make others."""
    if _core.is_tracing():
        _core.refuse_trace(f"it {what} a parameter")


class Parameter:
    """A named array that a block learns. Extents of 0 follow from the first call."""

    def __init__(self, name="weight", grad_req="write", shape=None, dtype="float32", lr_mult=1.0, wd_mult=1.0, init=None,
                 allow_deferred_init=False, differentiable=True, stype="default", grad_stype="default"):
        self.name = name
        self._shape = (shape,) if isinstance(shape, int) else None if shape is None else tuple(max(0, e) for e in shape)
        self._dtype = as_dtype(dtype_name(dtype))
        self.lr_mult, self.wd_mult, self.init = lr_mult, wd_mult, init
        self._allow_deferred_init, self._differentiable = allow_deferred_init, differentiable
        for kind in (stype, grad_stype):
            if kind not in ("default", "row_sparse", "csr"):
                raise AssertionError(f"stype of Parameter '{name}' is 'default', 'row_sparse' or 'csr', not {kind!r}")
        self._stype, self._grad_stype = stype, grad_stype
        self._grad_req = None
        self._data = None       # one array per context
        self._deferred = None   # (init, contexts, default_init, data)
        self._var = None
        self._trainer_ref = None  # weak: the trainer holds its parameters
        self.attributes = {}
        self.grad_req = grad_req if differentiable else "null"

    def __repr__(self):
        return f"Parameter {self.name} (shape={self.shape}, dtype={dtype_name(self.dtype)})"

    # A copy, or what is unpickled, learns by itself: its trainer is nobody's.
    def __getstate__(self):
        return {**self.__dict__, "_trainer_ref": None, "_var": None}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._attach_grads()

    # ---- what it is

    @property
    def shape(self):
        """The shape, with 0 (-1 in NumPy mode) where an extent is not known yet."""
        if self._shape is None or not is_np_array():
            return self._shape
        return tuple(e if e > 0 else -1 for e in self._shape)

    @shape.setter
    def shape(self, new):
        if self._shape is not None and (len(self._shape) != len(new) or any(a not in (0, b) and b > 0 for a, b in zip(self._shape, new))):
            raise AssertionError(f"Expected shape {tuple(new)} is incompatible with given shape {self._shape} of Parameter {self.name}.")
        self._shape = tuple(b if b > 0 else a for a, b in zip(self._shape, new)) if self._shape is not None else tuple(new)

    @property
    def dtype(self):
        """The element type."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype):
        self.cast(dtype)

    @property
    def stype(self):
        """The kind of storage."""
        return self._stype

    @property
    def grad_stype(self):
        """The kind of storage of the gradient."""
        return self._grad_stype

    @property
    def grad_req(self):
        """'write', 'add' or 'null'."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req):
        if req not in ("write", "add", "null"):
            raise AssertionError(f"grad_req must be one of \"write\", \"add\", or \"null\", but got \"{req}\"")
        if not self._differentiable:
            req = "null"
        if req == self._grad_req:
            return
        _refuse_in_trace("changes the grad_req of")
        self._grad_req = req
        self._attach_grads()

    def _attach_grads(self):
        for array in self._data or ():
            if "float" in array._dtype_name:  # whole numbers are not learnt
                array.attach_grad(self._grad_req, stype=self._grad_stype)

    # ---- first values

    def initialize(self, init=None, ctx=None, default_init=initializer.Uniform(), force_reinit=False, device=None):
        """Makes the arrays, or notes how to make them when the shape is known."""
        if self._data is not None and not force_reinit:
            warnings.warn(f"Parameter '{self.name}' is already initialized, ignoring. Set force_reinit=True to re-initialize.", stacklevel=2)
            return
        if self._data is not None:
            _refuse_in_trace("initialises again")
        ctx = ctx or device or current_context()
        contexts = [ctx] if isinstance(ctx, Context) else list(ctx)
        for context in contexts:
            context.engine_id
        if init is None:
            init = default_init if self.init is None else self.init
        if not shape_is_known(self._shape):
            if self._allow_deferred_init:
                self._deferred = (init, contexts, default_init, None)
                return
            raise ValueError(f"Cannot initialize Parameter '{self.name}' because it has invalid shape: {self._shape}.")
        self._deferred = (init, contexts, default_init, None)
        self._finish_deferred_init()

    def _finish_deferred_init(self):
        if self._deferred is None:
            return
        init, contexts, default_init, data = self._deferred
        if not shape_is_known(self._shape):
            raise AssertionError(f"Cannot initialize Parameter '{self.name}' because it has invalid shape: {self._shape}. Please specify "
                                 "in_units, in_channels, etc for `Block`s.")
        if data is None:
            waiting, numbers = self._deferred, np.random.get_state()
            _core.on_initialised(lambda: self._initialise_again(init, numbers), lambda: self._wait_again(waiting, numbers))
        self._deferred = None
        with _core.pause_tracing(), autograd.pause():
            if data is None:
                data = self._first_values(init)
            self._set_arrays([data.as_in_context(context) if len(contexts) == 1 else data.copyto(context) for context in contexts])

    def _first_values(self, init):
        data = nd.zeros(self._shape, ctx=cpu(), dtype=self.dtype)
        chosen = initializer.create(init)
        fill = chosen.init_weight if hasattr(chosen, "init_weight") else chosen  # Mixed and Load go by name
        fill(initializer.InitDesc(self.name), data.as_np_ndarray() if is_np_array() else data)  # one memory; users' initialisers expect theirs
        return data

    def _initialise_again(self, init, numbers):
        np.random.set_state(numbers)  # initialisers of users draw from these
        with autograd.pause():
            data = self._first_values(init)
            for array in self._data:
                array[:] = data.as_in_context(array.context)

    def _wait_again(self, waiting, numbers):
        np.random.set_state(numbers)
        self._data, self._deferred = None, waiting
        forgotten[0] += 1

    def _set_arrays(self, arrays):
        if self._data is not None:
            epoch[0] += 1
        numpy = is_np_array()
        self._data = [_core.as_flavour(array, True) if numpy else array for array in arrays]
        self._attach_grads()

    # ---- values

    def _check(self, what="data"):
        if self._data is not None:
            return
        if self._deferred is not None:
            raise DeferredInitializationError(
                f"Parameter '{self.name}' has not been initialized yet because initialization was deferred. Actual initialization happens "
                "during the first forward pass. Please pass one batch of data through the network before accessing Parameters. You can "
                "also avoid deferred initialization by specifying in_units, num_features, etc., for network layers.")
        raise RuntimeError(f"Parameter '{self.name}' has not been initialized. Note that you should initialize parameters and create Trainer "
                           "with Block.collect_params() instead of Block.params because the later does not include Parameters of nested "
                           "child Blocks; call initialize() on the network first")

    def _on(self, ctx):
        if ctx is None:
            if len(self._data) == 1:
                return 0
            ctx = current_context()
        for i, array in enumerate(self._data):
            if array._device_id == ctx.engine_id:
                return i
        raise RuntimeError(f"Parameter '{self.name}' was not initialized on context {ctx}. It was only initialized on "
                           f"{', '.join(str(a.context) for a in self._data)}.")

    # ---- by the names under which other libraries look

    @property
    def _deferred_init(self):
        """What initialization waits with: (init, contexts, default_init, data), or nothing."""
        return self._deferred or ()

    @_deferred_init.setter
    def _deferred_init(self, waiting):
        self._deferred = tuple(waiting) or None

    @property
    def _ctx_list(self):
        return None if self._data is None else [array.context for array in self._data]

    @_ctx_list.setter
    def _ctx_list(self, contexts):
        """The arrays say where they are."""

    @property
    def _ctx_map(self):
        """By the kind of device, then by its number: which of the arrays it is."""
        table = [[] for _ in range(max(Context.devtype2str) + 1)]
        for i, context in enumerate(self._ctx_list or ()):
            row = table[context.device_typeid & 1]
            row.extend([None] * (context.device_id + 1 - len(row)))
            row[context.device_id] = i
        return table

    @_ctx_map.setter
    def _ctx_map(self, table):
        """The arrays say where they are."""

    def _check_and_get(self, arr_list, ctx):
        """One of arrays by context; all of them for ctx=list."""
        self._check() if arr_list is None else None
        return arr_list if ctx is list else arr_list[self._on(ctx)]

    def _check_initialized(self, ctx=None):
        self._check()
        self._on(ctx)

    def _reduce(self):
        """The values, which are means over the contexts, on the CPU."""
        arrays = self.list_data()
        return arrays[0].as_in_context(cpu()) if len(arrays) == 1 else nd.add_n(*[a.as_in_context(cpu()) for a in arrays]) / len(arrays)

    def _init_impl(self, data, ctx_list):
        """Takes over the values, on these contexts."""
        self._deferred = None
        self._set_arrays([data.copyto(context) for context in ctx_list])

    def _load_init(self, data, ctx, cast_dtype=False, dtype_source="current"):
        self._load(data, ctx, cast_dtype, dtype_source)

    @property
    def _trainer(self):
        return self._trainer_ref() if self._trainer_ref is not None else None

    @_trainer.setter
    def _trainer(self, trainer):
        self._trainer_ref = None if trainer is None else weakref.ref(trainer)

    def _set_trainer(self, trainer):
        """The trainer that changes this parameter; a row_sparse one has no more than one."""
        if self._stype != "default" and self._trainer is not None and trainer is not None and self._trainer is not trainer:
            raise RuntimeError(f"Failed to set the trainer for Parameter '{self.name}' because it was already set. More than one trainers for a "
                               "row_sparse Parameter is not supported.")
        self._trainer = trainer

    def data(self, ctx=None):
        """The array, on one context."""
        if self._data is None:
            self._check()
        return self._data[0] if ctx is None and len(self._data) == 1 else self._data[self._on(ctx)]

    def list_data(self):
        """The arrays of all contexts."""
        self._check()
        return list(self._data)

    def grad(self, ctx=None):
        """The gradient, on one context."""
        if self._data is not None and self._grad_req == "null":
            raise RuntimeError(f"Cannot get gradient array for Parameter '{self.name}' because grad_req='null'")
        self._check()
        return self._of_kind(self._data[self._on(ctx)].grad)

    def list_grad(self):
        """The gradients of all contexts."""
        self.grad(self.list_data()[0].context)
        return [self._of_kind(array.grad) for array in self._data]

    def _of_kind(self, gradient):
        return nd.sparse.row_sparse_view(gradient) if self._grad_stype == "row_sparse" and gradient is not None else gradient

    @property
    def _grad(self):
        return None if self._data is None or self._grad_req == "null" else self.list_grad()

    @_grad.setter
    def _grad(self, gradients):
        for array, gradient in zip(self._data or (), gradients or ()):
            if gradient is not array.grad and self._grad_stype == "default":
                autograd.mark_variables([array], [gradient], self._grad_req)

    def list_ctx(self):
        """The contexts."""
        if self._data is None and self._deferred is not None:
            return self._deferred[1]
        self._check()
        return [array.context for array in self._data]

    list_device = list_ctx

    def row_sparse_data(self, row_id):
        """The whole array on the context of `row_id`: storage is dense."""
        return self.data(row_id.context if len(self.list_ctx()) > 1 else None)

    def list_row_sparse_data(self, row_id):
        """The whole arrays of all contexts."""
        return self.list_data()

    def set_data(self, data):
        """Stores other values, which compiled programs see. What was recorded keeps those that it has read."""
        self.shape = data.shape
        if self._data is None:
            if self._deferred is None:
                raise AssertionError(f"Parameter '{self.name}' has not been initialized")
            init, contexts, default_init, _ = self._deferred
            self._deferred = (init, contexts, default_init, data)
            return
        with autograd.pause():
            for array in self._data:
                if _core.is_tracing():
                    array[:] = data.as_in_context(array.context) if isinstance(data, nd.NDArray) else data
                    continue
                values = data if isinstance(data, nd.NDArray) else nd.array(data, dtype=array._dtype_name)
                _core.overwrite(array, values.as_in_context(array.context).astype(array._dtype_name, copy=False))

    def zero_grad(self):
        """Sets the gradients to 0."""
        for array in self._data or ():
            if self._grad_req != "null":
                array.zero_grad()

    def reset_ctx(self, ctx):
        """Moves the values to other contexts."""
        _refuse_in_trace("moves")
        contexts = [ctx] if isinstance(ctx, Context) else list(ctx)
        if self._data is None and self._deferred is None:
            raise ValueError(f"Cannot reset context for Parameter '{self.name}' because it has not been initialized.")
        if self._data is None:
            self._deferred = (self._deferred[0], contexts, *self._deferred[2:])
        else:
            self._set_arrays([self._data[0].as_nd_ndarray().copyto(context) for context in contexts])

    reset_device = reset_ctx

    def cast(self, dtype):
        """Changes the element type."""
        _refuse_in_trace("casts")
        self._dtype = as_dtype(dtype_name(dtype))
        self._var = None
        if self._data is not None:
            with autograd.pause():
                self._set_arrays([array.as_nd_ndarray().astype(self.dtype) for array in self._data])

    def var(self):
        """The parameter as a variable of a graph."""
        if self._var is None:
            self._var = sym.var(self.name, shape=self._shape, dtype=self.dtype, lr_mult=self.lr_mult, wd_mult=self.wd_mult, init=self.init)
        return self._var.as_np_ndarray() if is_np_array() else self._var

    def _load(self, data, ctx, cast_dtype=False, dtype_source="current", take=False):
        """Values from a file; with take the array itself becomes the parameter's, where nobody else will change it."""
        _refuse_in_trace("loads")
        if self._shape is not None and (len(self._shape) != len(data.shape) or any(a not in (0, b) for a, b in zip(self._shape, data.shape))):
            raise AssertionError(f"Failed loading Parameter '{self.name}' from saved params: shape incompatible expected {self._shape} vs saved {data.shape}")
        self._shape = tuple(data.shape)
        if cast_dtype and dtype_source == "saved":
            self.cast(data.dtype)
        elif cast_dtype:
            data = data.astype(self.dtype)
        elif dtype_name(data.dtype) != dtype_name(self.dtype):
            raise AssertionError(f"Failed loading Parameter '{self.name}' from saved params: dtype incompatible expected {dtype_name(self.dtype)} "
                                 f"vs saved {dtype_name(data.dtype)}. Set cast_dtype=True to cast the dtype of saved params.")
        if self._data is not None and ctx is None:
            return self.set_data(data)
        contexts = [ctx] if isinstance(ctx, Context) else list(ctx or (self._deferred[1] if self._deferred else [current_context()]))
        self._deferred = None
        take = take and contexts == [data.context]
        self._set_arrays([data] if take else [data.copyto(context) for context in contexts])


class Constant(Parameter):
    """A parameter that is never learnt."""

    def __init__(self, name, value=None):
        if value is None:
            name, value = "const", name
        if not isinstance(value, nd.NDArray):
            value = nd.array(value)
        self.value = value
        super().__init__(name, grad_req="null", shape=value.shape, dtype=value.dtype, init=initializer.Constant(value), differentiable=False)

    def __repr__(self):
        return f"Constant {self.name} (shape={self.shape}, dtype={dtype_name(self.dtype)})"

    @property
    def grad_req(self):
        return "null"

    @grad_req.setter
    def grad_req(self, req):
        self._grad_req = "null"
        if req != "null":
            warnings.warn(f"Constant parameter \"{self.name}\" does not support grad_req other than \"null\", and new value \"{req}\" is ignored.")


def __getattr__(name):  # MXNet has it in this module
    if name == "ParameterDict":
        from .parameter_dict import ParameterDict
        return ParameterDict
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
