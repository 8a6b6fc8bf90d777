"""Dense, normalisation, embedding, containers."""
import warnings

from ... import autograd, distributed
from ...base import dtype_name
from ..block import Block
from ..hybrid_block import HybridBlock

__all__ = ["Sequential", "HybridSequential", "Dense", "Dropout", "BatchNorm", "BatchNormReLU", "SyncBatchNorm", "InstanceNorm", "LayerNorm", "GroupNorm",
           "Embedding", "Flatten", "Lambda", "HybridLambda", "Identity", "Concatenate", "HybridConcatenate"]


class _Chain:
    """What Sequential and HybridSequential share: children that run one after the other."""

    def add(self, *blocks):
        """Appends blocks."""
        for block in blocks:
            self.register_child(block)

    def __getitem__(self, key):
        layers = list(self._children.values())[key]
        if not isinstance(layers, list):
            return layers
        part = type(self)(prefix=self._prefix)
        with part.name_scope():
            part.add(*layers)
        return part

    def __len__(self):
        return len(self._children)

    def __iter__(self):
        return iter(list(self._children.values()))

    def _chained(self, x, *args):
        for block in self._children.values():
            x = block(x, *args)
            args = []
            if isinstance(x, (tuple, list)):
                args, x = x[1:], x[0]
        return (x, *args) if args else x


class Sequential(_Chain, Block):
    """Blocks one after the other."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)

    def forward(self, x, *args):
        return self._chained(x, *args)

    def hybridize(self, active=True, **kwargs):
        """Compiles the children, each by itself."""
        if self._children and all(isinstance(child, HybridBlock) for child in self._children.values()):
            warnings.warn(f"All children of this Sequential layer '{self.prefix}' are HybridBlocks: a HybridSequential compiles them together",
                          stacklevel=2)
        super().hybridize(active, **kwargs)


class HybridSequential(_Chain, HybridBlock):
    """Hybrid blocks one after the other."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F, x, *args):
        return self._chained(x, *args)


def _activation(act):
    from .activations import Activation
    return None if act is None else Activation(act, prefix=act + "_") if isinstance(act, str) else act


class Dense(HybridBlock):
    """activation(x · weightᵀ + bias)."""

    def __init__(self, units, activation=None, use_bias=True, flatten=True, dtype="float32", weight_initializer=None,
                 bias_initializer="zeros", in_units=0, **kwargs):
        super().__init__(**kwargs)
        self._units, self._in_units, self._flatten = units, in_units, flatten
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(units, in_units), init=weight_initializer, dtype=dtype, allow_deferred_init=True)
            self.bias = self.params.get("bias", shape=(units,), init=bias_initializer, dtype=dtype, allow_deferred_init=True) if use_bias else None
            self.act = _activation(activation)

    def hybrid_forward(self, F, x, weight, bias=None):
        inputs = (x, weight) if bias is None else (x, weight, bias)
        out = F.FullyConnected(*inputs, no_bias=bias is None, num_hidden=self._units, flatten=self._flatten, name="fwd")
        return out if self.act is None else self.act(out)

    def __repr__(self):
        shape = self.weight.shape
        return f"{type(self).__name__}({shape[1] if shape[1] > 0 else None} -> {shape[0]}, {self.act._act_type if self.act else 'linear'})"


class Dropout(HybridBlock):
    """Sets elements to 0 in training."""

    def __init__(self, rate, axes=(), **kwargs):
        super().__init__(**kwargs)
        self._rate, self._axes = rate, axes

    def hybrid_forward(self, F, x):
        return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd") if self._rate > 0 else F.identity(x)

    def __repr__(self):
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class BatchNorm(HybridBlock):
    """Normalises over the batch; running mean and variance are auxiliary states."""

    _operator = "BatchNorm"

    def __init__(self, axis=1, momentum=0.9, epsilon=1e-5, center=True, scale=True, use_global_stats=False, beta_initializer="zeros",
                 gamma_initializer="ones", running_mean_initializer="zeros", running_variance_initializer="ones", in_channels=0, **kwargs):
        super().__init__(**kwargs)
        self._kwargs = {"axis": axis, "eps": epsilon, "momentum": momentum, "fix_gamma": not scale, "use_global_stats": use_global_stats}
        self._axis, shape = axis, (in_channels,)

        def get(name, init, learnt):
            return self.params.get(name, grad_req="write" if learnt else "null", shape=shape, init=init, allow_deferred_init=True, differentiable=learnt)
        self.gamma = get("gamma", gamma_initializer, scale)
        self.beta = get("beta", beta_initializer, center)
        self.running_mean = get("running_mean", running_mean_initializer, False)
        self.running_var = get("running_var", running_variance_initializer, False)

    def cast(self, dtype):
        super().cast("float32" if dtype_name(dtype) in ("float16", "bfloat16") else dtype)

    def hybrid_forward(self, F, x, gamma, beta, running_mean, running_var):
        return getattr(F, self._operator)(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def __repr__(self):
        inside = ", ".join(f"{k}={v}" for k, v in {**self._kwargs, "in_channels": self.gamma.shape[0] or None}.items())
        return f"{type(self).__name__}({inside})"


class BatchNormReLU(BatchNorm):
    """BatchNorm, then no negative numbers."""

    def hybrid_forward(self, F, x, gamma, beta, running_mean, running_var):
        return F.relu(super().hybrid_forward(F, x, gamma, beta, running_mean, running_var), name="relu")


class SyncBatchNorm(BatchNorm):
    """BatchNorm whose mean and variance are those of the samples of all ranks; alone, and when predicting, it is BatchNorm."""

    def __init__(self, in_channels=0, num_devices=None, momentum=0.9, epsilon=1e-5, center=True, scale=True, use_global_stats=False,
                 beta_initializer="zeros", gamma_initializer="ones", running_mean_initializer="zeros", running_variance_initializer="ones", **kwargs):
        super().__init__(1, momentum, epsilon, center, scale, use_global_stats, beta_initializer, gamma_initializer, running_mean_initializer,
                         running_variance_initializer, in_channels, **kwargs)

    def hybrid_forward(self, F, x, gamma, beta, running_mean, running_var):
        if self._kwargs["use_global_stats"] or not autograd.is_training() or distributed.size() == 1:
            return super().hybrid_forward(F, x, gamma, beta, running_mean, running_var)
        # Ranks may have batches of different sizes: sums travel, and of how many numbers they are. The variance is of differences from the
        # mean, in a second round: squares of large numbers would leave little of it.
        wide, shape = F.cast(x, dtype="float32"), (1, -1, *([1] * (x.ndim - 2)))
        sums = F.concat(F.sum(wide, axis=1, exclude=True), F.sum(F.ones_like(wide), axis=1, exclude=True), dim=0)
        total, count = F.split(distributed.all_reduce(sums), num_outputs=2, axis=0)
        mean = total / count
        centred = F.broadcast_sub(wide, F.reshape(mean, shape=shape))
        variance = distributed.all_reduce(F.sum(centred * centred, axis=1, exclude=True)) / count
        with autograd.pause():
            momentum = self._kwargs["momentum"]
            running_mean[:] = running_mean * momentum + mean * (1 - momentum)
            running_var[:] = running_var * momentum + variance * (1 - momentum)
        scale = 1 / F.sqrt(variance + self._kwargs["eps"])
        if not self._kwargs["fix_gamma"]:
            scale = scale * gamma
        y = F.broadcast_add(F.broadcast_mul(centred, F.reshape(scale, shape=shape)), F.reshape(beta, shape=shape))
        return F.cast(y, dtype=x.dtype)


class _ScaledNorm(HybridBlock):
    """Norms with a learnt scale and shift per channel."""

    def __init__(self, center, scale, beta_initializer, gamma_initializer, in_channels, **kwargs):
        super().__init__(**kwargs)
        self.gamma = self.params.get("gamma", grad_req="write" if scale else "null", shape=(in_channels,), init=gamma_initializer, allow_deferred_init=True)
        self.beta = self.params.get("beta", grad_req="write" if center else "null", shape=(in_channels,), init=beta_initializer, allow_deferred_init=True)

    def __repr__(self):
        inside = ", ".join(f"{k}={v}" for k, v in {**self._kwargs, "in_channels": self.gamma.shape[0] or None}.items())
        return f"{type(self).__name__}({inside})"


class InstanceNorm(_ScaledNorm):
    """Normalises each channel of each sample."""

    def __init__(self, axis=1, epsilon=1e-5, center=True, scale=False, beta_initializer="zeros", gamma_initializer="ones", in_channels=0, **kwargs):
        super().__init__(center, scale, beta_initializer, gamma_initializer, in_channels, **kwargs)
        self._kwargs, self._axis = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}, axis

    def hybrid_forward(self, F, x, gamma, beta):
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, eps=self._kwargs["eps"], name="fwd")
        x = x.swapaxes(1, self._axis)
        return F.InstanceNorm(x, gamma, beta, eps=self._kwargs["eps"], name="fwd").swapaxes(1, self._axis)


class LayerNorm(_ScaledNorm):
    """Normalises along one axis."""

    def __init__(self, axis=-1, epsilon=1e-5, center=True, scale=True, beta_initializer="zeros", gamma_initializer="ones", in_channels=0,
                 prefix=None, params=None):
        super().__init__(center, scale, beta_initializer, gamma_initializer, in_channels, prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon, self._center, self._scale = axis, epsilon, center, scale

    def hybrid_forward(self, F, data, gamma, beta):
        return F.LayerNorm(data, gamma, beta, axis=self._kwargs["axis"], eps=self._kwargs["eps"], name="fwd")


class GroupNorm(_ScaledNorm):
    """Normalises groups of channels."""

    def __init__(self, num_groups=1, epsilon=1e-5, center=True, scale=True, beta_initializer="zeros", gamma_initializer="ones", prefix=None,
                 params=None, in_channels=0):
        super().__init__(center, scale, beta_initializer, gamma_initializer, in_channels, prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}

    def hybrid_forward(self, F, data, gamma, beta):
        return F.GroupNorm(data, gamma, beta, num_groups=self._kwargs["num_groups"], eps=self._kwargs["eps"], name="fwd")


class Embedding(HybridBlock):
    """Rows of a table by number."""

    def __init__(self, input_dim, output_dim, dtype="float32", weight_initializer=None, sparse_grad=False, **kwargs):
        super().__init__(**kwargs)
        self._input_dim, self._output_dim = input_dim, output_dim
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype}
        self.weight = self.params.get("weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype, allow_deferred_init=True,
                                      grad_stype="row_sparse" if sparse_grad else "default")

    def hybrid_forward(self, F, x, weight):
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self):
        return f"{type(self).__name__}({self._kwargs['input_dim']} -> {self._kwargs['output_dim']}, {dtype_name(self._kwargs['dtype'])})"


class Flatten(HybridBlock):
    """All axes but the first as one."""

    def hybrid_forward(self, F, x):
        return F.Flatten(x, name="fwd")

    def __repr__(self):
        return type(self).__name__


class Identity(HybridBlock):
    """Its input."""

    def hybrid_forward(self, F, x):
        return x

    def __repr__(self):
        return type(self).__name__


class Lambda(Block):
    """A function, or an operator by name, as a block."""

    def __init__(self, function, prefix=None):
        super().__init__(prefix=prefix)
        from ... import ndarray
        if isinstance(function, str):
            if not hasattr(ndarray, function):
                raise AssertionError(f"Function name {function} is not found in ndarray.")
            self._impl, self._func_name = getattr(ndarray, function), function
        elif callable(function):
            self._impl, self._func_name = function, function.__name__
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")

    def forward(self, *args):
        return self._impl(*args)

    def __repr__(self):
        return f"{type(self).__name__}({self._func_name})"


class HybridLambda(HybridBlock):
    """A function of (F, x, ...), or an operator by name, as a hybrid block."""

    def __init__(self, function, prefix=None):
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            from ... import ndarray, symbol
            if not (hasattr(ndarray, function) and hasattr(symbol, function)):
                raise AssertionError(f"Function name {function} is not found in symbol/ndarray.")
            self._func, self._func_name = lambda F, *args: getattr(F, function)(*args), function
        elif callable(function):
            self._func, self._func_name = function, function.__name__
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")

    def hybrid_forward(self, F, x, *args):
        return self._func(F, x, *args)

    def __repr__(self):
        return f"{type(self).__name__}({self._func_name})"


class Concatenate(Sequential):
    """Gives its input to every child and joins the outputs."""

    def __init__(self, axis=-1, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x):
        from ... import ndarray
        return ndarray.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class HybridConcatenate(HybridSequential):
    """Gives its input to every child and joins the outputs."""

    def __init__(self, axis=-1, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F, x):
        return F.concat(*[block(x) for block in self._children.values()], dim=self.axis)


