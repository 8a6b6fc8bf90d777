"""Executor: a symbol bound to arrays."""
import json
import math

from . import _core, autograd
from .base import MXNetError, dtype_name

__all__ = ["Executor"]


def values_inside(symbol, arguments, states, is_train, with_inputs=False, numpy=False):
    """(name, operator, array) of what each operator gives, fc1_output, and before it of what it gets, fc1_data and fc1_weight.

    Compiled graphs keep no values inside: they are computed beside it, on copies of the states that operators change."""
    internals = symbol.get_internals()
    inside = _core.sym_bind(internals, arguments, {}, {}, {name: state.copy() for name, state in states.items()})
    inside.forward(is_train)
    found = {}  # by node: [(name, array)] of its outputs
    for output, name, value in zip(internals, internals.list_outputs(), inside.outputs(numpy)):
        found.setdefault(output.name, []).append((name, value))
    nodes = json.loads(symbol.tojson())["nodes"]
    for node in nodes:
        if node["op"] == "null":
            continue
        about = _core.describe_operator(node["op"])
        names = [f"arg{i}" for i in range(len(node["inputs"]))] if about["variadic"] else [spec[0] for spec in about["inputs"]]
        for i, (source, output, *_) in enumerate(node["inputs"] if with_inputs else ()):
            given = found[nodes[source]["name"]]
            if output < len(given):
                yield f"{node['name']}_{names[i]}", node["op"], given[output][1]
        for name, value in found.get(node["name"], ()):
            yield name, node["op"], value


class Executor:
    """Runs a graph forward and backward over arrays that the caller may read and write."""

    def __init__(self, symbol, ctx=None, args=None, args_grad=None, grad_req="write", aux_states=None):
        self._symbol, self._ctx = symbol, ctx
        from . import numpy
        self._numpy = isinstance(symbol, numpy._Symbol)  # whose results are arrays of mx.np, which may have no axes
        names, states = symbol.list_arguments(), symbol.list_auxiliary_states()
        arguments = self._by_name(names, args, "args")
        missing = [name for name in names if name not in arguments]
        if missing:
            raise ValueError(f"key `{missing[0]}` is missing in `args`")
        gradients = self._by_name(names, args_grad, "args_grad")
        auxiliary = self._by_name(states, aux_states, "aux_states")
        requests = self._requested = self._requests(names, grad_req)
        self._arg_dict = {name: arguments[name] for name in names}
        self._grad_dict = {name: gradients.get(name) if requests[name] != "null" else None for name in names}
        self._aux_dict = auxiliary
        self._bound = _core.sym_bind(symbol, self.arg_dict, {k: v for k, v in self.grad_dict.items() if v is not None},
                                     {k: v for k, v in requests.items() if self.grad_dict[k] is not None}, auxiliary)
        self._grad_req = grad_req
        self.outputs, self._monitor, self._monitor_all = self._empty_outputs(), None, False

    def _empty_outputs(self):
        """Zeros where the results of forward() will stand; none where shapes depend on values."""
        from . import ndarray, numpy
        zeros = (numpy if self._numpy else ndarray).zeros
        shapes = self._symbol.infer_shape_partial(**{name: array.shape for name, array in self._arg_dict.items()})[1]
        types = _core.sym_infer_type(self._symbol, {name: array._dtype_name for name, array in self._arg_dict.items()}, False)[1]
        if any(shape is None or any(extent <= 0 for extent in shape) for shape in shapes):
            return []
        return [zeros(shape, ctx=self._ctx, dtype=dtype) for shape, dtype in zip(shapes, types)]

    @staticmethod
    def _by_name(names, given, what):
        if given is None:
            return {}
        if isinstance(given, dict):
            return {name: value for name, value in given.items() if name in names and value is not None}
        if len(given) != len(names):
            raise ValueError(f"{what} has {len(given)} arrays, but {len(names)} are needed: {', '.join(names)}")
        return {name: value for name, value in zip(names, given) if value is not None}

    @staticmethod
    def _requests(names, grad_req):
        if isinstance(grad_req, str):
            return dict.fromkeys(names, grad_req)
        if isinstance(grad_req, dict):
            return {name: grad_req.get(name, "null") for name in names}
        return dict(zip(names, grad_req))

    @classmethod
    def allocate(cls, symbol, ctx, grad_req, type_dict, shapes, stype_dict=None):
        """With new arrays of shapes that follow from those given, and of the storage types given here or to the variables."""
        from .ndarray import zeros
        from .ndarray.ndarray import _STORAGE_TYPE_ID_TO_STR
        arg_shapes, _, aux_shapes = symbol.infer_shape(**shapes)
        if arg_shapes is None:
            partial = symbol.infer_shape_partial(**shapes)[0]
            unknown = [name for name, shape in zip(symbol.list_arguments(), partial) if not shape or 0 in shape]
            raise MXNetError(f"simple_bind: the shapes given ({shapes}) leave those of {', '.join(unknown)} open")
        arg_types, _, aux_types = _core.sym_infer_type(symbol, {name: dtype_name(t) for name, t in (type_dict or {}).items()}, False)
        names, states = symbol.list_arguments(), symbol.list_auxiliary_states()
        kinds = {n: _STORAGE_TYPE_ID_TO_STR[int(attrs["__storage_type__"])] for n, attrs in symbol.attr_dict().items() if "__storage_type__" in attrs}
        kinds.update(stype_dict or {})
        args = {n: zeros(s, ctx, t, kinds.get(n)) for n, s, t in zip(names, arg_shapes, arg_types)}
        aux = {n: zeros(s, ctx, t) for n, s, t in zip(states, aux_shapes, aux_types)}
        requests = cls._requests(names, grad_req)
        requests = {n: request if "float" in args[n]._dtype_name else "null" for n, request in requests.items()}  # whole numbers are not learnt
        grads = {n: zeros(args[n].shape, ctx, args[n].dtype) for n in names if requests[n] != "null"}
        return cls(symbol, ctx, args, grads, requests, aux)

    @property
    def arg_dict(self):
        """Arguments by name."""
        return self._arg_dict

    @property
    def grad_dict(self):
        """Gradients by the names of their arguments; None where none is wanted."""
        return self._grad_dict

    @property
    def aux_dict(self):
        """Auxiliary states by name."""
        return self._aux_dict

    @property
    def arg_arrays(self):
        """Arguments in order."""
        return list(self.arg_dict.values())

    @property
    def grad_arrays(self):
        """Gradients in the order of the arguments."""
        return list(self.grad_dict.values())

    @property
    def aux_arrays(self):
        """Auxiliary states in order."""
        return list(self.aux_dict.values())

    @property
    def output_dict(self):
        """Outputs by name."""
        return dict(zip(self._symbol.list_outputs(), self.outputs))

    def forward(self, is_train=False, **kwargs):
        """Writes the given inputs, runs, returns the outputs."""
        for name, value in kwargs.items():
            if name not in self.arg_dict:
                raise TypeError(f"Unknown argument {name}")
            self.arg_dict[name][:] = value
        if self._monitor is not None:
            self._tell_monitor(bool(is_train))
        self._bound.forward(bool(is_train))
        self._take_outputs()
        return self.outputs

    def _take_outputs(self):
        # Whoever holds an output sees the new values.
        found = self._bound.outputs(self._numpy)
        if [(x.shape, x.dtype) for x in found] != [(x.shape, x.dtype) for x in self.outputs]:
            self.outputs = found
            return
        for new, held in zip(found, self.outputs):
            _core.copy_into(new, held)

    def set_monitor_callback(self, callback, monitor_all=False):
        """Calls callback(name, array) for the outputs of all operators at every forward, and for what goes in with monitor_all."""
        self._monitor, self._monitor_all = callback, monitor_all

    def _tell_monitor(self, is_train):
        for name, _, value in values_inside(self._symbol, self.arg_dict, self.aux_dict, is_train, self._monitor_all, self._numpy):
            self._monitor(name, value)

    def get_optimized_symbol(self):
        """The symbol: graphs are optimised inside the engine."""
        return self._symbol

    def debug_str(self):
        """The graph as text, one node per line."""
        return self._symbol.debug_str()

    def backward(self, out_grads=None, is_train=True):
        """Writes the gradients."""
        if all(gradient is None for gradient in self.grad_dict.values()):
            return
        if isinstance(out_grads, dict):
            out_grads = [out_grads[name] for name in self._symbol.list_outputs()]
        elif out_grads is not None and not isinstance(out_grads, (list, tuple)):
            out_grads = [out_grads]
        self._bound.backward(list(out_grads or []))

    def copy_params_from(self, arg_params, aux_params=None, allow_extra_params=False):
        """Copies values into arguments and states by name."""
        for target, values, kind in ((self.arg_dict, arg_params, "arguments"), (self.aux_dict, aux_params or {}, "auxiliary states")):
            for name, value in values.items():
                if name in target:
                    target[name][:] = value.astype(target[name].dtype)
                elif not allow_extra_params:
                    raise ValueError(f"Find name \"{name}\" that is not in the {kind}")

    def reshape(self, partial_shaping=False, allow_up_sizing=False, **kwargs):
        """An executor for other input shapes. Arrays share the memory of those here; only larger ones get their own, with allow_up_sizing."""
        from .ndarray import zeros
        arg_shapes, _, aux_shapes = self._symbol.infer_shape(**kwargs)
        if arg_shapes is None:
            raise ValueError("Insufficient argument shapes provided.")

        def fitted(name, array, shape):
            if array is None or array.shape == tuple(shape):
                return array
            if not (partial_shaping or name in kwargs):
                raise AssertionError(f"Shape of unspecified array {name} changed. This can cause the new executor to not share parameters with the old "
                                     "one. Please check for error in network. If this is intended, set partial_shaping=True to suppress this warning.")
            if math.prod(shape) <= array.size:
                return array.reshape(shape)
            if not allow_up_sizing:
                raise AssertionError(f"New shape of {name} larger than original. First making a big executor and then down sizing it is more efficient "
                                     "than the reverse. If you really want to up size, set allow_up_sizing=True to enable allocation of new arrays.")
            return zeros(shape, self._ctx, array.dtype)
        with autograd.pause():
            shapes, states = dict(zip(self._arg_dict, arg_shapes)), dict(zip(self._symbol.list_auxiliary_states(), aux_shapes))
            args = {name: fitted(name, array, shapes[name]) for name, array in self._arg_dict.items()}
            grads = {name: fitted(name, array, shapes[name]) for name, array in self._grad_dict.items()}
            aux = {name: fitted(name, array, states[name]) for name, array in self._aux_dict.items()}
        return Executor(self._symbol, self._ctx, args, grads, self._requested, aux)
