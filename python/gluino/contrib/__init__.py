"""mx.contrib: control flow and contributed operators, for arrays and symbols."""
from ..ndarray import contrib as ndarray
from ..symbol import contrib as symbol
from .._control_flow import cond, foreach, while_loop  # noqa: F401

nd, sym = ndarray, symbol
