"""mx.rnn: recurrent cells of symbols, of before Gluon."""
from . import conv_rnn_cell, fused_rnn_cell, io, rnn, rnn_cell  # noqa: F401
from .conv_rnn_cell import *  # noqa: F401,F403
from .fused_rnn_cell import *  # noqa: F401,F403
from .io import *  # noqa: F401,F403
from .rnn import *  # noqa: F401,F403
from .rnn_cell import *  # noqa: F401,F403
