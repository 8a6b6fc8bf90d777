"""MLP and LeNet: networks for small images."""
from ... import nn
from ._blocks import Features, chain

__all__ = ["MLP", "LeNet"]


class MLP(Features):
    """Two hidden layers, for small images."""

    def __init__(self, classes=10, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = chain("mlp")
            self.output = nn.Dense(classes)


class LeNet(Features):
    """LeCun et al., 1998, with today's activations; for images of 28 x 28."""

    def __init__(self, classes=10, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = chain("lenet")
            self.output = nn.Dense(classes)
