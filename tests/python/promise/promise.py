"""What the tests of the promise share: hybridize() never changes an answer."""
import collections
import dataclasses
import enum
import warnings

import numpy as np

import gluino as mx
from gluino import autograd, gluon, nd

Pair = collections.namedtuple("Pair", "a b")
Other = collections.namedtuple("Other", "a b")


class Colour(enum.Enum):
    RED, BLUE = 1, 2


@dataclasses.dataclass
class Options:
    scale: float
    shift: object = None


def plain(value):
    """Arrays as lists, with all that is around them."""
    if isinstance(value, (nd.NDArray, mx.np.ndarray)):
        return type(value).__name__, str(value.dtype), value.asnumpy().tolist()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    if isinstance(value, dict):
        return type(value).__name__, [(k, plain(v)) for k, v in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [plain(getattr(value, f.name)) for f in dataclasses.fields(value)]
    return type(value).__name__, value


def same(function, *calls):
    """Every call gives the same eagerly and compiled, one after the other and again."""
    compiled = mx.hybrid(function)
    for _ in range(2):
        for args in calls:
            assert plain(compiled(*args)) == plain(function(*args)), args
    return compiled


def seen(value):
    """Everything that tells two values apart, the sign of 0 too."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [seen(v) for v in value]
    if isinstance(value, (mx.nd.NDArray, np.ndarray)):
        values = value if isinstance(value, np.ndarray) else value.asnumpy()
        return type(value).__name__, str(value.dtype), value.shape, str(values.tolist())
    return type(value).__name__, str(value)


def answer(f, *args):
    """What a call gives, or its error."""
    try:
        return seen(f(*args))
    except Exception as error:
        return type(error).__name__, str(error).partition(" [")[0]


def gradients(f, x):
    """That of x, where the result has one."""
    x = x.copy()
    x.attach_grad()
    with autograd.record():
        y = f(x)
        if not isinstance(y, mx.nd.NDArray) or y.dtype not in (np.float32, np.float64):
            return None
        y = (y * y).sum()
    y.backward()
    return x.grad.asnumpy().tolist()


def exactly_same(f, *inputs):
    """f gives the same for each of these arrays eagerly and compiled, bit by bit, with the same errors and gradients."""
    compiled = mx.hybrid(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            for x in inputs:
                assert answer(compiled, x) == answer(f, x)
        for x in inputs:
            if x.dtype == np.float32:
                assert answer(gradients, compiled, x) == answer(gradients, f, x)
    return compiled


def both(make, drive):
    """What drive(net) gives for a new net, eagerly, hybridized and verified."""
    results = []
    for flags in (None, {}, {"verify": True}):
        mx.random.seed(3)
        net = make()
        if flags is not None:
            net.hybridize(**flags)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(plain(drive(net)))
    assert results[1] == results[0]
    assert results[2] == results[0]
    return results[0]


class Forward(gluon.HybridBlock):
    """A block with this forward(self, *args)."""

    def __init__(self, function, **attributes):
        super().__init__()
        self.function = function
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)
