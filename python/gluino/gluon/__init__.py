"""Gluon: blocks, parameters, layers, losses, training and data."""
from .block import Block, HybridBlock  # noqa: F401
from .symbol_block import SymbolBlock  # noqa: F401
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict, tensor_types  # noqa: F401
from .trainer import Trainer  # noqa: F401
from . import loss, nn, utils, rnn, data, contrib, model_zoo
from .. import metric  # noqa: F401
