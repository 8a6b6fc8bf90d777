"""Recurrent cells whose products are convolutions: of one, two or three axes, plain, LSTM and GRU (Shi et al., 2015)."""
from ..._options import check_layout
from ...rnn.rnn_cell import HybridRecurrentCell, activated

__all__ = ["Conv1DRNNCell", "Conv2DRNNCell", "Conv3DRNNCell", "Conv1DLSTMCell", "Conv2DLSTMCell", "Conv3DLSTMCell", "Conv1DGRUCell",
           "Conv2DGRUCell", "Conv3DGRUCell"]


def _per_axis(value, axes, name):
    made = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(made) != axes:
        raise ValueError(f"{name} has {len(made)} numbers, but the data has {axes} axes beside batch and channels")
    return made


class _ConvCell(HybridRecurrentCell):
    """A convolution of the input and one of the state, for all gates together."""

    _gates = 1

    def __init__(self, input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad, i2h_dilate, h2h_dilate, i2h_weight_initializer,
                 h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, conv_layout, activation, prefix, params):
        super().__init__(prefix=prefix, params=params)
        axes = len(input_shape) - 1
        check_layout(self, conv_layout, axes)
        self._layout, self._activation, self._hidden_channels = conv_layout, activation, hidden_channels
        self._i2h_kernel, self._h2h_kernel = _per_axis(i2h_kernel, axes, "i2h_kernel"), _per_axis(h2h_kernel, axes, "h2h_kernel")
        if any(extent % 2 == 0 for extent in self._h2h_kernel):
            raise AssertionError(f"Only support odd number, get h2h_kernel= {h2h_kernel}")
        self._i2h_pad, self._i2h_dilate = _per_axis(i2h_pad, axes, "i2h_pad"), _per_axis(i2h_dilate, axes, "i2h_dilate")
        self._h2h_dilate = _per_axis(h2h_dilate, axes, "h2h_dilate")
        self._h2h_pad = tuple(d * (k - 1) // 2 for d, k in zip(self._h2h_dilate, self._h2h_kernel))  # states keep their extents
        self._channels_first = conv_layout.startswith("NC")
        self._input_shape = tuple(input_shape)
        channels, spatial = (input_shape[0], input_shape[1:]) if self._channels_first else (input_shape[-1], input_shape[:-1])
        after = tuple((x + 2 * p - d * (k - 1) - 1) + 1 for x, p, d, k in zip(spatial, self._i2h_pad, self._i2h_dilate, self._i2h_kernel))
        self._state_shape = (hidden_channels, *after) if self._channels_first else (*after, hidden_channels)
        rows = self._gates * hidden_channels
        for name, shape, init in (("i2h_weight", self._weight_shape(rows, channels, self._i2h_kernel), i2h_weight_initializer),
                                  ("h2h_weight", self._weight_shape(rows, hidden_channels, self._h2h_kernel), h2h_weight_initializer),
                                  ("i2h_bias", (rows,), i2h_bias_initializer), ("h2h_bias", (rows,), h2h_bias_initializer)):
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def _weight_shape(self, rows, channels, kernel):
        return (rows, channels, *kernel) if self._channels_first else (rows, *kernel, channels)

    def __repr__(self):
        return f"{type(self).__name__}({self._input_shape} -> {self._state_shape})"

    def _alias(self):
        return "conv_" + self._kind

    def state_info(self, batch_size=0):
        """Shapes of the states."""
        return [{"shape": (batch_size, *self._state_shape), "__layout__": self._layout}] * self._states

    def _begin_like(self, step):
        from ...rnn.rnn_cell import _functions
        F = _functions(step)
        one = F.zeros_like(step)
        for axis in range(1, len(self._layout)):
            one = F.slice_axis(one, axis=axis, begin=0, end=1)
        return [F.broadcast_axis(one, axis=tuple(range(1, len(self._layout))), size=self._state_shape)] * self._states

    def _products(self, F, inputs, state, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        common = {"num_filter": self._gates * self._hidden_channels, "layout": self._layout}
        i2h = F.Convolution(inputs, i2h_weight, i2h_bias, kernel=self._i2h_kernel, pad=self._i2h_pad, dilate=self._i2h_dilate,
                            name=self._step_name("i2h"), **common)
        return i2h, F.Convolution(state, h2h_weight, h2h_bias, kernel=self._h2h_kernel, pad=self._h2h_pad, dilate=self._h2h_dilate,
                                  name=self._step_name("h2h"), **common)

    def _activated(self, F, x, name=None):
        return activated(F, x, self._activation, name and self._step_name(name))

    def _gate(self, F, x, name):
        return F.Activation(x, act_type="sigmoid", name=self._step_name(name))

    def _parts(self, F, x, name):
        return F.SliceChannel(x, num_outputs=self._gates, axis=self._layout.find("C"), name=self._step_name(name))


class _ConvRNNCell(_ConvCell):
    _kind, _states = "rnn", 1

    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        i2h, h2h = self._products(F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        output = self._activated(F, i2h + h2h, "out")
        return output, [output]


class _ConvLSTMCell(_ConvCell):
    _kind, _states, _gates = "lstm", 2, 4

    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        i2h, h2h = self._products(F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        gates = self._parts(F, i2h + h2h, "slice")
        in_gate, forget_gate, out_gate = (self._gate(F, gates[i], name) for i, name in ((0, "i"), (1, "f"), (3, "o")))
        next_c = F.elemwise_add(forget_gate * states[1], in_gate * self._activated(F, gates[2], "c"), name=self._step_name("state"))
        next_h = F.elemwise_mul(out_gate, self._activated(F, next_c), name=self._step_name("out"))
        return next_h, [next_h, next_c]


class _ConvGRUCell(_ConvCell):
    _kind, _states, _gates = "gru", 1, 3

    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        i2h, h2h = self._products(F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        i2h, h2h = self._parts(F, i2h, "i2h_slice"), self._parts(F, h2h, "h2h_slice")
        reset, update = (self._gate(F, i2h[i] + h2h[i], name) for i, name in ((0, "r_act"), (1, "z_act")))
        next_h = F.elemwise_add((1.0 - update) * self._activated(F, i2h[2] + reset * h2h[2], "h_act"), update * states[0], name=self._step_name("out"))
        return next_h, [next_h]


def _with_axes(base, axes):
    """The class over so many axes, with their defaults."""
    zeros, ones, layout = (0,) * axes, (1,) * axes, {1: "NCW", 2: "NCHW", 3: "NCDHW"}[axes]

    class Cell(base):
        def __init__(self, input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad=zeros, i2h_dilate=ones, h2h_dilate=ones,
                     i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros", h2h_bias_initializer="zeros",
                     conv_layout=layout, activation="tanh", prefix=None, params=None):
            super().__init__(input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad, i2h_dilate, h2h_dilate, i2h_weight_initializer,
                             h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, conv_layout, activation, prefix, params)
    Cell.__name__ = Cell.__qualname__ = f"Conv{axes}D{base._kind.upper()}Cell"
    Cell.__doc__ = f"A cell of the kind {base._kind} over {axes} axes; `input_shape` is that of one sample."
    return Cell


Conv1DRNNCell, Conv2DRNNCell, Conv3DRNNCell = (_with_axes(_ConvRNNCell, axes) for axes in (1, 2, 3))
Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell = (_with_axes(_ConvLSTMCell, axes) for axes in (1, 2, 3))
Conv1DGRUCell, Conv2DGRUCell, Conv3DGRUCell = (_with_axes(_ConvGRUCell, axes) for axes in (1, 2, 3))
