"""Module: training of symbols, for scripts of before Gluon."""
from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .module import Module

__all__ = ["BaseModule", "Module", "BucketingModule"]
