"""SymbolBlock: a block made of a graph, from files of MXNet or of save()."""
import json
import os

from .. import _core, autograd
from .. import ndarray as nd
from .. import symbol as sym_module
from ..base import DTYPES_BY_CODE, FileError, MXNetError, dtype_name
from ._structure import flatten, is_numpy, regroup, values_in
from .hybrid_block import HybridBlock, on_several_contexts
from .parameter_dict import ParameterDict

__all__ = ["SymbolBlock", "load_block"]


class SymbolBlock(HybridBlock):
    """A block made of a graph: a loaded model runs, trains and hybridizes like any other.

    initialize() decides about first values, as in MXNet: what variables say of their own initialisers is for modules."""

    def __init__(self, outputs, inputs, params=None):
        super().__init__(prefix="")
        self._params = ParameterDict("", params)  # names in the graph are complete
        if isinstance(outputs, (list, tuple)):
            outputs = outputs[0] if len(outputs) == 1 else sym_module.Group(outputs)
        inputs = [inputs] if isinstance(inputs, sym_module.Symbol) else list(inputs)
        self._in_format, self._out_format = [0] * len(inputs), flatten(outputs, "output")[1]
        self._outputs, self._input_names = outputs, [s.name for s in inputs]
        for symbol in inputs:
            if symbol.get_children() is not None:
                raise ValueError(f"Input symbols must be variable, but {symbol.name} is an output of operators")
        shared = params if params is not None else ()
        states, types = set(outputs.list_auxiliary_states()), self._types(outputs, inputs)
        for name in outputs.list_inputs():
            is_absent_label = (name == "label" or name.endswith("_label")) and name not in shared  # zeros, whatever the batch
            if name not in self._input_names and not is_absent_label:
                is_state = name in states
                self._reg_params[name] = self.params.get(name, allow_deferred_init=True, grad_req="null" if is_state else "write",
                                                         **({"dtype": types[name]} if name in types else {}),
                                                         **({"differentiable": False} if is_state else {}))
        self._function = _core.GraphFunction(outputs, self._input_names)

    @staticmethod
    def _types(outputs, inputs):
        """Types of the parameters, where the inputs say theirs."""
        codes = {symbol.name: symbol.attr("__dtype__") for symbol in inputs}
        known = {name: DTYPES_BY_CODE[int(code)] for name, code in codes.items() if code not in (None, "-1")}
        if not known:
            return {}
        arguments, _, states = outputs.infer_type_partial(**known)
        found = zip(outputs.list_arguments() + outputs.list_auxiliary_states(), arguments + states)
        return {name: dtype for name, dtype in found if dtype is not None}

    def _collect_params_with_prefix(self, prefix=""):
        # The part that all names share belongs to the network that the graph came from, but no name is left empty.
        shared = os.path.commonprefix(list(self._reg_params))
        shared = len(shared if shared not in self._reg_params else shared[:shared.rfind("_", 0, -1) + 1])
        return {f"{prefix}.{name[shared:]}" if prefix else name[shared:]: parameter for name, parameter in self._reg_params.items()}

    @staticmethod
    def imports(symbol_file, input_names, param_file=None, ctx=None, allow_missing=False, ignore_extra=False):
        """A block from exported files; labels that the parameters leave over become zeros."""
        outputs = sym_module.load(symbol_file)
        saved = nd.load(param_file) if param_file is not None else {}
        # A file without any parameter has no names: it loads as an empty list.
        values = {n[4:] if n.startswith(("arg:", "aux:")) else n: v for n, v in (saved.items() if saved else ())}
        input_names = [input_names] if isinstance(input_names, str) else list(input_names)
        known = outputs.list_inputs()
        for name in input_names:
            if name not in known:
                raise ValueError(f"the graph has no input named '{name}'; it has {', '.join(n for n in known if n not in values)}")
        block = SymbolBlock(outputs, [sym_module.var(name) for name in input_names])
        if param_file is not None:
            extra = [name for name in values if name not in block._reg_params]
            if extra and not ignore_extra and len(values) == len(extra):
                raise ValueError(f"'{param_file}' has none of the parameters of '{symbol_file}'")
            missing = [name for name in block._reg_params if name not in values]
            if extra and missing:
                raise AssertionError(f"'{symbol_file}' and '{param_file}' do not belong together: Parameter '{missing[0]}' is missing in the latter, "
                                     f"which has '{extra[0]}'")
            for name, parameter in block._reg_params.items():
                if name in values:
                    parameter._load(values[name], ctx, cast_dtype=True, dtype_source="saved", take=True)
                elif not allow_missing:
                    raise AssertionError(f"Parameter '{name}' is missing in file '{param_file}'")
        return block

    def __repr__(self):
        return f"SymbolBlock(\n<{self._outputs.name or 'group'}, {', '.join(self._input_names)}>\n)"

    def _run(self, *args, **kwargs):
        values = list(values_in(args))
        if len(values) != len(self._input_names):
            raise ValueError(f"SymbolBlock: {len(values)} inputs were given, {len(self._input_names)} are needed: {', '.join(self._input_names)}")
        if isinstance(values[0], sym_module.Symbol) and not _core.is_tracing():
            return self._outputs(**dict(zip(self._input_names, values)))
        if any(p._deferred is not None for p in self._reg_params.values()):
            with _core.pause_tracing(), autograd.pause():
                self._infer_parameters(self._outputs, self._input_names, values)
        context = values[0].context if on_several_contexts(self._reg_params) else None
        tensors = {name: p.data(context) for name, p in self._reg_params.items()}
        tensors.update(zip(self._input_names, values))
        results = self._function(tensors, is_numpy(values[0]))
        if not isinstance(self._out_format, list):
            return results
        return regroup(results if isinstance(results, (list, tuple)) else [results], self._out_format)[0]

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "_out_format":  # libraries set it, where they know how the results were nested
            self._clear_cached_op()
            _core.structure_changed()

    def _note_formats(self, args, result):
        """They are known from the beginning."""

    @property
    def _cached_graph(self):
        return [sym_module.var(name) for name in self._input_names], self._outputs

    def _symbol(self):
        return self._outputs

    def _inputs_of(self, symbol, known):
        return self._input_names

    def cast(self, dtype):
        """Changes the element type of all parameters; those of batch norm are never half, as its layers have it."""
        self._clear_cached_op()
        wide = _core.sym_wide_variables(self._outputs) if dtype_name(dtype) in ("float16", "bfloat16") else ()
        for name, parameter in self._reg_params.items():
            parameter.cast("float32" if name in wide else dtype)


def load_block(filename, ctx=None):
    """A block from the one file that save() wrote."""
    entries = _core.read_zip(str(filename))
    try:
        inputs, symbol = json.loads(entries["meta.json"])["inputs"], sym_module.load_json(entries["symbol.json"].decode())
        values = {name[4:]: value for name, value in dict(nd.load_frombuffer(entries["model.params"])).items()}
    except KeyError as missing:
        raise MXNetError(f"{filename}: the file has no {missing}; was it written by save()?") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise FileError(f"{filename}: damaged: {error}") from None
    if not isinstance(inputs, list) or not all(isinstance(name, str) for name in inputs):
        raise FileError(f"{filename}: damaged: meta.json names no inputs")
    block = SymbolBlock(symbol, [sym_module.var(name) for name in inputs])
    for name, parameter in block._reg_params.items():
        if name not in values:
            raise FileError(f"{filename}: damaged: there is no parameter '{name}'")
        parameter._load(values[name], ctx, cast_dtype=True, dtype_source="saved", take=True)
    return block


