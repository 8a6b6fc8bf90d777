"""Random networks for images and for sequences, called with several shapes in a random order, some with numbers that are none.

Case(seed).run(flags) gives results, gradients and parameters of all calls; it must be the same for every flags.
"""
import random

import numpy as np

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn, rnn

SPECIAL = (np.nan, np.inf, -np.inf)


class _Network(gluon.HybridBlock):
    """Steps, each a function of F and an array, made by the methods whose names are drawn."""

    def __init__(self, choose):
        super().__init__()
        self.choose = choose
        self.steps = []

    def add(self, kinds, most):
        for _ in range(self.choose.randint(1, most)):
            self.steps.append(getattr(self, "make_" + self.choose.choice(kinds))())

    def own(self, block):
        self.register_child(block)
        return block

    def often(self, share):
        return self.choose.random() < share

    def make_activation(self):
        plain = ["relu", "sigmoid", "tanh", "softrelu", "softsign"]
        layer = self.choose.choice([lambda: nn.Activation(self.choose.choice(plain)), nn.GELU, nn.SELU, nn.Swish, nn.PReLU, nn.ELU, lambda: nn.LeakyReLU(0.1)])
        layer = self.own(layer())
        return lambda F, x: layer(x)

    def make_elementwise(self):
        number = self.choose.uniform(-2, 2)
        return self.choose.choice([lambda F, x: F.clip(x, -0.5, 0.7), lambda F, x: x * number + 0.25, lambda F, x: F.maximum(x, number), lambda F, x: F.abs(x) + x * x,
                                   lambda F, x: F.sqrt(F.abs(x) + 0.1)])

    def make_dropout(self):
        layer = self.own(nn.Dropout(self.choose.choice([0, 0.3, 0.5])))
        return lambda F, x: layer(x)

    def hybrid_forward(self, F, x):
        for step in self.steps:
            x = step(F, x)
        return x


class Images(_Network):
    """Convolutions and what stands around them."""

    KINDS = ["convolution"] * 4 + ["grouped", "transposed", "norm", "norm", "activation", "elementwise", "pool", "global_pool", "branches", "residual", "squeeze", "resize",
                                   "pad", "part", "dropout"]

    def __init__(self, choose):
        super().__init__(choose)
        self.add(self.KINDS, 8)
        self.make_end()

    def shapes(self):
        pick = self.choose
        n, c, h, w = pick.choice([1, 2, 3, 5]), pick.choice([1, 2, 3, 8, 16, 32]), pick.randint(1, 20), pick.randint(1, 20)
        if self.is_fixed:
            return [(n, c, h, w), (n + 1, c, h, w), (1, c, h, w)]
        return [(n, c, h, w), (n + 1, c, h, w), (n, c, h + 2, w), (1, c, h, w + 3)]

    def drawn(self, shape, numbers):
        return numbers.normal(size=shape).astype("float32")

    def make_convolution(self):
        pick = self.choose
        h, w = pick.choice([1, 1, 2, 3, 3, 3, 5, 7]), pick.choice([1, 3, 3, 5])
        layer = self.own(nn.Conv2D(pick.choice([1, 2, 3, 8, 16, 17, 32]), (h, w), strides=(pick.choice([1, 1, 2, 3]), pick.choice([1, 1, 2])),
                                   padding=(pick.randint(0, h), pick.randint(0, w)), dilation=(pick.choice([1, 1, 2]), pick.choice([1, 1, 2])),
                                   use_bias=self.often(0.7), activation=pick.choice([None, None, "relu", "sigmoid"])))
        return lambda F, x: layer(x)

    def make_grouped(self):
        pick = self.choose
        channels = pick.choice([4, 8, 16])
        first = self.own(nn.Conv2D(channels, 1))
        second = self.own(nn.Conv2D(channels * pick.choice([1, 1, 2]), pick.choice([3, 5, (1, 3)]), padding=pick.choice([1, 2]), strides=pick.choice([1, 2]),
                                    groups=pick.choice([channels, channels // 2, 2]), use_bias=self.often(0.5)))
        return lambda F, x: second(first(x))

    def make_transposed(self):
        stride, kernel = self.choose.choice([1, 2, 3]), self.choose.choice([2, 3, 4])
        layer = self.own(nn.Conv2DTranspose(self.choose.choice([1, 3, 8]), kernel, strides=stride, padding=self.choose.randint(0, kernel - 1),
                                            output_padding=self.choose.randint(0, stride - 1)))
        return lambda F, x: layer(x)

    def make_norm(self):
        pick = self.choose
        kind = pick.choice(["batch", "batch", "instance", "layer", "group"])
        if kind == "group":
            first, second = self.own(nn.Conv2D(8, 1)), self.own(nn.GroupNorm(num_groups=pick.choice([1, 2, 4, 8])))
            return lambda F, x: second(first(x))
        layer = self.own(nn.InstanceNorm() if kind == "instance" else nn.LayerNorm(axis=1) if kind == "layer" else
                         nn.BatchNorm(scale=self.often(0.7), center=self.often(0.7), use_global_stats=self.often(0.2)))
        return lambda F, x: layer(x)

    def make_pool(self):
        size, pick = self.choose.choice([1, 2, 3]), self.choose
        options = dict(pool_size=size, strides=pick.choice([None, 1, 2]), padding=pick.randint(0, size // 2), ceil_mode=self.often(0.4))
        layer = self.own(nn.MaxPool2D(**options) if self.often(0.5) else nn.AvgPool2D(count_include_pad=self.often(0.5), **options))
        return lambda F, x: layer(x)

    def make_global_pool(self):
        layer = self.own(self.choose.choice([nn.GlobalAvgPool2D, nn.GlobalMaxPool2D])())
        return lambda F, x: F.broadcast_add(layer(x), x)

    def make_branches(self):
        pick = self.choose
        layers = [self.own(nn.Conv2D(pick.choice([1, 5, 8]), 1, activation=pick.choice([None, "relu"]))), self.own(nn.Conv2D(pick.choice([3, 8]), 3, padding=1)),
                  self.own(nn.MaxPool2D(3, 1, 1))]
        return lambda F, x: F.concat(*[layer(x) for layer in layers], dim=1)

    def make_residual(self):
        channels, ends_in_relu = self.choose.choice([4, 8, 16]), self.often(0.7)
        first, second, norm = self.own(nn.Conv2D(channels, 1)), self.own(nn.Conv2D(channels, 3, padding=1, use_bias=False)), self.own(nn.BatchNorm())

        def step(F, x):
            y = first(x)
            z = norm(second(y)) + y
            return F.relu(z) if ends_in_relu else z
        return step

    def make_squeeze(self):
        channels = self.choose.choice([4, 8])
        first, pool = self.own(nn.Conv2D(channels, 1)), self.own(nn.GlobalAvgPool2D())
        small, large = self.own(nn.Dense(2, activation="relu")), self.own(nn.Dense(channels, activation="sigmoid"))

        def step(F, x):
            y = first(x)
            return F.broadcast_mul(y, F.reshape(large(small(pool(y))), (0, 0, 1, 1)))
        return step

    def make_resize(self):
        return lambda F, x: F.UpSampling(x, scale=2, sample_type="nearest")

    def make_pad(self):
        mode = self.choose.choice(["constant", "edge", "reflect"])
        return lambda F, x: F.pad(x, mode=mode, pad_width=(0, 0, 0, 0, 1, 1, 1, 1), constant_value=0.5)

    def make_part(self):
        return self.choose.choice([lambda F, x: F.slice_axis(x, axis=2, begin=0, end=-1), lambda F, x: F.transpose(x, axes=(0, 1, 3, 2)), lambda F, x: F.flip(x, axis=3)])

    def make_end(self):
        pick = self.choose
        end = pick.choice(["none", "dense", "rows", "pool", "softmax", "mean"])
        self.is_fixed = end in ("dense", "rows")
        if self.is_fixed:
            layer = self.own(nn.Dense(pick.randint(1, 20), activation=pick.choice([None, "relu", "tanh"]), flatten=end == "dense", use_bias=self.often(0.8)))
            self.steps.append(lambda F, x: layer(x))
        elif end == "pool":
            self.steps.append(lambda F, x: F.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1)))
        elif end == "softmax":
            axis = pick.choice([-1, 1, 2])
            self.steps.append(lambda F, x: F.softmax(x, axis=axis))
        elif end == "mean":
            self.steps.append(lambda F, x: F.mean(x, axis=(2, 3)))


class Sequences(_Network):
    """Recurrent layers, attention, reductions and shifts along (batch, step, unit)."""

    KINDS = ["recurrent", "recurrent", "attention", "attention", "forward", "norm", "activation", "elementwise", "convolution", "running", "gate", "shift", "relative", "sort",
             "products", "steps", "scaled", "dropout", "cast", "turned", "masked"]

    def __init__(self, choose):
        super().__init__(choose)
        self.units = choose.choice([4, 8, 16])
        self.has_words = self.often(0.5)
        first = self.own(nn.Embedding(11, self.units) if self.has_words else nn.Dense(self.units, flatten=False))
        self.steps.append(lambda F, x: first(x))
        self.add(self.KINDS, 6)
        last = self.own(nn.Dense(choose.choice([1, 3, 7]), flatten=False))
        self.steps.append(lambda F, x: last(x))

    def shapes(self):
        n, t = self.choose.choice([1, 2, 5]), self.choose.randint(1, 9)
        return [shape if self.has_words else (*shape, 6) for shape in ((n, t), (n + 1, t), (n, t + 2), (1, 1))]

    def drawn(self, shape, numbers):
        return numbers.randint(0, 11, shape).astype("float32") if self.has_words else numbers.normal(size=shape).astype("float32")

    def dense(self, units=None, **options):
        return self.own(nn.Dense(units or self.units, flatten=False, **options))

    def make_recurrent(self):
        layer = self.own(self.choose.choice([rnn.LSTM, rnn.GRU, rnn.RNN])(self.choose.choice([self.units, self.units // 2]), num_layers=self.choose.choice([1, 2]), layout="NTC",
                                                                         bidirectional=self.often(0.3)))
        last = self.dense()
        return lambda F, x: last(layer(x))

    def make_attention(self):
        layers, heads, is_causal = [self.dense(use_bias=False) for _ in range(3)], self.choose.choice([1, 2]), self.often(0.5)

        def step(F, x):
            query, key, value = (F.transpose(F.reshape(layer(x), (0, 0, heads, -1)), axes=(0, 2, 1, 3)) for layer in layers)
            scores = F.linalg_gemm2(query, key, transpose_b=True) * 0.5
            if is_causal:
                at = F.contrib.arange_like(scores, axis=2)
                past = F.broadcast_greater_equal(F.expand_dims(at, 1), F.expand_dims(F.contrib.arange_like(scores, axis=3), 0))
                scores = F.broadcast_add(scores, F.reshape((past - 1) * 1e4, (1, 1, 0, 0)))
            mixed = F.transpose(F.linalg_gemm2(F.softmax(scores, axis=-1), value), axes=(0, 2, 1, 3))
            return x + F.reshape(mixed, (0, 0, -1))
        return step

    def make_forward(self):
        first, second = self.dense(2 * self.units, activation=self.choose.choice(["relu", "tanh"])), self.dense()
        return lambda F, x: x + second(first(x))

    def make_norm(self):
        layer = self.own(nn.LayerNorm())
        return lambda F, x: layer(x)

    def make_convolution(self):
        layer = self.own(nn.Conv1D(self.units, 3, padding=1, activation=self.choose.choice([None, "relu"])))
        return lambda F, x: F.transpose(layer(F.transpose(x, axes=(0, 2, 1))), axes=(0, 2, 1))

    def make_running(self):
        axis = self.choose.choice([1, 2])
        return lambda F, x: F.cumsum(x, axis=axis) * 0.1

    def make_gate(self):
        layer = self.dense(2 * self.units)

        def step(F, x):
            both = layer(x)
            return F.slice_axis(both, axis=2, begin=0, end=self.units) * F.sigmoid(F.slice_axis(both, axis=2, begin=self.units, end=None))
        return step

    def make_shift(self):
        return lambda F, x: F.concat(F.slice_axis(x, axis=1, begin=1, end=None), F.slice_axis(x, axis=1, begin=0, end=1) * 0.5, dim=1) + x

    def make_relative(self):
        axis = self.choose.choice([1, 2])
        return lambda F, x: F.broadcast_sub(x, F.max(x, axis=axis, keepdims=True))

    def make_sort(self):
        axis = self.choose.choice([1, 2])
        return lambda F, x: F.sort(x, axis=axis)

    def make_products(self):
        return lambda F, x: F.batch_dot(F.batch_dot(x, x, transpose_b=True), x) * 0.1

    def make_steps(self):
        return self.choose.choice([lambda F, x: F.SequenceReverse(F.transpose(x, axes=(1, 0, 2))).transpose((1, 0, 2)), lambda F, x: F.repeat(x, repeats=2, axis=1),
                                   lambda F, x: F.broadcast_add(x, F.slice_axis(x, axis=1, begin=-1, end=None))])

    def make_scaled(self):
        def step(F, x):
            apart = F.broadcast_sub(x, F.mean(x, axis=-1, keepdims=True))
            return F.broadcast_div(apart, F.sqrt(F.mean(apart * apart, axis=-1, keepdims=True)) + 0.1)
        return self.choose.choice([step, lambda F, x: F.broadcast_div(x, F.norm(x, axis=(1, 2), keepdims=True) + 0.1)])

    def make_cast(self):
        dtype = self.choose.choice(["float16", "float64"])
        return lambda F, x: F.cast(F.tanh(F.cast(x, dtype)), "float32")

    def make_turned(self):
        return lambda F, x: F.flip(x, axis=1) + x * 0.5

    def make_masked(self):
        return lambda F, x: F.where(F.broadcast_greater(x, F.mean(x, axis=1, keepdims=True) - 1e3), x, x * 0.5)


class Case:
    """A network, its inputs in the order in which they come, and what is done with each."""

    def __init__(self, seed):
        self.seed = seed
        choose = random.Random(seed)
        mx.random.seed(seed)
        self.net = choose.choice([Images, Sequences])(choose)
        self.net.initialize(choose.choice([mx.init.Xavier(), mx.init.Normal(0.3), mx.init.Uniform(0.5)]))
        numbers = np.random.RandomState(seed)
        shapes = self.net.shapes()
        self.calls = []
        for shape in [choose.choice(shapes) for _ in range(choose.randint(2, 4))] + shapes[:1]:
            value = self.net.drawn(shape, numbers)
            if choose.random() < 0.3 and not getattr(self.net, "has_words", False):
                value.flat[numbers.randint(value.size)] = choose.choice(SPECIAL)
            self.calls.append((nd.array(value), choose.choice(["predict", "train", "train", "record_predict"])))
        self.flags = choose.choice([{}, {}, {"static_alloc": True}, {"static_alloc": True, "static_shape": False}, {"verify": True}])
        self.is_legal = self._settles()

    def _settles(self):
        """Parameters get their shapes; a network that its shapes do not fit is none."""
        try:
            for x, _ in self.calls:
                self.net(x)
        except mx.MXNetError:
            return False
        self.start = {name: p.data().copy() for name, p in self.net.collect_params().items()}
        return True

    def run(self):
        """Everything that can be seen, from the parameters at the start."""
        parameters = self.net.collect_params()
        for name, p in parameters.items():
            p.set_data(self.start[name])
        mx.random.seed(self.seed)
        seen = []
        for x, mode in self.calls:
            if mode == "predict":
                seen.append(self.net(x).asnumpy())
                continue
            x = x.copy()
            x.attach_grad()
            with autograd.record(train_mode=mode == "train"):
                y = self.net(x)
                total = (y * nd.array(np.random.RandomState(1).normal(size=y.shape).astype("float32"))).sum()
            total.backward()
            seen += [y.asnumpy(), x.grad.asnumpy()]
            seen += [p.grad().asnumpy() for p in parameters.values() if p.grad_req != "null"]
        return seen + [p.data().asnumpy() for p in parameters.values()]


def agree(a, b):
    """Numbers that are none in the same places; the others up to rounding, measured by the largest."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    finite = np.isfinite(a)
    scale = max(1e-2, float(np.abs(a[finite]).max())) if finite.any() else 1
    return np.allclose(a, b, rtol=2e-3, atol=5e-4 * scale, equal_nan=True)
