"""Convolutions that read their input at learnt places (Dai et al., 2017; Zhu et al., 2018)."""
from ...hybrid_block import HybridBlock
from ...nn.activations import Activation

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


def _pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


class _Deformable(HybridBlock):
    """A convolution gives the places, and another one reads there."""

    def __init__(self, numbers_per_place, channels, kernel_size, strides, padding, dilation, groups, num_deformable_group, layout, use_bias,
                 in_channels, activation, weight_initializer, bias_initializer, offset_weight_initializer, offset_bias_initializer, offset_use_bias,
                 op_name, adj, prefix, params):
        super().__init__(prefix=prefix, params=params)
        if layout not in ("NCHW", "NHWC"):
            raise AssertionError(f"Only supports NCHW and NHWC layout for now, not {layout}")
        if layout == "NHWC" or adj is not None:
            raise NotImplementedError("deformable convolution: only layout='NCHW' and adj=None are supported")
        kernel, self._channels, self._op_name = _pair(kernel_size), channels, op_name
        self._geometry = {"kernel": kernel, "stride": _pair(strides), "pad": _pair(padding), "dilate": _pair(dilation)}
        offsets = numbers_per_place * kernel[0] * kernel[1] * num_deformable_group
        self._kwargs_offset = {**self._geometry, "num_filter": offsets, "num_group": groups, "no_bias": not offset_use_bias, "layout": layout}
        self._kwargs_deformable = {**self._geometry, "num_filter": channels, "num_group": groups, "num_deformable_group": num_deformable_group,
                                   "no_bias": not use_bias}
        inside = in_channels // groups if in_channels else 0
        with self.name_scope():
            self.offset_weight = self.params.get("offset_weight", shape=(offsets, inside, *kernel), init=offset_weight_initializer, allow_deferred_init=True)
            self.offset_bias = self.params.get("offset_bias", shape=(offsets,), init=offset_bias_initializer, allow_deferred_init=True) if offset_use_bias else None
            self.deformable_conv_weight = self.params.get("deformable_conv_weight", shape=(channels, inside, *kernel), init=weight_initializer,
                                                          allow_deferred_init=True)
            self.deformable_conv_bias = self.params.get("deformable_conv_bias", shape=(channels,), init=bias_initializer,
                                                        allow_deferred_init=True) if use_bias else None
            self.act = Activation(activation, prefix=activation + "_") if activation else None

    def hybrid_forward(self, F, x, offset_weight, deformable_conv_weight, offset_bias=None, deformable_conv_bias=None):
        places = F.Convolution(x, offset_weight, *([] if offset_bias is None else [offset_bias]), cudnn_off=True, **self._kwargs_offset)
        bias = [] if deformable_conv_bias is None else [deformable_conv_bias]
        out = self._read(F, x, places, deformable_conv_weight, bias)
        return out if self.act is None else self.act(out)

    def __repr__(self):
        return f"{type(self).__name__}({self.offset_weight.shape[1] or None} -> {self._channels}, kernel_size={self._geometry['kernel']})"


class DeformableConvolution(_Deformable):
    """Places are shifted by learnt offsets."""

    def __init__(self, channels, kernel_size=(1, 1), strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, num_deformable_group=1,
                 layout="NCHW", use_bias=True, in_channels=0, activation=None, weight_initializer=None, bias_initializer="zeros",
                 offset_weight_initializer="zeros", offset_bias_initializer="zeros", offset_use_bias=True, op_name="DeformableConvolution", adj=None,
                 prefix=None, params=None):
        super().__init__(2, channels, kernel_size, strides, padding, dilation, groups, num_deformable_group, layout, use_bias, in_channels, activation,
                         weight_initializer, bias_initializer, offset_weight_initializer, offset_bias_initializer, offset_use_bias, op_name, adj,
                         prefix, params)

    def _read(self, F, x, places, weight, bias):
        return F.contrib.DeformableConvolution(x, places, weight, *bias, name="fwd", **self._kwargs_deformable)


class ModulatedDeformableConvolution(_Deformable):
    """What is read there is weighted by a learnt mask too."""

    def __init__(self, channels, kernel_size=(1, 1), strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, num_deformable_group=1,
                 layout="NCHW", use_bias=True, in_channels=0, activation=None, weight_initializer=None, bias_initializer="zeros",
                 offset_weight_initializer="zeros", offset_bias_initializer="zeros", offset_use_bias=True,
                 op_name="ModulatedDeformableConvolution", adj=None, prefix=None, params=None):
        super().__init__(3, channels, kernel_size, strides, padding, dilation, groups, num_deformable_group, layout, use_bias, in_channels, activation,
                         weight_initializer, bias_initializer, offset_weight_initializer, offset_bias_initializer, offset_use_bias, op_name, adj,
                         prefix, params)
        self._offsets = self._kwargs_offset["num_filter"] // 3 * 2

    def _read(self, F, x, places, weight, bias):
        offset = F.slice_axis(places, axis=1, begin=0, end=self._offsets)
        mask = F.sigmoid(F.slice_axis(places, axis=1, begin=self._offsets, end=None)) * 2
        return F.contrib.ModulatedDeformableConvolution(x, offset, mask, weight, *bias, name="fwd", **self._kwargs_deformable)
