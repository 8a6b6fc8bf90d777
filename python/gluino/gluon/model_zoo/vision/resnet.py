"""ResNet v1 and v2 (He et al., 2015 and 2016)."""
from ...hybrid_block import HybridBlock
from ... import nn
from .... import _core
from ..model_store import with_weights
from ._blocks import depths

__all__ = ["ResNetV1", "ResNetV2", "BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2", "get_resnet", "resnet18_v1", "resnet34_v1", "resnet50_v1",
           "resnet101_v1", "resnet152_v1", "resnet18_v2", "resnet34_v2", "resnet50_v2", "resnet101_v2", "resnet152_v2"]


def _conv3x3(channels, stride, in_channels):
    return nn.Conv2D(channels, kernel_size=3, strides=stride, padding=1, use_bias=False, in_channels=in_channels)


class _V1(HybridBlock):
    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        self._fill(channels, stride, in_channels)
        self.downsample = None
        if downsample:
            self.downsample = nn.HybridSequential(prefix="")
            self.downsample.add(nn.Conv2D(channels, kernel_size=1, strides=stride, use_bias=False, in_channels=in_channels), nn.BatchNorm())

    def hybrid_forward(self, F, x):
        residual = x if self.downsample is None else self.downsample(x)
        return F.Activation(residual + self.body(x), act_type="relu")


class BasicBlockV1(_V1):
    """Two 3x3 convolutions."""

    def _fill(self, channels, stride, in_channels):
        self.body.add(_conv3x3(channels, stride, in_channels), nn.BatchNorm(), nn.Activation("relu"), _conv3x3(channels, 1, channels), nn.BatchNorm())


class BottleneckV1(_V1):
    """1x1, 3x3, 1x1."""

    def _fill(self, channels, stride, in_channels):
        self.body.add(nn.Conv2D(channels // 4, kernel_size=1, strides=stride), nn.BatchNorm(), nn.Activation("relu"),
                      _conv3x3(channels // 4, 1, channels // 4), nn.BatchNorm(), nn.Activation("relu"),
                      nn.Conv2D(channels, kernel_size=1, strides=1), nn.BatchNorm())


class _V2(HybridBlock):
    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(**kwargs)
        for i, conv in enumerate(self._convolutions(channels, stride, in_channels), 1):
            setattr(self, f"bn{i}", nn.BatchNorm())
            setattr(self, f"conv{i}", conv)
        self.downsample = nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels) if downsample else None
        self._count = i

    def hybrid_forward(self, F, x):
        residual = x
        for i in range(1, self._count + 1):
            x = F.Activation(getattr(self, f"bn{i}")(x), act_type="relu")
            if i == 1 and self.downsample:
                residual = self.downsample(x)
            x = getattr(self, f"conv{i}")(x)
        return x + residual


class BasicBlockV2(_V2):
    """Two 3x3 convolutions, normalised before."""

    @staticmethod
    def _convolutions(channels, stride, in_channels):
        return _conv3x3(channels, stride, in_channels), _conv3x3(channels, 1, channels)


class BottleneckV2(_V2):
    """1x1, 3x3, 1x1, normalised before."""

    @staticmethod
    def _convolutions(channels, stride, in_channels):
        return (nn.Conv2D(channels // 4, kernel_size=1, strides=1, use_bias=False), _conv3x3(channels // 4, stride, channels // 4),
                nn.Conv2D(channels, kernel_size=1, strides=1, use_bias=False))


class _ResNet(HybridBlock):
    def _stage(self, block, layers, channels, stride, index, in_channels):
        stage = nn.HybridSequential(prefix=f"stage{index}_")
        with stage.name_scope():
            stage.add(block(channels, stride, channels != in_channels, in_channels=in_channels, prefix=""))
            for _ in range(layers - 1):
                stage.add(block(channels, 1, False, in_channels=channels, prefix=""))
        return stage

    def _stem(self, channels, thumbnail):
        if thumbnail:
            self.features.add(_conv3x3(channels, 1, 0))
        else:
            self.features.add(nn.Conv2D(channels, 7, 2, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))

    def _stages(self, block, layers, channels):
        for i, count in enumerate(layers):
            self.features.add(self._stage(block, count, channels[i + 1], 1 if i == 0 else 2, i + 1, channels[i]))

    def hybrid_forward(self, F, x):
        return self.output(self.features(x))


class ResNetV1(_ResNet):
    """Normalised after convolutions."""

    def __init__(self, block, layers, channels, classes=1000, thumbnail=False, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self._stem(channels[0], thumbnail)
            self._stages(block, layers, channels)
            self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.Dense(classes, in_units=channels[-1])


class ResNetV2(_ResNet):
    """Normalised before convolutions."""

    def __init__(self, block, layers, channels, classes=1000, thumbnail=False, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.BatchNorm(scale=False, center=False))
            self._stem(channels[0], thumbnail)
            self._stages(block, layers, channels)
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes, in_units=channels[-1])


_SPEC, _TABLE = depths("resnet"), dict(_core.zoo_table("resnet"))


def get_resnet(version, num_layers, pretrained=False, ctx=None, root=None, **kwargs):
    """ResNet of a version (1, 2) and a depth (18, 34, 50, 101, 152); pretrained=True reads the weights from a file in `root`."""
    if num_layers not in _SPEC or version not in (1, 2):
        raise AssertionError(f"Invalid resnet version {version} or number of layers {num_layers}. Options are 1, 2 and {sorted(_SPEC)}")
    deep = num_layers >= _TABLE["bottlenecks from"][0]
    layers, channels = _SPEC[num_layers], _TABLE["channels of bottlenecks" if deep else "channels"]
    block = {(1, False): BasicBlockV1, (1, True): BottleneckV1, (2, False): BasicBlockV2, (2, True): BottleneckV2}[version, deep]
    net = (ResNetV1 if version == 1 else ResNetV2)(block, layers, channels, **kwargs)
    return with_weights(net, f"resnet{num_layers}_v{version}", pretrained, ctx, root)


def _named(version, layers):
    def model(**kwargs):
        return get_resnet(version, layers, **kwargs)
    model.__name__ = model.__qualname__ = f"resnet{layers}_v{version}"
    model.__doc__ = f"ResNet v{version} with {layers} layers."
    return model


resnet18_v1, resnet34_v1, resnet50_v1, resnet101_v1, resnet152_v1 = (_named(1, layers) for layers in _SPEC)
resnet18_v2, resnet34_v2, resnet50_v2, resnet101_v2, resnet152_v2 = (_named(2, layers) for layers in _SPEC)
