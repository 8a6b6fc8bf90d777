"""mx.onnx by its older name."""
from ..onnx import export_model, get_model_metadata, import_model, import_to_gluon  # noqa: F401

__all__ = ["export_model", "get_model_metadata", "import_model", "import_to_gluon"]
