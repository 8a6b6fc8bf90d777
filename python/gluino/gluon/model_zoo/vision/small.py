"""MLP and LeNet: networks for small images."""
from ... import nn
from ._blocks import Features, sequence

__all__ = ["MLP", "LeNet"]


class MLP(Features):
    """Two hidden layers, for small images."""

    def __init__(self, classes=10, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = sequence(nn.Flatten(), nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"))
            self.output = nn.Dense(classes)


class LeNet(Features):
    """LeCun et al., 1998, with today's activations; for images of 28 x 28."""

    def __init__(self, classes=10, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = sequence(nn.Conv2D(6, 5, padding=2, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 5, activation="relu"),
                                      nn.MaxPool2D(2), nn.Flatten(), nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"))
            self.output = nn.Dense(classes)
