"""AlexNet."""
from ... import nn
from ..model_store import with_weights
from ._blocks import Features

__all__ = ["AlexNet", "alexnet"]


class AlexNet(Features):
    """Krizhevsky et al., 2012, one tower."""

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                self.features.add(nn.Conv2D(64, 11, 4, 2, activation="relu"), nn.MaxPool2D(3, 2), nn.Conv2D(192, 5, padding=2, activation="relu"),
                                  nn.MaxPool2D(3, 2), nn.Conv2D(384, 3, padding=1, activation="relu"), nn.Conv2D(256, 3, padding=1, activation="relu"),
                                  nn.Conv2D(256, 3, padding=1, activation="relu"), nn.MaxPool2D(3, 2), nn.Flatten(), nn.Dense(4096, activation="relu"),
                                  nn.Dropout(0.5), nn.Dense(4096, activation="relu"), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


def alexnet(pretrained=False, ctx=None, root=None, **kwargs):
    """AlexNet; pretrained=True reads the weights from a file in `root`."""
    return with_weights(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)
