"""Cells whose products are convolutions (Shi et al., 2015)."""
import functools

from .. import symbol
from .rnn_cell import BaseRNNCell, activated, sliced_states

__all__ = ["BaseConvRNNCell", "ConvRNNCell", "ConvLSTMCell", "ConvGRUCell"]

_leaky = functools.partial(symbol.LeakyReLU, act_type="leaky", slope=0.2)


class BaseConvRNNCell(BaseRNNCell):
    """A convolution of the input and one of the state, for all gates together."""

    def __init__(self, input_shape, num_hidden, h2h_kernel, h2h_dilate, i2h_kernel, i2h_stride, i2h_pad, i2h_dilate, i2h_weight_initializer,
                 h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, activation, prefix="", params=None, conv_layout="NCHW"):
        super().__init__(prefix=prefix, params=params)
        if any(extent % 2 == 0 for extent in h2h_kernel):
            raise AssertionError(f"Only support odd number, get h2h_kernel= {h2h_kernel}")
        self._num_hidden, self._activation, self._layout = num_hidden, activation, conv_layout
        h2h_pad = tuple(d * (k - 1) // 2 for d, k in zip(h2h_dilate, h2h_kernel))  # states keep their extents
        self._i2h = {"kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad, "dilate": i2h_dilate}
        self._h2h = {"kernel": h2h_kernel, "stride": (1,) * len(h2h_kernel), "pad": h2h_pad, "dilate": h2h_dilate}
        self._iW, self._hW = self.params.get("i2h_weight", init=i2h_weight_initializer), self.params.get("h2h_weight", init=h2h_weight_initializer)
        self._iB, self._hB = self.params.get("i2h_bias", init=i2h_bias_initializer), self.params.get("h2h_bias", init=h2h_bias_initializer)
        shape = symbol.Convolution(symbol.Variable("data"), num_filter=num_hidden, layout=conv_layout, **self._i2h).infer_shape(data=(1, *input_shape[1:]))
        self._state_shape = (0, *shape[1][0][1:])

    @property
    def state_info(self):
        return [{"shape": self._state_shape, "__layout__": self._layout}] * self._states

    def _products(self, inputs, state, name):
        common = {"num_filter": self._num_hidden * len(self._gate_names), "layout": self._layout}
        return (symbol.Convolution(data=inputs, weight=self._iW, bias=self._iB, name=f"{name}i2h", **self._i2h, **common),
                symbol.Convolution(data=state, weight=self._hW, bias=self._hB, name=f"{name}h2h", **self._h2h, **common))

    def _parts(self, x, name):
        return symbol.SliceChannel(x, num_outputs=len(self._gate_names), axis=self._layout.find("C"), name=name)

    def _prepared(self, inputs, states):
        name, states = self._step_name(), sliced_states(states, self.state_info, inputs)
        return (name, states, *self._products(inputs, states[0], name))


def _cell(kind, gates, states, call, doc):
    """A class of cells with the common defaults."""
    class Cell(BaseConvRNNCell):
        def __init__(self, input_shape, num_hidden, h2h_kernel=(3, 3), h2h_dilate=(1, 1), i2h_kernel=(3, 3), i2h_stride=(1, 1), i2h_pad=(1, 1),
                     i2h_dilate=(1, 1), i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                     h2h_bias_initializer="zeros", activation=_leaky, prefix=f"{kind}_", params=None, conv_layout="NCHW"):
            super().__init__(input_shape, num_hidden, h2h_kernel, h2h_dilate, i2h_kernel, i2h_stride, i2h_pad, i2h_dilate, i2h_weight_initializer,
                             h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, activation, prefix, params, conv_layout)

        _states, __call__ = states, call
        _gate_names = property(lambda self: gates)
    Cell.__name__ = Cell.__qualname__ = f"{kind}Cell"
    Cell.__doc__ = doc
    return Cell


def _plain(self, inputs, states):
    name, _, i2h, h2h = self._prepared(inputs, states)
    output = activated(i2h + h2h, self._activation, name=f"{name}out")
    return output, [output]


def _lstm(self, inputs, states):
    name, states, i2h, h2h = self._prepared(inputs, states)
    gates = self._parts(i2h + h2h, f"{name}slice")
    in_gate, forget_gate, out_gate = (symbol.Activation(gates[i], act_type="sigmoid", name=f"{name}{gate}") for i, gate in ((0, "i"), (1, "f"), (3, "o")))
    next_c = symbol.elemwise_add(forget_gate * states[1], in_gate * activated(gates[2], self._activation, name=f"{name}c"), name=f"{name}state")
    next_h = symbol.elemwise_mul(out_gate, activated(next_c, self._activation), name=f"{name}out")
    return next_h, [next_h, next_c]


def _gru(self, inputs, states):
    name, states, i2h, h2h = self._prepared(inputs, states)
    i2h, h2h = self._parts(i2h, f"{name}i2h_slice"), self._parts(h2h, f"{name}h2h_slice")
    reset, update = (symbol.Activation(i2h[i] + h2h[i], act_type="sigmoid", name=f"{name}{gate}_act") for i, gate in ((0, "r"), (1, "z")))
    candidate = activated(i2h[2] + reset * h2h[2], self._activation, name=f"{name}h_act")
    next_h = symbol.elemwise_add((1.0 - update) * candidate, update * states[0], name=f"{name}out")
    return next_h, [next_h]


ConvRNNCell = _cell("ConvRNN", ("",), 1, _plain, "activation(i2h + h2h).")
ConvLSTMCell = _cell("ConvLSTM", ("_i", "_f", "_c", "_o"), 2, _lstm, "Long short-term memory.")
ConvGRUCell = _cell("ConvGRU", ("_r", "_z", "_o"), 1, _gru, "Gated recurrent unit.")
