"""mx.sym.contrib: control flow, and the registry's contributed operators."""
from .._control_flow import *  # noqa: F401,F403
from .._control_flow import __all__ as _made_here
from ..ndarray._optimizer_updates import adamw_update, mp_adamw_update  # noqa: F401

__all__ = [*_made_here]
