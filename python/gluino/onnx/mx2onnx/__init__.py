"""Gluino's and MXNet's networks as ONNX files, under MXNet's names."""
from ._export_model import export_model, get_operator_support  # noqa: F401

__all__ = ["export_model", "get_operator_support"]
