"""Convolution and pooling layers: one class each for 1, 2 and 3 axes, made from one definition."""
from .._options import check_layout
from ..hybrid_block import HybridBlock
from .basic_layers import _activation

__all__ = ["Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", "MaxPool1D", "MaxPool2D", "MaxPool3D",
           "AvgPool1D", "AvgPool2D", "AvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D", "GlobalAvgPool1D",
           "GlobalAvgPool2D", "GlobalAvgPool3D", "ReflectionPad2D"]

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _tuple(value, axes):
    """A number for each axis."""
    if not isinstance(value, (list, tuple)):
        return (value,) * axes
    if len(value) != axes:
        raise AssertionError(f"{tuple(value)}: a number or a list of {axes} ints is needed")
    return tuple(value)


class _Conv(HybridBlock):
    """Convolution, or its transpose when `adj` is given."""

    def __init__(self, channels, kernel_size, strides, padding, dilation, groups, layout, in_channels=0, activation=None, use_bias=True,
                 weight_initializer=None, bias_initializer="zeros", adj=None, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        axes = len(kernel_size)
        check_layout(self, layout, axes)
        self._channels, self._in_channels, self._operator = channels, in_channels, "Convolution" if adj is None else "Deconvolution"
        self._kwargs = {"kernel": kernel_size, "stride": _tuple(strides, axes), "dilate": _tuple(dilation, axes), "pad": _tuple(padding, axes),
                        "num_filter": channels, "num_group": groups, "no_bias": not use_bias, "layout": layout}
        if adj is not None:
            self._kwargs["adj"] = adj
        per_group = in_channels // groups if in_channels else 0
        if layout.endswith("C") and adj is None:
            shape = (channels, *kernel_size, per_group)
        else:
            shape = (channels, per_group, *kernel_size) if adj is None else (in_channels, channels // groups, *kernel_size)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=shape, init=weight_initializer, allow_deferred_init=True)
            self.bias = self.params.get("bias", shape=(channels,), init=bias_initializer, allow_deferred_init=True) if use_bias else None
            self.act = _activation(activation)

    def hybrid_forward(self, F, x, weight, bias=None):
        inputs = (x, weight) if bias is None else (x, weight, bias)
        out = getattr(F, self._operator)(*inputs, name="fwd", **self._kwargs)
        return out if self.act is None else self.act(out)

    @property
    def _op_name(self):
        return self._operator

    def _alias(self):
        return "conv"

    def __repr__(self):
        k = self._kwargs
        shape = self.weight.shape
        text = f"{shape[1] * k['num_group'] or None} -> {self._channels}, kernel_size={k['kernel']}, stride={k['stride']}"
        axes = len(k["kernel"])
        text += f", padding={k['pad']}" if k["pad"] != (0,) * axes else ""
        text += f", dilation={k['dilate']}" if k["dilate"] != (1,) * axes else ""
        text += f", groups={k['num_group']}" if k["num_group"] != 1 else ""
        text += ", bias=False" if self.bias is None else ""
        return f"{type(self).__name__}({text}{', ' + repr(self.act) if self.act else ''})"


def _conv(axes):
    class Conv(_Conv):
        def __init__(self, channels, kernel_size, strides=1, padding=0, dilation=1, groups=1, layout=_LAYOUTS[axes], activation=None,
                     use_bias=True, weight_initializer=None, bias_initializer="zeros", in_channels=0, **kwargs):
            super().__init__(channels, _tuple(kernel_size, axes), strides, padding, dilation, groups, layout, in_channels, activation, use_bias,
                             weight_initializer, bias_initializer, **kwargs)
    return Conv


def _transposed(axes):
    class ConvTranspose(_Conv):
        def __init__(self, channels, kernel_size, strides=1, padding=0, output_padding=0, dilation=1, groups=1, layout=_LAYOUTS[axes],
                     activation=None, use_bias=True, weight_initializer=None, bias_initializer="zeros", in_channels=0, **kwargs):
            super().__init__(channels, _tuple(kernel_size, axes), strides, padding, dilation, groups, layout, in_channels, activation, use_bias,
                             weight_initializer, bias_initializer, adj=_tuple(output_padding, axes), **kwargs)
            self.outpad = _tuple(output_padding, axes)
    return ConvTranspose


class _Pooling(HybridBlock):
    def __init__(self, pool_size, strides, padding, ceil_mode, global_pool, pool_type, layout, count_include_pad=None, **kwargs):
        super().__init__(**kwargs)
        axes = len(pool_size)
        check_layout(self, layout, axes)
        self._kwargs = {"kernel": pool_size, "stride": _tuple(pool_size if strides is None else strides, axes), "pad": _tuple(padding, axes),
                        "global_pool": global_pool, "pool_type": pool_type, "layout": layout,
                        "pooling_convention": "full" if ceil_mode else "valid"}
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self):
        return "pool"

    def hybrid_forward(self, F, x):
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self):
        k = self._kwargs
        return (f"{type(self).__name__}(size={k['kernel']}, stride={k['stride']}, padding={k['pad']}, ceil_mode={k['pooling_convention'] == 'full'}, "
                f"global_pool={k['global_pool']}, pool_type={k['pool_type']}, layout={k['layout']})")


def _max_pool(axes):
    class MaxPool(_Pooling):
        def __init__(self, pool_size=2, strides=None, padding=0, layout=_LAYOUTS[axes], ceil_mode=False, **kwargs):
            super().__init__(_tuple(pool_size, axes), strides, padding, ceil_mode, False, "max", layout, **kwargs)

    class CeilFirst(_Pooling):  # over three axes MXNet has these two arguments the other way round
        def __init__(self, pool_size=2, strides=None, padding=0, ceil_mode=False, layout=_LAYOUTS[axes], **kwargs):
            super().__init__(_tuple(pool_size, axes), strides, padding, ceil_mode, False, "max", layout, **kwargs)
    return CeilFirst if axes == 3 else MaxPool


def _avg_pool(axes):
    class AvgPool(_Pooling):
        def __init__(self, pool_size=2, strides=None, padding=0, layout=_LAYOUTS[axes], ceil_mode=False, count_include_pad=True, **kwargs):
            super().__init__(_tuple(pool_size, axes), strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)

    class CeilFirst(_Pooling):
        def __init__(self, pool_size=2, strides=None, padding=0, ceil_mode=False, layout=_LAYOUTS[axes], count_include_pad=True, **kwargs):
            super().__init__(_tuple(pool_size, axes), strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)
    return AvgPool if axes == 1 else CeilFirst


def _global_pool(axes, kind):
    class GlobalPool(_Pooling):
        def __init__(self, layout=_LAYOUTS[axes], **kwargs):
            super().__init__((1,) * axes, None, 0, True, True, kind, layout, **kwargs)
    return GlobalPool


def _define(name, cls, doc):
    cls.__name__ = cls.__qualname__ = name
    cls.__module__, cls.__doc__ = __name__, doc
    globals()[name] = cls


for _axes in (1, 2, 3):
    _define(f"Conv{_axes}D", _conv(_axes), f"Convolution over {_axes} axes.")
    _define(f"Conv{_axes}DTranspose", _transposed(_axes), f"Transposed convolution over {_axes} axes.")
    _define(f"MaxPool{_axes}D", _max_pool(_axes), f"The greatest of each window over {_axes} axes.")
    _define(f"AvgPool{_axes}D", _avg_pool(_axes), f"The mean of each window over {_axes} axes.")
    _define(f"GlobalMaxPool{_axes}D", _global_pool(_axes, "max"), f"The greatest over all of {_axes} axes.")
    _define(f"GlobalAvgPool{_axes}D", _global_pool(_axes, "avg"), f"The mean over all of {_axes} axes.")


class ReflectionPad2D(HybridBlock):
    """Borders that mirror the image."""

    def __init__(self, padding=0, **kwargs):
        super().__init__(**kwargs)
        self._padding = (0, 0, 0, 0) + (padding,) * 4 if isinstance(padding, int) else tuple(padding)

    def hybrid_forward(self, F, x):
        return F.pad(x, mode="reflect", pad_width=self._padding)
