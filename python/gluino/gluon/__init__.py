"""Gluon: blocks, parameters, layers, losses, training and data."""
from .block import Block  # noqa: F401
from .hybrid_block import HybridBlock  # noqa: F401
from .symbol_block import SymbolBlock  # noqa: F401
from .parameter import Constant, DeferredInitializationError, Parameter, tensor_types  # noqa: F401
from .parameter_dict import ParameterDict  # noqa: F401
from .trainer import Trainer  # noqa: F401
from . import loss, nn, utils, rnn, data, contrib, model_zoo
from .. import metric  # noqa: F401
