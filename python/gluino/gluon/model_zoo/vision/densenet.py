"""DenseNet."""
from ... import nn
from ...contrib.nn import HybridConcurrent, Identity
from ..model_store import with_weights
from ._blocks import Features, depths, sequence

__all__ = ["DenseNet", "get_densenet", "densenet121", "densenet161", "densenet169", "densenet201"]

_SPECIFICATIONS = {depth: (first, growth, blocks) for depth, (first, growth, *blocks) in depths("densenet").items()}


class DenseNet(Features):
    """Huang et al., 2016."""

    def __init__(self, num_init_features, growth_rate, block_config, bn_size=4, dropout=0, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(num_init_features, 7, 2, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
            channels = num_init_features
            for i, count in enumerate(block_config):
                stage = nn.HybridSequential(prefix=f"stage{i + 1}_")
                with stage.name_scope():
                    for _ in range(count):
                        stage.add(self._layer(growth_rate, bn_size, dropout))
                self.features.add(stage)
                channels += count * growth_rate
                if i != len(block_config) - 1:
                    channels //= 2
                    self.features.add(sequence(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(channels, 1, use_bias=False), nn.AvgPool2D(2, 2)))
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(7), nn.Flatten())
            self.output = nn.Dense(classes)

    @staticmethod
    def _layer(growth_rate, bn_size, dropout):
        new = nn.HybridSequential(prefix="")
        new.add(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(bn_size * growth_rate, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                nn.Conv2D(growth_rate, 3, padding=1, use_bias=False))
        if dropout:
            new.add(nn.Dropout(dropout))
        out = HybridConcurrent(axis=1, prefix="")
        out.add(Identity(), new)
        return out


def get_densenet(num_layers, pretrained=False, ctx=None, root=None, **kwargs):
    """DenseNet with 121, 161, 169 or 201 layers; pretrained=True reads the weights from a file in `root`."""
    return with_weights(DenseNet(*_SPECIFICATIONS[num_layers], **kwargs), f"densenet{num_layers}", pretrained, ctx, root)


def _named(layers):
    def model(**kwargs):
        return get_densenet(layers, **kwargs)
    model.__name__ = model.__qualname__ = f"densenet{layers}"
    model.__doc__ = f"DenseNet with {layers} layers."
    return model


densenet121, densenet161, densenet169, densenet201 = map(_named, _SPECIFICATIONS)
