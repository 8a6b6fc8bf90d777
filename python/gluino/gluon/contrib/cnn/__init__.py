"""Contributed convolutions."""
from .conv_layers import *  # noqa: F401,F403
