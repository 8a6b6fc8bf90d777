"""NaN and infinities go the same way through a network hybridized and eagerly: neither hidden by a fused activation nor spread by an algorithm
that computes many outputs at once. A network that has diverged must look it in every mode."""
import numpy as np
import pytest

import gluino as mx
from gluino import gluon, nd
from gluino.gluon import nn

ACTIVATIONS = {
    "none": lambda: nn.HybridLambda(lambda F, x: x * 1), "relu": lambda: nn.Activation("relu"), "sigmoid": lambda: nn.Activation("sigmoid"),
    "tanh": lambda: nn.Activation("tanh"), "leaky": lambda: nn.LeakyReLU(0.1), "prelu": nn.PReLU, "gelu": nn.GELU, "swish": nn.Swish,
    "relu6": lambda: nn.HybridLambda(lambda F, x: F.clip(x, 0, 6)), "maximum": lambda: nn.HybridLambda(lambda F, x: F.maximum(x, 0.2)),
}


class Residual(gluon.HybridBlock):
    def __init__(self, channels, activation):
        super().__init__()
        self.convolution, self.activation = nn.Conv2D(channels, 3, padding=1), activation()

    def hybrid_forward(self, F, x):
        return self.activation(self.convolution(x) + x)


class Branches(gluon.HybridBlock):
    def __init__(self, channels, activation):
        super().__init__()
        self.narrow, self.wide, self.activation = nn.Conv2D(channels, 1), nn.Conv2D(channels, 3, padding=1), activation()

    def hybrid_forward(self, F, x):
        return self.activation(F.concat(self.narrow(x), self.wide(x), dim=1))


NETWORKS = {
    "3 x 3": lambda c, act: [nn.Conv2D(c, 3, padding=1), act()],
    "two 3 x 3": lambda c, act: [nn.Conv2D(64, 3, padding=1), act(), nn.Conv2D(c, 3, padding=1), act()],
    "1 x 1": lambda c, act: [nn.Conv2D(c, 1), act(), nn.Conv2D(c, 1), act()],
    "7 x 7": lambda c, act: [nn.Conv2D(c, 7, padding=3), act()],
    "stride 2": lambda c, act: [nn.Conv2D(c, 3, strides=2, padding=1), act()],
    "depthwise": lambda c, act: [nn.Conv2D(c, 3, padding=1, groups=c), act()],
    "separable": lambda c, act: [nn.Conv2D(2 * c, 1), act(), nn.Conv2D(2 * c, 3, padding=1, groups=2 * c), act(), nn.Conv2D(c, 1)],
    "normalised": lambda c, act: [nn.Conv2D(c, 3, padding=1, use_bias=False), nn.BatchNorm(), act()],
    "transposed": lambda c, act: [nn.Conv2DTranspose(c, 3), act()],
    "largest": lambda c, act: [nn.Conv2D(c, 3), act(), nn.MaxPool2D(2)],
    "mean": lambda c, act: [nn.Conv2D(c, 3), act(), nn.GlobalAvgPool2D()],
    "along rows": lambda c, act: [nn.HybridLambda(lambda F, x: F.reshape(x, (0, 0, -1))), nn.Conv1D(c, 3), act()],
    "dense": lambda c, act: [nn.Dense(c), act(), nn.Dense(c), act()],
    "residual": lambda c, act: [Residual(c, act)],
    "branches": lambda c, act: [Branches(c, act)],
}


@pytest.mark.parametrize("channels", [3, 12, 16])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_shows_them_in_every_mode(name, channels):
    for activation in ACTIVATIONS.values():
        net = nn.HybridSequential()
        net.add(*NETWORKS[name](channels, activation))
        net.initialize(mx.init.Normal(0.5))
        for value in (np.nan, np.inf, -np.inf):
            x = np.random.RandomState(0).randn(2, channels, 9, 9).astype("f")
            x[0, 0, 4, 4] = x[1, -1, 0, 0] = value
            x = nd.array(x)
            net.hybridize(False)
            eager = net(x).asnumpy()
            net.hybridize()
            for _ in range(2):
                np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-3, atol=1e-4)


def test_weights_that_have_diverged_are_seen():
    for name, network in NETWORKS.items():
        net = nn.HybridSequential()
        net.add(*network(16, ACTIVATIONS["relu"]))
        net.initialize(mx.init.Normal(0.5))
        x = nd.random.normal(shape=(2, 16, 9, 9))
        net(x)
        for parameter in net.collect_params(".*weight").values():
            parameter.set_data(parameter.data() * np.nan)
        net.hybridize()
        for _ in range(2):
            assert np.isnan(net(x).asnumpy()).all(), name
