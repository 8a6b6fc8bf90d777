"""mx.onnx by its older name; import_model gives symbol and parameters, as MXNet's does."""
from ..onnx import export_model  # noqa: F401
from ..onnx.onnx2mx import get_model_metadata, import_model, import_to_gluon  # noqa: F401

__all__ = ["export_model", "get_model_metadata", "import_model", "import_to_gluon"]
