"""OnnxBlock: an ONNX graph that runs, trains, hybridizes and exports like any other block."""
from .. import _core
from .. import symbol as sym_module
from ..context import current_context
from ..gluon._structure import is_numpy, values_in
from ..gluon.hybrid_block import HybridBlock
from ..gluon.parameter_dict import ParameterDict

__all__ = ["OnnxBlock", "import_model"]


class OnnxBlock(HybridBlock):
    """A block made of an ONNX file. It is called with arrays in the order of the graph's inputs; its initializers are parameters."""

    def __init__(self, model_file, ctx=None):
        super().__init__(prefix="")
        self._params = ParameterDict("")  # names in the graph are complete
        self._program = _core.OnnxProgram(str(model_file))
        self._file = str(model_file)
        for name, value in self._program.parameters():
            is_state = self._program.is_state(name)
            parameter = self.params.get(name, shape=value.shape, dtype=value.dtype, grad_req="null" if is_state else "write",
                                        differentiable=not is_state)
            parameter._load(value, ctx or current_context(), cast_dtype=True, dtype_source="saved")
            self._reg_params[name] = parameter

    @property
    def input_names(self):
        return [name for name, _, _ in self._program.inputs()]

    @property
    def output_names(self):
        return [name for name, _, _ in self._program.outputs()]

    def __repr__(self):
        return f"OnnxBlock({self._file}: {', '.join(self.input_names)})"

    def __call__(self, *args):
        return super().__call__(*args) if args else self._run()  # a graph of constants has no inputs

    def _run(self, *args, **kwargs):
        values = list(values_in(args))
        if values and isinstance(values[0], sym_module.Symbol) and not _core.is_tracing():
            outputs, _ = self._program.symbol({})
            return outputs(**dict(zip(self.input_names, values)))
        parameters = [p.data() for p in self._reg_params.values()]
        return self._program(values, parameters, bool(values) and is_numpy(values[0]))

    def _collect_params_with_prefix(self, prefix=""):
        return {f"{prefix}.{name}" if prefix else name: parameter for name, parameter in self._reg_params.items()}


def import_model(model_file, ctx=None):
    """A block from an ONNX file; raises an error that lists every node that cannot be imported."""
    return OnnxBlock(model_file, ctx)


def _symbol_and_params(model_file):
    """The model as MXNet has it: symbol, arguments, auxiliary states."""
    program = _core.OnnxProgram(str(model_file))
    symbol, parameters = program.symbol({})
    states = set(symbol.list_auxiliary_states())
    values = dict(parameters)
    return symbol, {n: v for n, v in values.items() if n not in states}, {n: v for n, v in values.items() if n in states}


def _metadata(model_file):
    program = _core.OnnxProgram(str(model_file))

    def shapes(values):
        return [(name, tuple(e if isinstance(e, int) else 0 for e in shape or ())) for name, _, shape in values]
    return {"input_tensor_data": shapes(program.inputs()), "output_tensor_data": shapes(program.outputs())}
