"""Operators written in Python: CustomOp computes, CustomOpProp describes, register names them for mx.nd.Custom and mx.sym.Custom."""
import functools
import itertools
import weakref

from . import _core
from .base import MXNetError, as_dtype, dtype_name
from .context import current_context
from .name import NameManager, current as _names
from .util import is_np_array

__all__ = ["CustomOp", "CustomOpProp", "register", "get_all_registered_operators", "get_operator_arguments", "PythonOp", "NumpyOp", "NDArrayOp"]

_registry = {}


class CustomOp:
    """What an operator computes: define forward and backward, which write into given arrays through assign."""

    def forward(self, is_train, req, in_data, out_data, aux):
        """Writes out_data from in_data; req says how for each output."""

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        """Writes in_grad from out_grad and what forward had and gave."""

    def assign(self, dst, req, src):
        """dst = src as `req` wants it: "write", "inplace", "add" or "null"."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src


class CustomOpProp:
    """What is known about an operator before it runs. Attributes of the call come to __init__ as texts."""

    def __init__(self, need_top_grad=True):
        self.need_top_grad_ = need_top_grad

    def list_arguments(self):
        """Names of the inputs."""
        return ["data"]

    def list_outputs(self):
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self):
        """Names of inputs that the operator may change."""
        return []

    def infer_shape(self, in_shape):
        """(shapes of arguments, of outputs, of auxiliary states) from those of the arguments."""
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type):
        """(types of arguments, of outputs, of auxiliary states) from those of the arguments."""
        return in_type, [in_type[0]] * len(self.list_outputs()), [in_type[0]] * len(self.list_auxiliary_states())

    def infer_storage_type(self, in_stype):
        """(kinds of storage of arguments, of outputs, of auxiliary states): arrays come dense."""
        for i, stype in enumerate(in_stype):
            if stype not in ("default", "undefined"):
                raise AssertionError(f"Default infer_storage_type implementation doesnt allow non default stypes: found {stype} for argument {i}")
        return in_stype, ["default"] * len(self.list_outputs()), ["default"] * len(self.list_auxiliary_states())

    def infer_storage_type_backward(self, ograd_stype, in_stype, out_stype, igrad_stype, aux_stype):
        """The same for backward: gradients come dense."""
        for i, stype in enumerate(ograd_stype):
            if stype not in ("default", "undefined"):
                raise AssertionError(f"Default infer_storage_type_backward implementation doesnt allow non default stypes: found {stype} for gradient {i}")
        return [["default"] * len(kinds) for kinds in (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype)]

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        """What backward reads; everything is kept here."""
        return [*(out_grad if self.need_top_grad_ else []), *in_data, *out_data]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        """The CustomOp for inputs of these shapes and types."""
        return CustomOp()


def register(reg_name):
    """A decorator of a CustomOpProp: op_type=reg_name of mx.nd.Custom means it."""
    def registered(prop_class):
        if not issubclass(prop_class, CustomOpProp):
            raise TypeError(f"register('{reg_name}') needs a class derived from CustomOpProp, not {prop_class}")
        _registry[reg_name] = prop_class
        return prop_class
    return registered


def get_all_registered_operators():
    """Names of all operators that have a function; those of register() are called by Custom's."""
    return sorted({op for _, op in _core.operator_names()})


def get_all_registered_operators_grouped():
    """Operators with all names that each of them has."""
    names = {}
    for alias, op in _core.operator_names():
        names.setdefault(op, []).append(alias)
    return names


class OperatorArguments:
    """What an operator takes: names and types of inputs and parameters."""

    def __init__(self, names, types):
        self.names, self.types, self.narg = names, types, len(names)


def get_operator_arguments(op_name):
    """The arguments of an operator of the engine."""
    about = _core.describe_operator(op_name)
    inputs = [(name, "NDArray-or-Symbol[]" if about["variadic"] else "NDArray-or-Symbol") for name, _, _ in about["inputs"]]
    parameters = [(name, f"{kind}, {'required' if needed else 'optional'}") for name, kind, needed, _, _ in about["fields"]]
    return OperatorArguments([name for name, _ in inputs + parameters], [kind for _, kind in inputs + parameters])


class PythonOp:
    """An operator of the oldest kind: one object that describes and computes. Call it with symbols."""

    _kept = []  # symbols run after the caller has forgotten the object

    def __init__(self, need_top_grad=True):
        self.need_top_grad_ = need_top_grad

    def __call__(self, *args, **kwargs):
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args, **kwargs):
        """The symbol of a call."""
        from .symbol import Custom
        kind = f"_python_op_{len(PythonOp._kept)}"
        PythonOp._kept.append(self)
        register(kind)(self._prop_class())
        return Custom(*args, op_type=kind, **kwargs)

    def _prop_class(self):
        op = self

        class Prop(CustomOpProp):
            """Asks the object."""

            def __init__(self):
                super().__init__(op.need_top_grad())

            list_arguments = staticmethod(op.list_arguments)
            list_outputs = staticmethod(op.list_outputs)

            def infer_shape(self, in_shape):
                return (*op.infer_shape(in_shape), [])

            def create_operator(self, ctx, in_shapes, in_dtypes):
                return op._runner()
        return Prop

    def _runner(self):
        raise NotImplementedError("derive from NumpyOp or NDArrayOp")

    def forward(self, in_data, out_data):
        """Writes the outputs; as it is, copies the first input."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad, in_data, out_data, in_grad):
        """Writes the gradients of the inputs; as it is, 1."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape):
        """(shapes of arguments, of outputs)."""
        return in_shape, [in_shape[0]]

    def list_outputs(self):
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self):
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self):
        """Whether backward reads out_grad."""
        return self.need_top_grad_


class _PythonRunner(CustomOp):
    """Runs a PythonOp: over arrays, or over NumPy's copies of them that are written back."""

    def __init__(self, op, numpy):
        self._op, self._numpy = op, numpy

    def _run(self, function, given, written):
        if not self._numpy:
            return function(*given, written)
        results = [array.asnumpy().copy() for array in written]
        function(*[[array.asnumpy() for array in arrays] for arrays in given], results)
        for target, result in zip(written, results):
            target[:] = result
        return None

    def forward(self, is_train, req, in_data, out_data, aux):
        self._run(self._op.forward, [in_data], out_data)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self._run(self._op.backward, [out_grad, in_data, out_data], in_grad)


class NumpyOp(PythonOp):
    """forward and backward get NumPy arrays."""

    def _runner(self):
        return _PythonRunner(self, numpy=True)


class NDArrayOp(PythonOp):
    """forward and backward get arrays of mx.nd."""

    def _runner(self):
        return _PythonRunner(self, numpy=False)

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        """What backward reads; everything is kept here."""
        return [*(out_grad if self.need_top_grad() else []), *in_data, *out_data]


def _make_prop(op_type, attrs):
    if op_type not in _registry:
        raise MXNetError(f"Custom: no operator is registered as '{op_type}'; import the module that has @mx.operator.register('{op_type}')")
    return _registry[op_type](**attrs)


def _arrays(given):
    return [array.as_np_ndarray() for array in given] if is_np_array() else given


class _Run:
    """One run of forward: who may go back from it has this."""
    __slots__ = ("op", "__weakref__")
    _numbers, _alive = itertools.count(1), weakref.WeakValueDictionary()

    def __init__(self, op):
        self.op = op


class Call:
    """One node of a graph, or one call on arrays: the engine asks it for rules and runs.

    An operator may keep values between forward and backward, so every run has one of its own, and a CustomOpProp that knows its shapes.
    """

    def __init__(self, op_type, attrs):
        self._make_prop = functools.partial(_make_prop, op_type, attrs)
        self._prop, self._inferred = self._make_prop(), None
        self.arguments, self.outputs = list(self._prop.list_arguments()), list(self._prop.list_outputs())
        self.states = list(self._prop.list_auxiliary_states())

    def infer_shape(self, shapes):
        """(shapes of arguments and states, shapes of outputs); those of unknown arguments come as None."""
        self._inferred = [() if shape is None else tuple(shape) for shape in shapes]
        found = self._describing().infer_shape([list(shape) for shape in self._inferred])
        states = found[2] if len(found) > 2 else []
        self._check("shapes", len(found[0]), len(found[1]), len(states))
        return [tuple(shape) for shape in [*found[0], *states]], [tuple(shape) for shape in found[1]]

    def infer_type(self, types):
        """Types of the outputs."""
        found = self._describing().infer_type([as_dtype(name) for name in types])
        self._check("types", len(found[0]), len(found[1]), len(found[2]) if len(found) > 2 else 0)
        return [dtype_name(type_) for type_ in found[1]]

    def _check(self, what, *counts):
        expected = len(self.arguments), len(self.outputs), len(self.states)
        if counts != expected:
            raise ValueError(f"{counts} {what} of arguments, outputs and auxiliary states, but {expected} were listed")

    def _describing(self):
        if self._prop is None:  # a run has taken it
            self._prop = self._make_prop()
        return self._prop

    def _prop_of_run(self, shapes, types):
        prop, self._prop = self._prop, None
        if prop is None or self._inferred != shapes:
            prop = self._make_prop()
            prop.infer_shape([list(shape) for shape in shapes])
            prop.infer_type(list(types))
        return prop

    def forward(self, is_train, in_data, out_data, aux):
        """Runs forward; gives the number of the run, and what is to be kept as long as backward may follow."""
        shapes, types = [array.shape for array in in_data], [array.dtype for array in in_data]
        run = _Run(self._prop_of_run(shapes, types).create_operator(current_context(), shapes, types))
        run.op.forward(is_train=is_train, req=["write"] * len(out_data), in_data=_arrays(in_data), out_data=_arrays(out_data), aux=_arrays(aux))
        number = next(_Run._numbers)
        _Run._alive[number] = run
        return number, run

    def backward(self, run, req, out_grad, in_data, out_data, in_grad, aux):
        """Runs the backward that belongs to a run of forward."""
        found = _Run._alive.get(run)
        if found is None:
            raise MXNetError("Custom: what forward kept for this backward is gone")
        found.op.backward(req=req, out_grad=_arrays(out_grad), in_data=_arrays(in_data), out_data=_arrays(out_data), in_grad=_arrays(in_grad),
                          aux=_arrays(aux))


def custom_function(operator, symbolic):
    """mx.nd.Custom or mx.sym.Custom: inputs by place or name, attributes as texts."""
    def Custom(*args, op_type, name=None, **kwargs):
        """Calls the operator that was registered as `op_type`; other keywords are its inputs by name, or attributes."""
        named = {key: value for key, value in kwargs.items() if isinstance(value, (_core.Array, _core.SymbolBase))}
        special = {key: kwargs[key] for key in ("out", "attr") if key in kwargs}
        attrs = {key: str(value) for key, value in kwargs.items() if key not in named and key not in special}
        prop = _make_prop(op_type, attrs)
        inputs = list(args)
        make_variables = symbolic and not _core.is_tracing()
        name = _names().get(name, "custom") if make_variables else name
        for expected in [*prop.list_arguments(), *prop.list_auxiliary_states()][len(args):]:
            if expected in named:
                inputs.append(named.pop(expected))
            elif make_variables:
                from .symbol import var
                inputs.append(var(f"{name}_{expected}"))
            else:
                raise TypeError(f"Custom: input '{expected}' of '{op_type}' is missing")
        if named:
            raise TypeError(f"Custom: '{op_type}' has no input named '{next(iter(named))}'")
        if _core.is_tracing_body() and _core.is_recording():
            _core.refuse_trace(f"a loop or branch calls the Custom operator '{op_type}', which it would run again to go back")
        if not make_variables:
            return operator(*inputs, op_type=op_type, name=name, **attrs, **special)
        with NameManager():  # the name is complete
            return operator(*inputs, op_type=op_type, name=name, **attrs, **special)
    return Custom
