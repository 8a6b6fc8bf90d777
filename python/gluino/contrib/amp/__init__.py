"""Mixed precision: products in float16 or bfloat16, sums and exponentials in float32."""
from . import amp, lists, loss_scaler  # noqa: F401
from .amp import *  # noqa: F401,F403
