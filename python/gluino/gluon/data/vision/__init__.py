"""Datasets of images and their transforms."""
from . import transforms
from .datasets import *  # noqa: F401,F403
