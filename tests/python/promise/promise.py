"""What the tests of the promise share: hybridize() never changes an answer."""
import collections
import dataclasses
import enum
import warnings

import gluino as mx
from gluino import gluon, nd

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
