"""RNN, LSTM and GRU: whole layers by the fused operator."""
from ... import _core, ndarray as nd
from ...util import is_np_array
from ..hybrid_block import HybridBlock
from .rnn_cell import OpenState, has_open_batch

__all__ = ["RNN", "LSTM", "GRU"]


class _RNNLayer(HybridBlock):
    """Layers over time; data is (time, batch, channel) unless layout='NTC'."""

    def __init__(self, hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer, h2h_weight_initializer,
                 i2h_bias_initializer, h2h_bias_initializer, mode, gates, projection_size=None, dtype="float32", use_sequence_length=False, **kwargs):
        super().__init__(**kwargs)
        if layout not in ("TNC", "NTC"):
            raise AssertionError(f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']")
        self._hidden_size, self._num_layers, self._layout, self._dropout = hidden_size, num_layers, layout, dropout
        self._dir, self._mode, self._gates, self._dtype = 2 if bidirectional else 1, mode, gates, dtype
        self._input_size, self._use_sequence_length, self._projection_size = input_size, use_sequence_length, projection_size
        step = projection_size or hidden_size
        inputs = input_size
        for layer in range(num_layers):
            for side in "lr"[:self._dir]:
                self._add(f"{side}{layer}_i2h_weight", (gates * hidden_size, inputs), i2h_weight_initializer)
                self._add(f"{side}{layer}_h2h_weight", (gates * hidden_size, step), h2h_weight_initializer)
                self._add(f"{side}{layer}_i2h_bias", (gates * hidden_size,), i2h_bias_initializer)
                self._add(f"{side}{layer}_h2h_bias", (gates * hidden_size,), h2h_bias_initializer)
                if projection_size:
                    self._add(f"{side}{layer}_h2r_weight", (projection_size, hidden_size), self._h2r_weight_initializer)
            inputs = step * self._dir

    def _add(self, name, shape, init):
        setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True, dtype=self._dtype))

    def __repr__(self):
        shape = self.l0_i2h_weight.shape
        text = f"{shape[1] or None} -> {self._hidden_size}, {self._layout}"
        text += f", num_layers={self._num_layers}" if self._num_layers != 1 else ""
        text += f", dropout={self._dropout}" if self._dropout else ""
        return f"{type(self).__name__}({text}{', bidirectional' if self._dir == 2 else ''})"

    def _complete(self, args):
        # Weights are packed into one vector, so their shapes follow from the data by this rule only.
        channels = _core.peek_shape(args[0])[2]
        for name, parameter in self._reg_params.items():
            if name.endswith("0_i2h_weight"):
                parameter.shape = (self._gates * self._hidden_size, channels)
            parameter._finish_deferred_init()

    def state_info(self, batch_size=0):
        """Shapes of the states."""
        shape = (self._num_layers * self._dir, batch_size, self._projection_size or self._hidden_size)
        infos = [{"shape": shape, "__layout__": "LNC"}]
        if self._mode == "lstm":
            infos.append({"shape": (*shape[:2], self._hidden_size), "__layout__": "LNC"})
        return infos

    def begin_state(self, batch_size=0, func=None, **kwargs):
        """States to start from: zeros, or what `func` makes."""
        if batch_size == 0 and _core.is_tracing():
            return [OpenState(info["shape"]) for info in self.state_info(batch_size)]
        func = func or nd.zeros
        kwargs.setdefault("dtype", self._dtype)
        states = [func(shape=info["shape"], **kwargs) for info in self.state_info(batch_size)]
        return [state.as_np_ndarray() for state in states] if is_np_array() else states

    def __call__(self, inputs, states=None, sequence_length=None):
        if states is not None and not isinstance(states, (list, tuple)):
            states = [states]
        if sequence_length is not None:
            return super().__call__(inputs, states, sequence_length)
        return super().__call__(inputs) if states is None else super().__call__(inputs, states)

    def hybrid_forward(self, F, inputs, states=None, sequence_length=None, **params):
        batch_axis, time_axis = self._layout.find("N"), self._layout.find("T")
        given = states is not None
        if not given or any(has_open_batch(state) for state in states):
            # Zeros with the batch's extent, taken from the data without looking at it.
            column = F.slice_axis(F.slice_axis(inputs, axis=time_axis, begin=0, end=1), axis=2, begin=0, end=1)
            column = F.zeros_like(F.swapaxes(column, 0, 1) if batch_axis == 0 else column)
            states = [F.broadcast_axis(column, axis=(0, 2), size=(info["shape"][0], info["shape"][2])) for info in self.state_info()]
        if batch_axis == 0:
            inputs = F.swapaxes(inputs, 0, 1)
        more = {"use_sequence_length": True, "sequence_length": sequence_length} if self._use_sequence_length else {}
        if self._mode == "lstm":
            more["state_cell"] = states[1]
        if self._projection_size:
            out, new_states = self._projected(F, inputs, states, sequence_length, params)
        else:
            outputs = F.RNN(inputs, self._packed(F, params), states[0], state_size=self._hidden_size, num_layers=self._num_layers,
                            bidirectional=self._dir == 2, p=self._dropout, state_outputs=True, mode=self._mode, **more)
            out, new_states = outputs[0], [outputs[i] for i in range(1, 3 if self._mode == "lstm" else 2)]
        if batch_axis == 0:
            out = F.swapaxes(out, 0, 1)
        return (out, new_states) if given else out

    def _projected(self, F, inputs, states, lengths, params):
        """An LSTM whose hidden state is projected to a smaller one after every step, which the operator RNN does not do."""
        ends = ([], [])
        reverse = (lambda x: F.reverse(x, axis=0)) if lengths is None else (lambda x: F.SequenceReverse(x, lengths, use_sequence_length=True))
        for layer in range(self._num_layers):
            if layer and self._dropout:
                inputs = F.Dropout(inputs, p=self._dropout)
            outputs = []
            for side in range(self._dir):
                w = {kind: params[f"{'lr'[side]}{layer}_{kind}"] for kind in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias", "h2r_weight")}
                data = reverse(inputs) if side else inputs
                products = F.FullyConnected(data, w["i2h_weight"], w["i2h_bias"], num_hidden=4 * self._hidden_size, flatten=False)
                scanned = [products] if lengths is None else [products, F.SequenceMask(
                    F.ones_like(F.slice_axis(data, axis=2, begin=0, end=1)), lengths, use_sequence_length=True)]

                def step(now, before):
                    gates = now[0] + F.FullyConnected(before[0], w["h2h_weight"], w["h2h_bias"], num_hidden=4 * self._hidden_size)
                    i, f, g, o = F.SliceChannel(gates, num_outputs=4)
                    cell = F.sigmoid(f) * before[1] + F.sigmoid(i) * F.tanh(g)
                    hidden = F.FullyConnected(F.sigmoid(o) * F.tanh(cell), w["h2r_weight"], no_bias=True, num_hidden=self._projection_size)
                    if lengths is None:
                        return hidden, [hidden, cell]
                    mask = now[1]  # after the end of a sequence its states stay, and its outputs are zeros
                    kept = [F.broadcast_mul(mask, new) + F.broadcast_mul(1 - mask, old) for new, old in zip((hidden, cell), before)]
                    return F.broadcast_mul(mask, hidden), kept
                place = layer * self._dir + side
                begin = [F.reshape(F.slice_axis(state, axis=0, begin=place, end=place + 1), shape=(-3, -2)) for state in states]
                out, final = F.contrib.foreach(step, scanned, begin)
                outputs.append(reverse(out) if side else out)
                for kept, state in zip(ends, final):
                    kept.append(state)
            inputs = outputs[0] if len(outputs) == 1 else F.concat(*outputs, dim=2)
        return inputs, [F.stack(*kept, axis=0) for kept in ends]

    def _packed(self, F, params):
        """All weights, then all biases, as one vector."""
        kinds = ("i2h_weight", "h2h_weight")
        names = [f"{side}{layer}_{kind}" for layer in range(self._num_layers) for side in "lr"[:self._dir] for kind in kinds]
        names += [f"{side}{layer}_{kind}" for layer in range(self._num_layers) for side in "lr"[:self._dir] for kind in ("i2h_bias", "h2h_bias")]
        return F._internal._rnn_param_concat(*[F.reshape(params[name], shape=(-1,)) for name in names], dim=0)


class RNN(_RNNLayer):
    """Elman layers with relu or tanh."""

    def __init__(self, hidden_size, num_layers=1, activation="relu", layout="TNC", dropout=0, bidirectional=False, i2h_weight_initializer=None,
                 h2h_weight_initializer=None, i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0, dtype="float32", **kwargs):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer, h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, "rnn_" + activation, 1, dtype=dtype, **kwargs)
        _core.check_attributes("RNN", {"mode": "rnn_" + activation, "state_size": hidden_size, "num_layers": num_layers})


class LSTM(_RNNLayer):
    """Long short-term memory."""

    def __init__(self, hidden_size, num_layers=1, layout="TNC", dropout=0, bidirectional=False, input_size=0, i2h_weight_initializer=None,
                 h2h_weight_initializer=None, i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", projection_size=None,
                 h2r_weight_initializer=None, state_clip_min=None, state_clip_max=None, state_clip_nan=False, dtype="float32", **kwargs):
        if state_clip_min is not None or state_clip_max is not None or state_clip_nan:
            raise NotImplementedError("LSTM: states are not clipped; leave state_clip_min, state_clip_max and state_clip_nan out")
        self._h2r_weight_initializer = h2r_weight_initializer
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer, h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, "lstm", 4, projection_size, dtype=dtype, **kwargs)


class GRU(_RNNLayer):
    """Gated recurrent units."""

    def __init__(self, hidden_size, num_layers=1, layout="TNC", dropout=0, bidirectional=False, input_size=0, i2h_weight_initializer=None,
                 h2h_weight_initializer=None, i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", dtype="float32", **kwargs):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer, h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, "gru", 3, dtype=dtype, **kwargs)
