"""Module: training of symbols, for scripts of before Gluon."""
from . import base_module, bucketing_module, executor_group, module, python_module, sequential_module  # noqa: F401
from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .module import Module
from .python_module import PythonLossModule, PythonModule
from .sequential_module import SequentialModule

__all__ = ["BaseModule", "Module", "BucketingModule", "SequentialModule", "PythonModule", "PythonLossModule"]
