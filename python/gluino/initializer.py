"""Initialisers: how parameters get their first values. What each fills an array with is defined once, in the library
(src/gluon/block/init.cc): here stand MXNet's signatures."""
import json
import logging
import re

from . import _core

__all__ = ["InitDesc", "Initializer", "Load", "Mixed", "Zero", "One", "Constant", "Uniform", "Normal", "Orthogonal", "Xavier", "MSRAPrelu",
           "Bilinear", "LSTMBias", "FusedRNN", "register", "create"]

_registry = {}


def register(klass):
    """Makes an initialiser known by the lower-case name of its class."""
    _registry[klass.__name__.lower()] = klass
    return klass


def alias(*aliases):
    """Makes an initialiser known by further names."""
    def named(klass):
        _registry.update({name.lower(): klass for name in aliases})
        return klass
    return named


def create(init, **kwargs):
    """An initialiser from itself, its name, or what dumps() wrote."""
    if init is None or isinstance(init, (Initializer, Mixed, Load)):
        return init
    if callable(init) and not isinstance(init, str):
        return init
    if init.startswith("["):
        name, kwargs = json.loads(init)
    else:
        name = init
    try:
        return _registry[name.lower()](**kwargs)
    except KeyError:
        raise ValueError(f"Cannot find initializer {name}. Known are: {', '.join(sorted(_registry))}") from None


class InitDesc(str):
    """A parameter's name with the attributes that decide about its initialiser."""

    def __new__(cls, name, attrs=None, global_init=None):
        desc = super().__new__(cls, name)
        desc.attrs, desc.global_init = attrs or {}, global_init
        return desc


class Initializer:
    """Fills arrays, by the parameter's name: biases with zeros, gammas with ones, all others with _init_weight."""

    _by_ending = (("weight", "_init_weight"), ("bias", "_init_bias"), ("gamma", "_init_gamma"), ("beta", "_init_beta"),
                  ("min", "_init_zero"), ("max", "_init_one"), ("running_mean", "_init_zero"), ("moving_mean", "_init_zero"),
                  ("running_var", "_init_one"), ("moving_var", "_init_one"), ("moving_inv_var", "_init_zero"), ("moving_avg", "_init_zero"))

    def __init__(self, **kwargs):
        self._kwargs = kwargs

    def set_verbosity(self, verbose=False, print_func=None):
        """Tells about every array that was filled, through print_func(array) or the norm over the root of the size."""
        self._verbose = verbose
        self._print_func = print_func or (lambda array: str((float((array * array).sum().asscalar()) / array.size) ** 0.5))
        return self

    _verbose = False

    def dumps(self):
        """Name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __eq__(self, other):
        return type(self) is type(other) and self._kwargs == other._kwargs

    __hash__ = object.__hash__

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in self._kwargs.items())})"

    def __call__(self, desc, arr):
        own = getattr(desc, "attrs", {}).get("__init__", "")
        method = next((method for ending, method in self._by_ending if desc.endswith(ending)), "_init_default")
        if own:
            create(own)._init_weight(desc, arr)
        else:
            getattr(self, method)(desc, arr)
        if self._verbose:
            logging.info("Initialized %s as %s: %s", desc, own or method[len("_init_"):], self._print_func(arr))

    def init_weight(self, name, arr):
        """Fills `arr` whatever its name says: what a parameter's own initialiser does."""
        self._init_weight(name, arr)

    def _init_zero(self, name, arr):
        arr[:] = 0.0

    def _init_one(self, name, arr):
        arr[:] = 1.0

    _init_bias = _init_beta = _init_zero
    _init_gamma = _init_one

    def _init_weight(self, name, arr):
        raise NotImplementedError(f"{type(self).__name__} must define _init_weight")

    def _init_default(self, name, arr):
        raise ValueError(f"Unknown initialization pattern for {name}. Default initialization is now limited to \"weight\", \"bias\", "
                         "\"gamma\" (1.0), and \"beta\" (0.0). Please use mx.sym.Variable(init=mx.init.*) to set initialization pattern")


@register
class Zero(Initializer):
    """Zeros."""

    def _init_weight(self, name, arr):
        arr[:] = 0.0


@register
class One(Initializer):
    """Ones."""

    def _init_weight(self, name, arr):
        arr[:] = 1.0


_registry["zeros"], _registry["ones"] = Zero, One


@register
class Constant(Initializer):
    """One number, or the values of an array."""

    def __init__(self, value):
        values = value.asnumpy() if hasattr(value, "asnumpy") else value
        super().__init__(value=values.tolist() if hasattr(values, "tolist") else values)  # as JSON has it
        self.value = value

    def _init_weight(self, name, arr):
        arr[:] = self.value


@register
class Uniform(Initializer):
    """Uniform in [-scale, scale)."""

    def __init__(self, scale=0.07):
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name, arr):
        _core.fill("uniform", {"scale": self.scale}, name, arr)


@register
class Normal(Initializer):
    """Normal around 0."""

    def __init__(self, sigma=0.01):
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name, arr):
        _core.fill("normal", {"sigma": self.sigma}, name, arr)


@register
class Orthogonal(Initializer):
    """Orthogonal rows (Saxe et al., 2013)."""

    def __init__(self, scale=1.414, rand_type="uniform"):
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale, self.rand_type = scale, rand_type

    def _init_weight(self, name, arr):
        _core.fill("orthogonal", {"scale": self.scale, "rand_type": self.rand_type}, name, arr)


@register
class Xavier(Initializer):
    """Spread by the number of inputs and outputs (Glorot and Bengio, 2010)."""

    def __init__(self, rnd_type="uniform", factor_type="avg", magnitude=3):
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, float(magnitude)

    def _init_weight(self, name, arr):
        if len(arr.shape) < 2:
            raise ValueError(f"Xavier initializer cannot be applied to vector {name}. It requires at least 2D.")
        if self.factor_type not in ("avg", "in", "out"):
            raise ValueError("Incorrect factor type")
        if self.rnd_type not in ("uniform", "gaussian"):
            raise ValueError("Unknown random type")
        _core.fill("xavier", {"rnd_type": self.rnd_type, "factor_type": self.factor_type, "magnitude": self.magnitude}, name, arr)


@register
class MSRAPrelu(Xavier):
    """For layers before PReLU (He et al., 2015)."""

    def __init__(self, factor_type="avg", slope=0.25):
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """The weights that make a deconvolution an upsampling."""

    def _init_weight(self, name, arr):
        _core.fill("bilinear", {}, name, arr)


@register
class LSTMBias(Initializer):
    """Zeros, but for the bias of the forget gate."""

    def __init__(self, forget_bias=1.0):
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name, arr):
        _core.fill("lstmbias", {"forget_bias": self.forget_bias}, name, arr)

    _init_bias = _init_weight


@register
class FusedRNN(Initializer):
    """The vector of weights of FusedRNNCell: each part by another initialiser, the bias of the forget gate by itself."""

    def __init__(self, init, num_hidden, num_layers, mode, bidirectional=False, forget_bias=1.0):
        init = create(init)
        super().__init__(init=None if init is None else init.dumps(), num_hidden=num_hidden, num_layers=num_layers, mode=mode,
                         bidirectional=bidirectional, forget_bias=forget_bias)
        self._init = init

    def _init_weight(self, desc, arr):
        from .rnn import FusedRNNCell
        kwargs = {name: value for name, value in self._kwargs.items() if name != "init"}
        cell = FusedRNNCell(**kwargs, prefix="")
        parts = cell.unpack_weights({"parameters": arr})
        fill = self._init or getattr(desc, "global_init", None)
        if fill is None:
            raise ValueError(f"FusedRNN: no initialiser is known for {desc}; give one in place of None")
        for name, part in parts.items():
            if self._kwargs["mode"] == "lstm" and name.endswith("_f_bias"):
                part[:] = self._kwargs["forget_bias"]
            else:
                fill(InitDesc(name, global_init=getattr(desc, "global_init", None)), part)
        arr[:] = cell.pack_weights(parts)["parameters"]


class Mixed:
    """The first pattern found in the name decides."""

    def __init__(self, patterns, initializers):
        if len(patterns) != len(initializers):
            raise ValueError("as many patterns as initializers are needed")
        self.map = [(re.compile(p), i) for p, i in zip(patterns, initializers)]

    def __call__(self, name, arr):
        for pattern, init in self.map:
            if pattern.match(name):
                return init(name, arr)
        raise ValueError(f"Parameter name {name} did not match any pattern. Consider adding a \".*\" pattern at the and with default Initializer.")


class Load:
    """Values from a file or dictionary by name, the others by `default_init`."""

    def __init__(self, param, default_init=None, verbose=False):
        if isinstance(param, str):
            from .ndarray import load
            param = load(param)
        self.param = {name[4:] if name.startswith(("arg:", "aux:")) else name: value for name, value in param.items()}
        self.default_init, self.verbose = default_init, verbose

    def __call__(self, name, arr):
        if name in self.param:
            if arr.shape != self.param[name].shape:
                raise ValueError(f"Parameter {name} cannot be initialized from loading. Shape mismatch, target {arr.shape} vs loaded {self.param[name].shape}")
            arr[:] = self.param[name]
        elif self.default_init is None:
            raise ValueError(f"Cannot Initialize {name}. Not found in loaded param and no default Initializer is provided.")
        else:
            self.default_init(name, arr)
