"""AlexNet."""
from ... import nn
from ..model_store import with_weights
from ._blocks import Features, chain

__all__ = ["AlexNet", "alexnet"]


class AlexNet(Features):
    """Krizhevsky et al., 2012, one tower."""

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = chain("alexnet")
            self.output = nn.Dense(classes)


def alexnet(pretrained=False, ctx=None, root=None, **kwargs):
    """AlexNet; pretrained=True reads the weights from a file in `root`."""
    return with_weights(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)
