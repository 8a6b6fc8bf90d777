"""MXNet's own names for reading ONNX files."""
from ._block import OnnxBlock, _metadata, _symbol_and_params

__all__ = ["get_model_metadata", "import_model", "import_to_gluon"]


def import_model(model_file):
    """(symbol, arg_params, aux_params) of an ONNX file; free extents of its inputs count as 1."""
    return _symbol_and_params(model_file)


def get_model_metadata(model_file):
    """Names and shapes of the graph's inputs and outputs; 0 stands for an extent that is free."""
    return _metadata(model_file)


def import_to_gluon(model_file, ctx=None):
    """A block from an ONNX file."""
    return OnnxBlock(model_file, ctx)
