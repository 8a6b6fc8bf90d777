"""Cells: one step of a recurrent network; unroll() runs several."""
import numbers

from ... import _core
from ... import ndarray as nd
from ... import symbol as sym
from ...util import is_np_array
from ..block import Block
from ..hybrid_block import HybridBlock
from ._sequences import *  # noqa: F401,F403: other libraries import them from here

__all__ = ["RecurrentCell", "HybridRecurrentCell", "RNNCell", "LSTMCell", "GRUCell", "SequentialRNNCell", "HybridSequentialRNNCell", "DropoutCell",
           "ModifierCell", "ZoneoutCell", "ResidualCell", "BidirectionalCell"]


class OpenState:
    """What begin_state(batch_size=0) gives in a program that is traced: 0 stands for the batch of the input, which is not known yet."""

    def __init__(self, shape):
        self.shape = shape


def has_open_batch(state):
    """Whether a state waits for the batch."""
    return isinstance(state, OpenState) or (isinstance(state, nd.NDArray) and 0 in state.shape)


def _functions(x):
    return sym if isinstance(x, sym.Symbol) else nd


def _steps(inputs, length, layout):
    """(list of one array per step, axis of time, axis of the batch)."""
    time, batch = layout.find("T"), layout.find("N")
    if isinstance(inputs, (list, tuple)):
        if length is not None and len(inputs) != length:
            raise AssertionError(f"{len(inputs)} inputs for {length} steps")
        return list(inputs), time, batch
    if inputs is None:
        raise AssertionError("unroll(inputs=None) has been deprecated. Please create input variables outside unroll.")
    if isinstance(inputs, nd.NDArray) and length is not None and inputs.shape[time] != length:
        raise AssertionError(f"inputs of shape {inputs.shape} with layout {layout} do not have {length} steps")
    F = _functions(inputs)
    parts = F.split(inputs, num_outputs=length, axis=time, squeeze_axis=True)
    return list(parts) if length > 1 else [parts], time, batch


class RecurrentCell(Block):
    """The base of cells."""

    _unwatched = Block._unwatched | {"_counter", "_init_counter", "_modified"}  # of steps, for names alone; and who may ask

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def reset(self):
        """Before another sequence."""
        self._init_counter = self._counter = -1
        for child in self._children.values():
            child.reset()

    def state_info(self, batch_size=0):
        """Shapes of the states."""
        raise NotImplementedError()

    def begin_state(self, batch_size=0, func=nd.zeros, **kwargs):
        """States to start from; batch_size=0 leaves the batch to the input."""
        if self._modified:
            raise AssertionError("After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called directly. Call the modifier cell instead.")
        if batch_size == 0 and _core.is_tracing():
            return [OpenState(info["shape"]) for info in self.state_info(batch_size)]
        states = [func(shape=info["shape"], **kwargs) for info in self.state_info(batch_size)]
        return [state.as_np_ndarray() for state in states] if is_np_array() else states

    def _begin_like(self, step):
        """Zeros for the batch of this input."""
        F = _functions(step)
        column = F.zeros_like(F.slice_axis(step, axis=1, begin=0, end=1))
        return [F.broadcast_axis(column, axis=1, size=info["shape"][1]) for info in self.state_info(1)]

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        """Runs `length` steps; gives the outputs, merged along time on demand, and the last states."""
        self.reset()
        merged = not isinstance(inputs, (list, tuple)) if merge_outputs is None else merge_outputs
        inputs, time, _ = _steps(inputs, length, layout)
        F = _functions(inputs[0])
        states = begin_state if begin_state is not None else self._begin_like(inputs[0])
        outputs, history = [], []
        for step in inputs:
            output, states = self(step, states)
            outputs.append(output)
            history.append(states)
        if valid_length is not None:
            states = [F.SequenceLast(F.stack(*parts, axis=0), valid_length, use_sequence_length=True, axis=0) for parts in zip(*history)]
            stacked = F.SequenceMask(F.stack(*outputs, axis=time), valid_length, use_sequence_length=True, axis=time)
            return (stacked, states) if merged else (_steps(stacked, length, layout)[0], states)
        return (F.stack(*outputs, axis=time), states) if merged else (outputs, states)

    def forward(self, inputs, states):
        self._counter += 1
        return super().forward(inputs, self._with_batch(inputs, states))

    def _step_name(self, name):
        """What an operator of this step is called in a graph, as rnn_t0_out."""
        return f"t{self._counter}_{name}"

    def _with_batch(self, inputs, states):
        """States that were begun with batch_size=0, which stands for the batch of the input, as zeros of that batch."""
        if not any(has_open_batch(state) for state in states):
            return states
        zeros = self._begin_like(inputs)
        return [zero if has_open_batch(state) else state for state, zero in zip(states, zeros)]


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """A cell that can be compiled."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F, x, *args, **kwargs):
        raise NotImplementedError


class _GatedCell(HybridRecurrentCell):
    """Cells with an input-to-hidden and a hidden-to-hidden product."""

    _gates = 1

    def __init__(self, hidden_size, i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._input_size, rows = hidden_size, input_size, self._gates * hidden_size
        for name, shape, init in (("i2h_weight", (rows, input_size), i2h_weight_initializer), ("h2h_weight", (rows, hidden_size), h2h_weight_initializer),
                                  ("i2h_bias", (rows,), i2h_bias_initializer), ("h2h_bias", (rows,), h2h_bias_initializer)):
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}]

    def __repr__(self):
        shape = self.i2h_weight.shape
        return f"{type(self).__name__}({shape[1] or None} -> {shape[0]})"

    def _products(self, F, inputs, state, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        rows = self._gates * self._hidden_size
        return (F.FullyConnected(inputs, i2h_weight, i2h_bias, num_hidden=rows, name=self._step_name("i2h")),
                F.FullyConnected(state, h2h_weight, h2h_bias, num_hidden=rows, name=self._step_name("h2h")))


def activated(F, x, activation, name=None):
    """An activation by name, or a block or function of the user's."""
    return F.Activation(x, act_type=activation, name=name) if isinstance(activation, str) else activation(x)


class RNNCell(_GatedCell):
    """activation(i2h + h2h)."""

    def __init__(self, hidden_size, activation="tanh", i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None):
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, input_size, prefix,
                         params)
        self._activation = activation

    def _alias(self):
        return "rnn"

    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        i2h, h2h = self._products(F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        sums = F.elemwise_add(i2h, h2h, name=self._step_name("plus0"))
        output = activated(F, sums, self._activation, self._step_name("out"))
        return output, [output]


class LSTMCell(_GatedCell):
    """Long short-term memory, gates i, f, g, o."""

    _gates = 4

    def __init__(self, hidden_size, i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None, activation="tanh", recurrent_activation="sigmoid"):
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, input_size, prefix,
                         params)
        self._activation, self._recurrent_activation = activation, recurrent_activation

    def _alias(self):
        return "lstm"

    def state_info(self, batch_size=0):
        return super().state_info(batch_size) * 2

    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        i2h, h2h = self._products(F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        sums = F.elemwise_add(i2h, h2h, name=self._step_name("plus0"))
        next_h, next_c = self.gated(F, sums, states[1], self._activation, self._recurrent_activation, self._step_name)
        return next_h, [next_h, next_c]

    @staticmethod
    def gated(F, sums, cell_state, activation="tanh", recurrent_activation="sigmoid", named=lambda name: None):
        """(hidden state, cell state) of the next step, from the sums before the gates."""
        gates = F.SliceChannel(sums, num_outputs=4, name=named("slice"))
        in_gate, forget_gate, new, out_gate = (activated(F, gate, activation if name == "c" else recurrent_activation, named(name))
                                               for gate, name in zip(gates, "ifco"))
        next_c = F.elemwise_add(F.elemwise_mul(forget_gate, cell_state, name=named("mul0")), F.elemwise_mul(in_gate, new, name=named("mul1")),
                                name=named("state"))
        return F.elemwise_mul(out_gate, activated(F, next_c, activation, named("activation0")), name=named("out")), next_c


class GRUCell(_GatedCell):
    """Gated recurrent unit, gates r, z, n."""

    _gates = 3

    def _alias(self):
        return "gru"

    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        i2h, h2h = self._products(F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        named = self._step_name
        i2h, h2h = F.SliceChannel(i2h, num_outputs=3, name=named("i2h_slice")), F.SliceChannel(h2h, num_outputs=3, name=named("h2h_slice"))
        reset = F.Activation(F.elemwise_add(i2h[0], h2h[0], name=named("plus0")), act_type="sigmoid", name=named("r_act"))
        update = F.Activation(F.elemwise_add(i2h[1], h2h[1], name=named("plus1")), act_type="sigmoid", name=named("z_act"))
        candidate = F.Activation(F.elemwise_add(i2h[2], F.elemwise_mul(reset, h2h[2], name=named("mul0")), name=named("plus2")), act_type="tanh",
                                 name=named("h_act"))
        rest = F.elemwise_sub(F.ones_like(update, name=named("ones_like0")), update, name=named("minus0"))
        next_h = F.elemwise_add(F.elemwise_mul(rest, candidate, name=named("mul1")), F.elemwise_mul(update, states[0], name=named("mul20")),
                                name=named("out"))
        return next_h, [next_h]


class _Stack:
    """What both kinds of stacked cells share."""

    def add(self, cell):
        """Appends a cell."""
        self.register_child(cell)

    def state_info(self, batch_size=0):
        return [info for cell in self._children.values() for info in cell.state_info(batch_size)]

    def _stacked(self, inputs, states):
        new, at = [], 0
        for cell in self._children.values():
            size = len(cell.state_info())
            inputs, state = cell(inputs, states[at:at + size])
            at += size
            new.extend(state)
        return inputs, new

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        """All steps of each cell before the next one: some cells, the bidirectional ones, cannot be stepped."""
        self.reset()
        cells, states, at = list(self._children.values()), [], 0
        for i, cell in enumerate(cells):
            size = len(cell.state_info())
            begin = None if begin_state is None else begin_state[at:at + size]
            inputs, state = cell.unroll(length, inputs, begin, layout, merge_outputs if i == len(cells) - 1 else None, valid_length)
            at += size
            states.extend(state)
        return inputs, states

    def __len__(self):
        return len(self._children)

    def __getitem__(self, i):
        return list(self._children.values())[i]


class SequentialRNNCell(_Stack, RecurrentCell):
    """Cells on top of each other."""

    def hybrid_forward(self, *args, **kwargs):
        """Raises: HybridSequentialRNNCell can be compiled."""
        raise NotImplementedError("SequentialRNNCell cannot be compiled; use HybridSequentialRNNCell")

    def forward(self, inputs, states):
        return self._stacked(inputs, states)


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """Hybrid cells on top of each other."""

    def hybrid_forward(self, F, inputs, states):
        return self._stacked(inputs, states)


class DropoutCell(HybridRecurrentCell):
    """Dropout of the input."""

    def __init__(self, rate, axes=(), prefix=None, params=None):
        super().__init__(prefix, params)
        if not isinstance(rate, numbers.Number):
            raise AssertionError(f"rate must be a number, not {rate!r}")
        self._rate, self._axes = rate, axes

    def state_info(self, batch_size=0):
        return []

    def _begin_like(self, step):
        return []

    def hybrid_forward(self, F, inputs, states):
        return (F.Dropout(inputs, p=self._rate, axes=self._axes, name=self._step_name("fwd")) if self._rate > 0 else inputs), states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        self.reset()
        merged = not isinstance(inputs, (list, tuple)) if merge_outputs is None else merge_outputs
        if not merged:
            return super().unroll(length, inputs, begin_state, layout, False)
        if isinstance(inputs, (list, tuple)):  # all steps at once, so that axes are those of the sequence
            steps, time, _ = _steps(inputs, length, layout)
            inputs = _functions(steps[0]).stack(*steps, axis=time)
        return self.hybrid_forward(_functions(inputs), inputs, begin_state or [])


class ModifierCell(HybridRecurrentCell):
    """A cell around another."""

    def __init__(self, base_cell):
        if base_cell._modified:
            raise AssertionError(f"Cell {base_cell.name} is already modified. One cell cannot be modified twice")
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias())
        self.base_cell = base_cell

    @property
    def params(self):
        """The parameters of the cell inside."""
        return self.base_cell.params

    def state_info(self, batch_size=0):
        return self.base_cell.state_info(batch_size)

    def begin_state(self, func=nd.zeros, **kwargs):
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func=func, **kwargs)
        finally:
            self.base_cell._modified = True

    def hybrid_forward(self, F, inputs, states):
        """What the cell around does; define it."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward")


class ZoneoutCell(ModifierCell):
    """Keeps some outputs and states of the step before (Krueger et al., 2016)."""

    def __init__(self, base_cell, zoneout_outputs=0.0, zoneout_states=0.0):
        if isinstance(base_cell, BidirectionalCell):
            raise AssertionError("BidirectionalCell doesn't support zoneout since it doesn't support step. Please add ZoneoutCell to the cells underneath "
                                 "instead.")
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states, self._previous = zoneout_outputs, zoneout_states, None

    def _alias(self):
        return "zoneout"

    def reset(self):
        super().reset()
        self._previous = None

    def hybrid_forward(self, F, inputs, states):
        output, new = self.base_cell(inputs, states)
        keep = lambda p, now, before: F.where(F.Dropout(F.ones_like(now), p=p), now, before) if p else now  # noqa: E731
        previous = F.zeros_like(output) if self._previous is None else self._previous
        self._previous = output = keep(self.zoneout_outputs, output, previous)
        return output, [keep(self.zoneout_states, n, o) for n, o in zip(new, states)]


class ResidualCell(ModifierCell):
    """Adds the input to the output."""

    def hybrid_forward(self, F, inputs, states):
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=self._step_name("fwd")), states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        self.reset()
        self.base_cell._modified = False
        try:  # as a whole: the base may be a cell that cannot be stepped
            outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        finally:
            self.base_cell._modified = True
        steps, time, _ = _steps(inputs, length, layout)
        F = _functions(steps[0])
        if valid_length is not None:
            steps = _steps(F.SequenceMask(F.stack(*steps, axis=time), valid_length, use_sequence_length=True, axis=time), length, layout)[0]
        if isinstance(outputs, (list, tuple)):
            return [F.elemwise_add(output, step) for output, step in zip(outputs, steps)], states
        return F.elemwise_add(outputs, F.stack(*steps, axis=time)), states


class BidirectionalCell(HybridRecurrentCell):
    """One cell forwards and one backwards; only unroll() can run it."""

    def __init__(self, l_cell, r_cell, output_prefix="bi_"):
        super().__init__(prefix="", params=None)
        self.l_cell, self.r_cell, self._output_prefix = l_cell, r_cell, output_prefix

    def __call__(self, inputs, states):
        raise NotImplementedError("Bidirectional cell cannot be stepped. Please use unroll")

    def state_info(self, batch_size=0):
        return self.l_cell.state_info(batch_size) + self.r_cell.state_info(batch_size)

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        self.reset()
        merged = not isinstance(inputs, (list, tuple)) if merge_outputs is None else merge_outputs
        steps, time, _ = _steps(inputs, length, layout)
        F = _functions(steps[0])
        states = begin_state if begin_state is not None else self.l_cell._begin_like(steps[0]) + self.r_cell._begin_like(steps[0])
        cut = len(self.l_cell.state_info())

        def reverse(sequence):
            if valid_length is None:
                return list(reversed(sequence))
            turned = F.SequenceReverse(F.stack(*sequence, axis=0), valid_length, use_sequence_length=True)
            return list(F.split(turned, num_outputs=length, axis=0, squeeze_axis=True)) if length > 1 else sequence
        left, left_states = self.l_cell.unroll(length, steps, states[:cut], layout, False, valid_length)
        right, right_states = self.r_cell.unroll(length, reverse(steps), states[cut:], layout, False, valid_length)
        pairs, states = list(zip(left, reverse(right))), left_states + right_states
        if merged:
            return F.concat(*(F.stack(*side, axis=time) for side in zip(*pairs)), dim=2, name=f"{self._output_prefix}out"), states
        return [F.concat(*pair, dim=1, name=f"{self._output_prefix}t{i}") for i, pair in enumerate(pairs)], states
