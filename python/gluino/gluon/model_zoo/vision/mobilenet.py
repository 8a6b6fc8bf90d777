"""MobileNet v1 and v2."""
from ...hybrid_block import HybridBlock
from ... import nn
from .... import _core
from ..model_store import with_weights
from ._blocks import Features

__all__ = ["MobileNet", "MobileNetV2", "get_mobilenet", "get_mobilenet_v2", "mobilenet1_0", "mobilenet0_75", "mobilenet0_5", "mobilenet0_25",
           "mobilenet_v2_1_0", "mobilenet_v2_0_75", "mobilenet_v2_0_5", "mobilenet_v2_0_25"]

_WIDTHS = (1.0, 0.75, 0.5, 0.25)


def _add_conv(out, channels=1, kernel=1, stride=1, pad=0, num_group=1, active=True, relu6=False):
    out.add(nn.Conv2D(channels, kernel, stride, pad, groups=num_group, use_bias=False), nn.BatchNorm(scale=True))
    if active:
        out.add(RELU6() if relu6 else nn.Activation("relu"))


class RELU6(HybridBlock):
    """Activation between 0 and 6."""

    def hybrid_forward(self, F, x):
        return F.clip(x, 0, 6, name="relu6")


class MobileNet(Features):
    """Howard et al., 2017."""

    def __init__(self, multiplier=1.0, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                (_, (first,)), *pairs = _core.zoo_table("mobilenet")
                before = int(first * multiplier)
                _add_conv(self.features, before, 3, 2, 1)
                for _, (channels, stride) in pairs:
                    _add_conv(self.features, before, 3, stride, 1, num_group=before)
                    before = int(channels * multiplier)
                    _add_conv(self.features, before)
                self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)


class LinearBottleneck(HybridBlock):
    """Wide, one filter per channel, narrow again; the narrow ends are joined."""

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
                (_, (first,)), (_, (last,)), *stages = _core.zoo_table("mobilenetv2")
                before = int(first * multiplier)
                _add_conv(self.features, before, 3, 2, 1, relu6=True)
                for _, (channels, repeats, stride, t) in stages:
                    for i in range(repeats):
                        self.features.add(LinearBottleneck(before, int(channels * multiplier), t, 1 if i else stride))
                        before = int(channels * multiplier)
                _add_conv(self.features, int(last * multiplier) if multiplier > 1.0 else last, relu6=True)
                self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())


def get_mobilenet(multiplier, pretrained=False, ctx=None, root=None, **kwargs):
    """MobileNet of this width; pretrained=True reads the weights from a file in `root`."""
    return with_weights(MobileNet(multiplier, **kwargs), f"mobilenet{multiplier}", pretrained, ctx, root)


def get_mobilenet_v2(multiplier, pretrained=False, ctx=None, root=None, **kwargs):
    """MobileNet v2 of this width; pretrained=True reads the weights from a file in `root`."""
    return with_weights(MobileNetV2(multiplier, **kwargs), f"mobilenetv2_{multiplier}", pretrained, ctx, root)


def _named(get, name, width):
    def model(**kwargs):
        return get(width, **kwargs)
    model.__name__ = model.__qualname__ = name + str(width).replace(".", "_")
    model.__doc__ = f"{name} of width {width}."
    return model


mobilenet1_0, mobilenet0_75, mobilenet0_5, mobilenet0_25 = (_named(get_mobilenet, "mobilenet", width) for width in _WIDTHS)
mobilenet_v2_1_0, mobilenet_v2_0_75, mobilenet_v2_0_5, mobilenet_v2_0_25 = (_named(get_mobilenet_v2, "mobilenet_v2_", width) for width in _WIDTHS)
