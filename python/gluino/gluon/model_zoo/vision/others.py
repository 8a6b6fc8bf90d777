"""MLP, LeNet, AlexNet, VGG, SqueezeNet, DenseNet, MobileNet v1 and v2."""
from ...block import HybridBlock
from ... import nn
from ...contrib.nn import HybridConcurrent, Identity
from ....initializer import Xavier

__all__ = ["MLP", "LeNet", "AlexNet", "VGG", "SqueezeNet", "DenseNet", "MobileNet", "MobileNetV2", "get_vgg", "get_densenet", "get_mobilenet", "get_mobilenet_v2"]


class Features(HybridBlock):
    """features, then output."""

    def hybrid_forward(self, F, x):
        return self.output(self.features(x))


def _sequence(*layers):
    out = nn.HybridSequential(prefix="")
    out.add(*layers)
    return out


class MLP(Features):
    """Two hidden layers, for small images."""

    def __init__(self, classes=10, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = _sequence(nn.Flatten(), nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"))
            self.output = nn.Dense(classes)


class LeNet(Features):
    """LeCun et al., 1998, with today's activations; for images of 28 x 28."""

    def __init__(self, classes=10, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = _sequence(nn.Conv2D(6, 5, padding=2, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 5, activation="relu"),
                                      nn.MaxPool2D(2), nn.Flatten(), nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"))
            self.output = nn.Dense(classes)


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


def get_vgg(num_layers, **kwargs):
    """VGG with 11, 13, 16 or 19 layers."""
    layers = {11: [1, 1, 2, 2, 2], 13: [2, 2, 2, 2, 2], 16: [2, 2, 3, 3, 3], 19: [2, 2, 4, 4, 4]}[num_layers]
    return VGG(layers, [64, 128, 256, 512, 512], **kwargs)


def _activated(channels, kernel, strides=1, padding=0):
    return [nn.Conv2D(channels, kernel, strides, padding), nn.Activation("relu")]


def _fire(squeeze, expand):
    paths = HybridConcurrent(axis=1, prefix="")
    first = _sequence(*_activated(squeeze, 1))
    paths.add(_sequence(*_activated(expand, 1)), _sequence(*_activated(expand, 3, padding=1)))
    return _sequence(first, paths)


class SqueezeNet(Features):
    """Iandola et al., 2016."""

    def __init__(self, version, classes=1000, **kwargs):
        super().__init__(**kwargs)
        if version not in ("1.0", "1.1"):
            raise AssertionError(f"Unsupported SqueezeNet version {version}: 1.0 or 1.1 expected")
        fires = [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]
        pools = {3, 7} if version == "1.0" else {2, 4}
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(*(_activated(96, 7, 2) if version == "1.0" else _activated(64, 3, 2)))
            self.features.add(nn.MaxPool2D(3, 2, ceil_mode=True))
            for i, (squeeze, expand) in enumerate(fires, 1):
                self.features.add(_fire(squeeze, expand))
                if i in pools:
                    self.features.add(nn.MaxPool2D(3, 2, ceil_mode=True))
            self.features.add(nn.Dropout(0.5))
            self.output = _sequence(*_activated(classes, 1), nn.AvgPool2D(13), nn.Flatten())


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
                    self.features.add(_sequence(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(channels, 1, use_bias=False), nn.AvgPool2D(2, 2)))
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


def get_densenet(num_layers, **kwargs):
    """DenseNet with 121, 161, 169 or 201 layers."""
    spec = {121: (64, 32, [6, 12, 24, 16]), 161: (96, 48, [6, 12, 36, 24]), 169: (64, 32, [6, 12, 32, 32]), 201: (64, 32, [6, 12, 48, 32])}
    return DenseNet(*spec[num_layers], **kwargs)


def _add_conv(out, channels=1, kernel=1, stride=1, pad=0, num_group=1, active=True, relu6=False):
    out.add(nn.Conv2D(channels, kernel, stride, pad, groups=num_group, use_bias=False), nn.BatchNorm(scale=True))
    if active:
        out.add(_ReLU6() if relu6 else nn.Activation("relu"))


class _ReLU6(HybridBlock):
    def hybrid_forward(self, F, x):
        return F.clip(x, 0, 6, name="relu6")


class MobileNet(Features):
    """Howard et al., 2017."""

    def __init__(self, multiplier=1.0, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                _add_conv(self.features, int(32 * multiplier), 3, 2, 1)
                before = [int(x * multiplier) for x in [32, 64] + [128] * 2 + [256] * 2 + [512] * 6 + [1024]]
                after = [int(x * multiplier) for x in [64] + [128] * 2 + [256] * 2 + [512] * 6 + [1024] * 2]
                for dw, channels, stride in zip(before, after, [1, 2] * 3 + [1] * 5 + [2, 1]):
                    _add_conv(self.features, dw, 3, stride, 1, num_group=dw)
                    _add_conv(self.features, channels)
                self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)


class LinearBottleneck(HybridBlock):
    def __init__(self, in_channels, channels, t, stride, **kwargs):
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        with self.name_scope():
            self.out = nn.HybridSequential()
            _add_conv(self.out, in_channels * t, relu6=True)
            _add_conv(self.out, in_channels * t, 3, stride, 1, num_group=in_channels * t, relu6=True)
            _add_conv(self.out, channels, active=False)

    def hybrid_forward(self, F, x):
        out = self.out(x)
        return out + x if self.use_shortcut else out


class MobileNetV2(Features):
    """Sandler et al., 2018."""

    def __init__(self, multiplier=1.0, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                _add_conv(self.features, int(32 * multiplier), 3, 2, 1, relu6=True)
                before = [int(x * multiplier) for x in [32] + [16] + [24] * 2 + [32] * 3 + [64] * 4 + [96] * 3 + [160] * 3]
                after = [int(x * multiplier) for x in [16] + [24] * 2 + [32] * 3 + [64] * 4 + [96] * 3 + [160] * 3 + [320]]
                for a, b, t, stride in zip(before, after, [1] + [6] * 16, [1, 2] * 2 + [1, 1, 2] + [1] * 6 + [2] + [1] * 3):
                    self.features.add(LinearBottleneck(a, b, t, stride))
                _add_conv(self.features, int(1280 * multiplier) if multiplier > 1.0 else 1280, relu6=True)
                self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())


def get_mobilenet(multiplier, **kwargs):
    """MobileNet of this width."""
    return MobileNet(multiplier, **kwargs)


def get_mobilenet_v2(multiplier, **kwargs):
    """MobileNet v2 of this width."""
    return MobileNetV2(multiplier, **kwargs)
