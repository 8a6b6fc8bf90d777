"""ONNX files, which are neither written nor read here."""

__all__ = ["export_model", "get_operator_support", "import_model", "get_model_metadata", "import_to_gluon"]

_WHY = ("ONNX files are not written or read: export(...) writes -symbol.json and .params in MXNet 1.9's form, which MXNet's own mx2onnx converts")


def _refused(name):
    def function(*args, **kwargs):
        raise NotImplementedError(f"{name}: {_WHY}")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raises: ONNX files are not written or read."
    return function


export_model, get_operator_support, import_model, get_model_metadata, import_to_gluon = map(_refused, __all__)
