"""SqueezeNet."""
from ... import nn
from ...contrib.nn import HybridConcurrent
from .... import _core
from ..model_store import with_weights
from ._blocks import Features, sequence

__all__ = ["SqueezeNet", "get_squeezenet", "squeezenet1_0", "squeezenet1_1"]


def _activated(channels, kernel, strides=1, padding=0):
    return [nn.Conv2D(channels, kernel, strides, padding), nn.Activation("relu")]


def _fire(squeeze, expand):
    paths = HybridConcurrent(axis=1, prefix="")
    first = sequence(*_activated(squeeze, 1))
    paths.add(sequence(*_activated(expand, 1)), sequence(*_activated(expand, 3, padding=1)))
    return sequence(first, paths)


class SqueezeNet(Features):
    """Iandola et al., 2016."""

    def __init__(self, version, classes=1000, **kwargs):
        super().__init__(**kwargs)
        if version not in ("1.0", "1.1"):
            raise AssertionError(f"Unsupported SqueezeNet version {version}: 1.0 or 1.1 expected")
        table = dict(_core.zoo_table("squeezenet"))
        channels, kernel, *pools = table[version]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(*_activated(channels, kernel, 2))
            self.features.add(nn.MaxPool2D(3, 2, ceil_mode=True))
            for i, squeeze in enumerate(table["squeeze"], 1):
                self.features.add(_fire(squeeze, 4 * squeeze))
                if i in pools:
                    self.features.add(nn.MaxPool2D(3, 2, ceil_mode=True))
            self.features.add(nn.Dropout(0.5))
            self.output = sequence(*_activated(classes, 1), nn.AvgPool2D(13), nn.Flatten())


def get_squeezenet(version, pretrained=False, ctx=None, root=None, **kwargs):
    """SqueezeNet "1.0" or "1.1"; pretrained=True reads the weights from a file in `root`."""
    return with_weights(SqueezeNet(version, **kwargs), f"squeezenet{version}", pretrained, ctx, root)


def squeezenet1_0(**kwargs):
    """SqueezeNet 1.0."""
    return get_squeezenet("1.0", **kwargs)


def squeezenet1_1(**kwargs):
    """SqueezeNet 1.1."""
    return get_squeezenet("1.1", **kwargs)
