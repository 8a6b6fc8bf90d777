"""VGG."""
from ... import nn
from .... import _core
from ....initializer import Xavier
from ..model_store import with_weights
from ._blocks import Features, depths

__all__ = ["VGG", "get_vgg", "vgg11", "vgg13", "vgg16", "vgg19", "vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn"]

_LAYERS, _CHANNELS = depths("vgg"), dict(_core.zoo_table("vgg"))["channels"]


class VGG(Features):
    """Simonyan and Zisserman, 2014."""

    def __init__(self, layers, filters, classes=1000, batch_norm=False, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            for count, channels in zip(layers, filters):
                for _ in range(count):
                    self.features.add(nn.Conv2D(channels, 3, padding=1, weight_initializer=Xavier("gaussian", "out", 2)))
                    if batch_norm:
                        self.features.add(nn.BatchNorm())
                    self.features.add(nn.Activation("relu"))
                self.features.add(nn.MaxPool2D(strides=2))
            for _ in range(2):
                self.features.add(nn.Dense(4096, activation="relu", weight_initializer="normal"), nn.Dropout(0.5))
            self.output = nn.Dense(classes, weight_initializer="normal")


def get_vgg(num_layers, pretrained=False, ctx=None, root=None, **kwargs):
    """VGG with 11, 13, 16 or 19 layers; pretrained=True reads the weights from a file in `root`."""
    name = f"vgg{num_layers}" + ("_bn" if kwargs.get("batch_norm") else "")
    return with_weights(VGG(_LAYERS[num_layers], _CHANNELS, **kwargs), name, pretrained, ctx, root)


def _named(layers, batch_norm):
    def model(**kwargs):
        return get_vgg(layers, **({"batch_norm": True, **kwargs} if batch_norm else kwargs))
    model.__name__ = model.__qualname__ = f"vgg{layers}" + ("_bn" if batch_norm else "")
    model.__doc__ = f"VGG with {layers} layers" + (" and batch normalisation." if batch_norm else ".")
    return model


vgg11, vgg13, vgg16, vgg19 = (_named(layers, False) for layers in _LAYERS)
vgg11_bn, vgg13_bn, vgg16_bn, vgg19_bn = (_named(layers, True) for layers in _LAYERS)
