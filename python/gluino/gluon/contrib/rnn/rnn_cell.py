"""Contributed recurrent cells."""
from ...rnn.rnn_cell import HybridRecurrentCell, LSTMCell, ModifierCell

__all__ = ["VariationalDropoutCell", "LSTMPCell", "dynamic_unroll"]


class VariationalDropoutCell(ModifierCell):
    """Dropout around a cell that leaves out the same elements at all steps of a sequence (Gal and Ghahramani, 2015)."""

    def __init__(self, base_cell, drop_inputs=0.0, drop_states=0.0, drop_outputs=0.0):
        super().__init__(base_cell)
        self._rates = {"inputs": drop_inputs, "states": drop_states, "outputs": drop_outputs}

    def _alias(self):
        return "vardrop"

    def reset(self):
        super().reset()
        self._masks = {}

    def _masked(self, F, what, x):
        if not self._rates[what]:
            return x
        if what not in self._masks:
            self._masks[what] = F.Dropout(F.ones_like(x), p=self._rates[what])
        return x * self._masks[what]

    def hybrid_forward(self, F, inputs, states):
        states = [self._masked(F, "states", states[0]), *states[1:]]
        output, states = self.base_cell(self._masked(F, "inputs", inputs), states)
        return self._masked(F, "outputs", output), states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        """Runs `length` steps with one set of masks."""
        return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)


class LSTMPCell(HybridRecurrentCell):
    """Long short-term memory whose output is a projection of the hidden state (Sak et al., 2014)."""

    def __init__(self, hidden_size, projection_size, i2h_weight_initializer=None, h2h_weight_initializer=None, h2r_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._projection_size, rows = hidden_size, projection_size, 4 * hidden_size
        for name, shape, init in (("i2h_weight", (rows, input_size), i2h_weight_initializer),
                                  ("h2h_weight", (rows, projection_size), h2h_weight_initializer),
                                  ("h2r_weight", (projection_size, hidden_size), h2r_weight_initializer),
                                  ("i2h_bias", (rows,), i2h_bias_initializer), ("h2h_bias", (rows,), h2h_bias_initializer)):
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def _alias(self):
        return "lstmp"

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in (self._projection_size, self._hidden_size)]

    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, h2r_weight, i2h_bias, h2h_bias):
        rows = 4 * self._hidden_size
        sums = (F.FullyConnected(inputs, i2h_weight, i2h_bias, num_hidden=rows, name=self._step_name("i2h")) +
                F.FullyConnected(states[0], h2h_weight, h2h_bias, num_hidden=rows, name=self._step_name("h2h")))
        hidden, next_c = LSTMCell.gated(F, sums, states[1], named=lambda name: self._step_name("hidden" if name == "out" else name))
        projected = F.FullyConnected(hidden, h2r_weight, num_hidden=self._projection_size, no_bias=True, name=self._step_name("out"))
        return projected, [projected, next_c]


def dynamic_unroll(cell, inputs, begin_state, drop_inputs=0, drop_outputs=0, layout="TNC", valid_length=None):
    """Runs a cell over a sequence of any length, as a loop; gives the outputs and the last states, those of valid_length where it is given."""
    from ...rnn.rnn_cell import _functions
    F = _functions(inputs)
    time = layout.find("T")
    steps = F.swapaxes(inputs, 0, 1) if time == 1 else inputs
    if drop_inputs:
        steps = F.Dropout(steps, p=drop_inputs, axes=(0,))

    def step(x, states):
        output, states = cell(x, states)
        return [output, *states], states
    results, states = F.contrib.foreach(step, steps, begin_state)
    outputs, history = results[0], results[1:]
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(0,))
    if valid_length is not None:
        outputs = F.SequenceMask(outputs, sequence_length=valid_length, use_sequence_length=True, axis=0)
        states = [F.SequenceLast(each, sequence_length=valid_length, use_sequence_length=True, axis=0) for each in history]
    return F.swapaxes(outputs, 0, 1) if time == 1 else outputs, states
