"""Cells: one step of a recurrent network as a symbol; unroll() puts several together."""
import warnings

from .. import _register, initializer as init, ndarray as nd, symbol
from ..base import _as_list

__all__ = ["RNNParams", "BaseRNNCell", "RNNCell", "LSTMCell", "GRUCell", "SequentialRNNCell", "BidirectionalCell", "DropoutCell", "ModifierCell",
           "ZoneoutCell", "ResidualCell"]


class RNNParams:
    """Variables by name, made once."""

    def __init__(self, prefix=""):
        self._prefix, self._params = prefix, {}

    def get(self, name, **kwargs):
        """The variable prefix + name."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = symbol.Variable(name, **kwargs)
        return self._params[name]


def sequence_of(length, inputs, layout, merge):
    """Inputs as one symbol (merge=True), as one per step (False), or as they are (None); and the axis of time."""
    if inputs is None:
        raise AssertionError("unroll(inputs=None) has been deprecated. Please create input variables outside unroll.")
    time = layout.find("T")
    if isinstance(inputs, symbol.Symbol) and len(inputs.list_outputs()) == 1:
        if merge is False:
            parts = symbol.split(inputs, axis=time, num_outputs=length, squeeze_axis=1)
            inputs = list(parts) if length > 1 else [parts]
    else:
        inputs = list(inputs)
        if length is not None and len(inputs) != length:
            raise AssertionError(f"{len(inputs)} inputs for {length} steps")
        if merge is True:
            inputs = symbol.Concat(*[symbol.expand_dims(step, axis=time) for step in inputs], dim=time)
    return inputs, time


def sliced_states(states, infos, step):
    """States whose batch is not known (0) as zeros that take it from the first axis of an input."""
    made = []
    for state, info in zip(states, infos):
        if not is_open(state):
            made.append(state)
            continue
        column = symbol.zeros_like(step)
        for axis in range(1, len(info["shape"])):
            column = symbol.slice_axis(column, axis=axis, begin=0, end=1)
        made.append(symbol.broadcast_axis(column, axis=tuple(range(1, len(info["shape"]))), size=info["shape"][1:]))
    return made


def is_open(state):
    """Whether a symbol is zeros or ones with an extent of 0, which stands for the batch."""
    shape = state.attr("shape") if state is not None and state.get_children() is None else None
    return bool(shape) and "0" in [extent.strip() for extent in shape.strip("()[]").split(",")]


class BaseRNNCell:
    """The base: define state_info, _gate_names and __call__(inputs, states)."""

    def __init__(self, prefix="", params=None):
        self._own_params = params is None
        self._prefix, self._params, self._modified = prefix, RNNParams(prefix) if params is None else params, False
        self.reset()

    def reset(self):
        """Before another sequence."""
        self._init_counter = self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs, states):
        raise NotImplementedError(f"{type(self).__name__} must define __call__")

    @property
    def params(self):
        """The variables."""
        self._own_params = False
        return self._params

    @property
    def state_info(self):
        """Shapes of the states."""
        raise NotImplementedError(f"{type(self).__name__} must define state_info")

    @property
    def state_shape(self):
        """Shapes of the states."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self):
        return ()

    def begin_state(self, func=symbol.zeros, **kwargs):
        """States to start from; an extent of 0 stands for the batch."""
        if self._modified:
            raise AssertionError("After applying modifier cells (e.g. DropoutCell) the base cell cannot be called directly. Call the modifier cell instead.")
        states = []
        for info in self.state_info:
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(func(name=name, **{**kwargs, **{k: v for k, v in (info or {}).items() if k == "shape" or func is symbol.Variable}}))
        return states

    # ---- weights, one array for all gates or one for each

    def unpack_weights(self, args):
        """Weights of all gates as weights of each."""
        args, size = dict(args), self._num_hidden if self._gate_names else 0
        for group in ("i2h", "h2h") if self._gate_names else ():
            weight, bias = args.pop(f"{self._prefix}{group}_weight"), args.pop(f"{self._prefix}{group}_bias")
            for i, gate in enumerate(self._gate_names):
                args[f"{self._prefix}{group}{gate}_weight"] = weight[i * size:(i + 1) * size].copy()
                args[f"{self._prefix}{group}{gate}_bias"] = bias[i * size:(i + 1) * size].copy()
        return args

    def pack_weights(self, args):
        """The reverse."""
        args = dict(args)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                parts = [args.pop(f"{self._prefix}{group}{gate}_{kind}") for gate in self._gate_names]
                args[f"{self._prefix}{group}_{kind}"] = nd.concatenate(parts)
        return args

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        """Runs `length` steps; gives the outputs (one symbol with merge_outputs=True) and the last states."""
        self.reset()
        steps, _ = sequence_of(length, inputs, layout, False)
        states, outputs = self.begin_state() if begin_state is None else begin_state, []
        for step in steps:
            output, states = self(step, states)
            outputs.append(output)
        return sequence_of(length, outputs, layout, merge_outputs)[0], states

    def _step_name(self):
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"


class _Gated(BaseRNNCell):
    """Cells with an input-to-hidden and a hidden-to-hidden product."""

    def __init__(self, num_hidden, prefix, params, **bias):
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        self._iW, self._iB = self.params.get("i2h_weight"), self.params.get("i2h_bias", **bias)
        self._hW, self._hB = self.params.get("h2h_weight"), self.params.get("h2h_bias")

    @property
    def state_info(self):
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _products(self, inputs, state, name):
        rows = self._num_hidden * len(self._gate_names)
        return (symbol.FullyConnected(data=inputs, weight=self._iW, bias=self._iB, num_hidden=rows, name=f"{name}i2h"),
                symbol.FullyConnected(data=state, weight=self._hW, bias=self._hB, num_hidden=rows, name=f"{name}h2h"))


def activated(inputs, activation, **kwargs):
    """An activation by name, or a function."""
    return symbol.Activation(inputs, act_type=activation, **kwargs) if isinstance(activation, str) else activation(inputs, **kwargs)


class RNNCell(_Gated):
    """activation(i2h + h2h)."""

    def __init__(self, num_hidden, activation="tanh", prefix="rnn_", params=None):
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    @property
    def _gate_names(self):
        return ("",)

    def __call__(self, inputs, states):
        name, states = self._step_name(), sliced_states(states, self.state_info, inputs)
        i2h, h2h = self._products(inputs, states[0], name)
        output = activated(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


class LSTMCell(_Gated):
    """Long short-term memory, gates i, f, c, o."""

    def __init__(self, num_hidden, prefix="lstm_", params=None, forget_bias=1.0):
        super().__init__(num_hidden, prefix, params, init=init.LSTMBias(forget_bias=forget_bias))

    @property
    def state_info(self):
        return super().state_info * 2

    @property
    def _gate_names(self):
        return ("_i", "_f", "_c", "_o")

    def __call__(self, inputs, states):
        name, states = self._step_name(), sliced_states(states, self.state_info, inputs)
        i2h, h2h = self._products(inputs, states[0], name)
        gates = symbol.SliceChannel(i2h + h2h, num_outputs=4, name=f"{name}slice")
        in_gate, forget_gate, out_gate = (symbol.Activation(gates[i], act_type="sigmoid", name=f"{name}{gate}") for i, gate in ((0, "i"), (1, "f"), (3, "o")))
        new = symbol.Activation(gates[2], act_type="tanh", name=f"{name}c")
        next_c = symbol.elemwise_add(forget_gate * states[1], in_gate * new, name=f"{name}state")
        next_h = symbol.elemwise_mul(out_gate, symbol.Activation(next_c, act_type="tanh"), name=f"{name}out")
        return next_h, [next_h, next_c]


class GRUCell(_Gated):
    """Gated recurrent unit, gates r, z, o."""

    def __init__(self, num_hidden, prefix="gru_", params=None):
        super().__init__(num_hidden, prefix, params)

    @property
    def _gate_names(self):
        return ("_r", "_z", "_o")

    def __call__(self, inputs, states):
        name, states = self._step_name(), sliced_states(states, self.state_info, inputs)
        i2h, h2h = self._products(inputs, states[0], name)
        i2h = symbol.SliceChannel(i2h, num_outputs=3, name=f"{name}i2h_slice")
        h2h = symbol.SliceChannel(h2h, num_outputs=3, name=f"{name}h2h_slice")
        reset = symbol.Activation(i2h[0] + h2h[0], act_type="sigmoid", name=f"{name}r_act")
        update = symbol.Activation(i2h[1] + h2h[1], act_type="sigmoid", name=f"{name}z_act")
        candidate = symbol.Activation(i2h[2] + reset * h2h[2], act_type="tanh", name=f"{name}h_act")
        next_h = symbol.elemwise_add((1.0 - update) * candidate, update * states[0], name=f"{name}out")
        return next_h, [next_h]


class SequentialRNNCell(BaseRNNCell):
    """Cells on top of each other."""

    def __init__(self, params=None):
        super().__init__(prefix="", params=params)
        self._override_cell_params, self._cells = params is not None, []

    def add(self, cell):
        """Appends a cell."""
        self._cells.append(cell)
        if self._override_cell_params:
            if not cell._own_params:
                raise AssertionError("Either specify params for SequentialRNNCell or child cells, not both.")
            cell.params._params.update(self.params._params)
        self.params._params.update(cell.params._params)

    @property
    def state_info(self):
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, **kwargs):
        if self._modified:
            raise AssertionError("After applying modifier cells the base cell cannot be called directly. Call the modifier cell instead.")
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def unpack_weights(self, args):
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args):
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args

    def _each(self, states):
        at = 0
        for cell in self._cells:
            count = len(cell.state_info)
            yield cell, states[at:at + count]
            at += count

    def __call__(self, inputs, states):
        self._counter += 1
        new = []
        for cell, own in self._each(states):
            if isinstance(cell, BidirectionalCell):
                raise AssertionError("a BidirectionalCell cannot be stepped: use unroll")
            inputs, own = cell(inputs, own)
            new.extend(own)
        return inputs, new

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        self.reset()
        states, new = self.begin_state() if begin_state is None else begin_state, []
        for i, (cell, own) in enumerate(self._each(states)):
            last = i == len(self._cells) - 1
            inputs, own = cell.unroll(length, inputs, own, layout, merge_outputs if last else None)
            new.extend(own)
        return inputs, new


class DropoutCell(BaseRNNCell):
    """Dropout of the input."""

    def __init__(self, dropout, prefix="dropout_", params=None):
        super().__init__(prefix, params)
        if not isinstance(dropout, (int, float)):
            raise AssertionError("dropout probability must be a number")
        self.dropout = dropout

    @property
    def state_info(self):
        return []

    def __call__(self, inputs, states):
        return (symbol.Dropout(data=inputs, p=self.dropout) if self.dropout > 0 else inputs), states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        self.reset()
        inputs, _ = sequence_of(length, inputs, layout, merge_outputs)
        if isinstance(inputs, symbol.Symbol):
            return self(inputs, [])
        return [self(step, [])[0] for step in inputs], []


class ModifierCell(BaseRNNCell):
    """A cell around another."""

    def __init__(self, base_cell):
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self):
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self):
        return self.base_cell.state_info

    def begin_state(self, init_sym=symbol.zeros, **kwargs):
        if self._modified:
            raise AssertionError("After applying modifier cells the base cell cannot be called directly. Call the modifier cell instead.")
        self.base_cell._modified = False
        states = self.base_cell.begin_state(**{"func": init_sym, **kwargs})  # which it gets from a modifier around it
        self.base_cell._modified = True
        return states

    def unpack_weights(self, args):
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args):
        return self.base_cell.pack_weights(args)

    def reset(self):
        super().reset()
        if hasattr(self, "base_cell"):
            self.base_cell.reset()


class ZoneoutCell(ModifierCell):
    """Keeps some outputs and states of the step before (Krueger et al., 2016)."""

    def __init__(self, base_cell, zoneout_outputs=0.0, zoneout_states=0.0):
        if isinstance(base_cell, BidirectionalCell):
            raise AssertionError("BidirectionalCell doesn't support zoneout since it doesn't support step. Please add ZoneoutCell to the cells underneath instead.")
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states, self.prev_output = zoneout_outputs, zoneout_states, None

    def reset(self):
        super().reset()
        self.prev_output = None

    def __call__(self, inputs, states):
        states = sliced_states(states, self.state_info, inputs)
        output, new = self.base_cell(inputs, states)

        def kept(rate, now, before):
            return symbol.where(symbol.Dropout(symbol.ones_like(now), p=rate), now, before) if rate else now
        previous = symbol.zeros_like(output) if self.prev_output is None else self.prev_output
        self.prev_output = output = kept(self.zoneout_outputs, output, previous)
        return output, [kept(self.zoneout_states, now, before) for now, before in zip(new, states)]


class ResidualCell(ModifierCell):
    """Adds the input to the output."""

    def __call__(self, inputs, states):
        output, states = self.base_cell(inputs, states)
        return self._sum(output, inputs), states

    @staticmethod
    def _sum(output, inputs):
        return symbol.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        self.reset()
        self.base_cell._modified = False
        outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge_outputs)
        self.base_cell._modified = True
        merged = isinstance(outputs, symbol.Symbol) if merge_outputs is None else merge_outputs
        inputs, outputs = (sequence_of(length, sequence, layout, merged)[0] for sequence in (inputs, outputs))
        return (self._sum(outputs, inputs) if merged else [self._sum(*pair) for pair in zip(outputs, inputs)]), states


class BidirectionalCell(BaseRNNCell):
    """One cell forwards and one backwards; only unroll() can run it."""

    def __init__(self, l_cell, r_cell, params=None, output_prefix="bi_"):
        super().__init__("", params=params)
        self._output_prefix, self._cells = output_prefix, [l_cell, r_cell]
        for cell in self._cells:
            if params is not None:
                cell.params._params.update(self.params._params)
            self.params._params.update(cell.params._params)

    def __call__(self, inputs, states):
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    unpack_weights, pack_weights = SequentialRNNCell.unpack_weights, SequentialRNNCell.pack_weights
    begin_state = SequentialRNNCell.begin_state

    @property
    def state_info(self):
        return [info for cell in self._cells for info in cell.state_info]

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        self.reset()
        steps, time = sequence_of(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        left, right = self._cells
        cut = len(left.state_info)
        l_outputs, l_states = left.unroll(length, steps, states[:cut], layout, False)
        r_outputs, r_states = right.unroll(length, list(reversed(steps)), states[cut:], layout, False)
        outputs = [symbol.Concat(a, b, dim=1, name=f"{self._output_prefix}t{i}") for i, (a, b) in enumerate(zip(_as_list(l_outputs), reversed(_as_list(r_outputs))))]
        return sequence_of(length, outputs, layout, merge_outputs)[0], [*l_states, *r_states]


def warn_deprecated(old, new):
    """Says that a function has an heir."""
    warnings.warn(f"{old} is deprecated. Please call {new} directly.", DeprecationWarning, stacklevel=3)


__getattr__ = _register.elsewhere("gluino.rnn")  # MXNet has the fused and the convolutional cells in this module
