"""Training with gradients of reduced variance."""
from .svrg_module import SVRGModule

__all__ = ["SVRGModule"]
