"""ONNX files: models of other frameworks in, networks of Gluino and MXNet out."""
from . import mx2onnx, onnx2mx  # noqa: F401
from ._block import OnnxBlock, import_model  # noqa: F401
from .mx2onnx import export_model, get_operator_support  # noqa: F401
from .onnx2mx import get_model_metadata, import_to_gluon  # noqa: F401

__all__ = ["OnnxBlock", "export_model", "get_model_metadata", "get_operator_support", "import_model", "import_to_gluon"]
