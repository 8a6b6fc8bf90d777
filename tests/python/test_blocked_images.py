"""Compiled networks keep images in blocks of channels: whatever is broadcast over them, joined or chosen among them gives what it gives eagerly, also where
the last block is not full."""
import numpy as np
import pytest

import mxnet as mx
from mxnet.gluon import HybridBlock, nn

CHANNELS = (3, 8, 12, 16, 20, 24)


class RandomNetwork(HybridBlock):
    """Convolutions with other operators between them, drawn from a seed; for images of one or two axes."""

    def __init__(self, seed, axes):
        super().__init__()
        draw, self._axes, self._steps = np.random.RandomState(seed), axes, []
        width = draw.choice(CHANNELS)
        self.first = self._convolution(width)
        for i in range(draw.randint(4, 9)):
            kind = draw.choice(["convolve", "slope", "gate", "map", "number", "relu", "sigmoid", "join", "choose", "enlarge", "row"])
            layer = None
            if kind in ("convolve", "join", "gate"):
                layer = self._convolution(width if kind == "gate" else draw.choice(CHANNELS), 1 if kind == "gate" else draw.choice([1, 3]))
            if kind == "enlarge":
                layer = (nn.Conv2DTranspose if axes == 2 else nn.Conv1DTranspose)(int(draw.choice([1, 5, 8])), 4, strides=2, padding=1)
            if layer is not None:
                self.register_child(layer, f"layer{i}")
            self._steps.append((kind, layer, float(draw.uniform(-1, 1))))
            width = {"convolve": layer and layer._channels, "join": layer and width + layer._channels, "enlarge": layer and layer._channels}.get(kind, width)

    def _convolution(self, channels, window=3):
        return (nn.Conv2D if self._axes == 2 else nn.Conv1D)(int(channels), int(window), padding=int(window) // 2)

    def hybrid_forward(self, F, x):
        ones, spatial = (1,) * self._axes, tuple(range(2, 2 + self._axes))
        x = self.first(x)
        for kind, layer, number in self._steps:
            if kind in ("convolve", "enlarge"):
                x = layer(x)
            elif kind == "slope":  # one for each channel, with and without an axis for the batch
                slope = F.mean(x, axis=(0, *spatial)).reshape((-1, *ones))
                x = F.relu(x) + F.broadcast_mul(F.minimum(x, 0), slope if number > 0 else slope.expand_dims(0))
            elif kind == "gate":
                x = F.broadcast_mul(x, F.sigmoid(layer(F.mean(x, axis=spatial, keepdims=True))))
            elif kind == "map":  # one for all channels
                x = F.broadcast_add(x, F.mean(x, axis=1, keepdims=True))
            elif kind == "row":
                x = F.broadcast_add(x, F.mean(x, axis=(0, 1), keepdims=True))
            elif kind == "number":
                x = F.broadcast_add(x, F.ones((1,)) * number)
            elif kind in ("relu", "sigmoid"):
                x = getattr(F, kind)(x)
            elif kind == "join":
                x = F.concat(x, layer(x), dim=1)
            elif kind == "choose":
                x = F.take(x, F.array([0, 0, 2, 1, 3, 3]), axis=1 + self._axes)
        return x


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("part", range(4))
def test_random_networks(axes, part):
    for seed in range(part * 25, part * 25 + 25):
        mx.random.seed(seed)
        net = RandomNetwork(seed, axes)
        net.initialize(mx.init.Uniform(0.5))
        x = mx.nd.random.uniform(-1, 1, shape=(2, 4, *(9, 7)[:axes]))
        with mx.autograd.predict_mode():
            expected = net(x).asnumpy()
            net.hybridize()
            for _ in range(2):
                got = net(x).asnumpy()
                np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4 * max(1, np.abs(expected).max()), err_msg=f"seed {seed}: {[s[0] for s in net._steps]}")
