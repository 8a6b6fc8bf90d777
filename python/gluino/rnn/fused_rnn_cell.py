"""FusedRNNCell: whole layers by one operator, whose weights are one vector."""
from .. import initializer as init, ndarray as nd, symbol
from .rnn_cell import BaseRNNCell, BidirectionalCell, DropoutCell, GRUCell, LSTMCell, RNNCell, SequentialRNNCell, is_open, sequence_of

__all__ = ["FusedRNNCell"]

_GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}


class FusedRNNCell(BaseRNNCell):
    """Several layers over a whole sequence; only unroll() can run it."""

    def __init__(self, num_hidden, num_layers=1, mode="lstm", bidirectional=False, dropout=0.0, get_next_state=False, forget_bias=1.0, prefix=None,
                 params=None):
        super().__init__(prefix=f"{mode}_" if prefix is None else prefix, params=params)
        self._num_hidden, self._num_layers, self._mode, self._bidirectional = num_hidden, num_layers, mode, bidirectional
        self._dropout, self._get_next_state, self._forget_bias = dropout, get_next_state, forget_bias
        self._directions = ("l", "r") if bidirectional else ("l",)
        self._parameter = self.params.get("parameters", init=init.FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias))

    @property
    def state_info(self):
        shape = (len(self._directions) * self._num_layers, 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"}] * (2 if self._mode == "lstm" else 1)

    @property
    def _gate_names(self):
        return _GATES[self._mode]

    def __call__(self, inputs, states):
        raise NotImplementedError("FusedRNNCell cannot be stepped. Please use unroll")

    def _pieces(self, num_input):
        """(name, shape) of the parts of the vector, in their order: all weights, then all biases."""
        size = self._num_hidden
        for kind in ("weight", "bias"):
            for layer in range(self._num_layers):
                for side in self._directions:
                    inside = num_input if layer == 0 else size * len(self._directions)
                    for group, width in (("i2h", inside), ("h2h", size)):
                        for gate in self._gate_names:
                            yield f"{self._prefix}{side}{layer}_{group}{gate}_{kind}", (size, width) if kind == "weight" else (size,)

    def unpack_weights(self, args):
        args = dict(args)
        vector = args.pop(self._parameter.name)
        gates, sides, size = len(self._gate_names), len(self._directions), self._num_hidden
        num_input = vector.size // sides // size // gates - (self._num_layers - 1) * (size + sides * size + 2) - size - 2
        at = 0
        for name, shape in self._pieces(num_input):
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            args[name] = vector[at:at + count].reshape(shape).copy()
            at += count
        return args

    def pack_weights(self, args):
        args = dict(args)
        num_input = args[f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"].shape[1]
        args[self._parameter.name] = nd.concatenate([args.pop(name).reshape(-1) for name, _ in self._pieces(num_input)])
        return args

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        self.reset()
        inputs, time = sequence_of(length, inputs, layout, True)
        inputs = symbol.swapaxes(inputs, dim1=0, dim2=1) if time == 1 else inputs
        states = self._zeros_for(inputs) if begin_state is None or any(map(is_open, begin_state)) else begin_state
        more = {"state_cell": states[1]} if self._mode == "lstm" else {}
        out = symbol.RNN(data=inputs, parameters=self._parameter, state=states[0], state_size=self._num_hidden, num_layers=self._num_layers,
                         bidirectional=self._bidirectional, p=self._dropout, state_outputs=self._get_next_state, mode=self._mode,
                         name=f"{self._prefix}rnn", **more)
        outputs = out[0] if self._get_next_state else out
        states = [out[i] for i in range(1, len(self.state_info) + 1)] if self._get_next_state else []
        outputs = symbol.swapaxes(outputs, dim1=0, dim2=1) if time == 1 else outputs
        return sequence_of(length, outputs, layout, merge_outputs)[0], states

    def _zeros_for(self, inputs):
        """States of 0 for the batch of inputs (time, batch, channel)."""
        column = symbol.zeros_like(symbol.slice_axis(symbol.slice_axis(inputs, axis=0, begin=0, end=1), axis=2, begin=0, end=1))
        return [symbol.broadcast_axis(column, axis=(0, 2), size=(info["shape"][0], info["shape"][2])) for info in self.state_info]

    def unfuse(self):
        """The same network of single cells."""
        makers = {"rnn_relu": lambda prefix: RNNCell(self._num_hidden, activation="relu", prefix=prefix),
                  "rnn_tanh": lambda prefix: RNNCell(self._num_hidden, activation="tanh", prefix=prefix),
                  "lstm": lambda prefix: LSTMCell(self._num_hidden, prefix=prefix), "gru": lambda prefix: GRUCell(self._num_hidden, prefix=prefix)}
        make, stack = makers[self._mode], SequentialRNNCell()
        for i in range(self._num_layers):
            cells = [make(f"{self._prefix}{side}{i}_") for side in self._directions]
            stack.add(BidirectionalCell(*cells, output_prefix=f"{self._prefix}bi_l{i}_") if self._bidirectional else cells[0])
            if self._dropout > 0 and i != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{i}_"))
        return stack
