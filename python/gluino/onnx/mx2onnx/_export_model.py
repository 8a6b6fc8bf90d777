"""Gluino's and MXNet's networks as ONNX files, under MXNet's names."""
import os

import numpy as np

from ... import _core
from ... import ndarray as nd
from ... import symbol as sym_module

__all__ = ["export_model", "get_operator_support"]


def export_model(sym, params, in_shapes=None, in_types=np.float32, onnx_file_path="model.onnx", verbose=False, dynamic=False,
                 dynamic_input_shapes=None, run_shape_inference=False, input_type=None, input_shape=None, opset_version=None,
                 external_data=False):
    """Writes a symbol (or -symbol.json file) with its parameters (or .params file) as an ONNX file; gives the file's name.

    in_shapes has a shape per input that is not a parameter, in the graph's order; with dynamic=True dynamic_input_shapes says which extents
    stay free, by a name or None. external_data puts the parameters into a file beside, onnx_file_path + ".data", as is always done above 2 GB."""
    in_types, in_shapes = input_type if input_type is not None else in_types, input_shape if input_shape is not None else in_shapes
    if in_shapes is None:
        raise ValueError("export_model: in_shapes is needed: a shape for each input")
    sym = sym_module.load(os.fspath(sym)) if isinstance(sym, (str, os.PathLike)) else sym
    params = nd.load(os.fspath(params)) if isinstance(params, (str, os.PathLike)) else params
    values = {name[4:] if name.startswith(("arg:", "aux:")) else name: value for name, value in params.items()}
    names = [name for name in sym.list_inputs() if name not in values and not name.endswith("label")]
    if len(names) != len(in_shapes):
        raise ValueError(f"export_model: in_shapes has {len(in_shapes)} shapes, but the inputs are {', '.join(names)}")
    types = list(in_types) if isinstance(in_types, (list, tuple)) else [in_types] * len(names)
    free = list(dynamic_input_shapes) if dynamic and dynamic_input_shapes is not None else [None] * len(names)
    inputs = []
    for name, shape, dtype, freed in zip(names, in_shapes, types, free):
        freed = [e if isinstance(e, str) else (None if isinstance(e, (int, np.integer)) else "") for e in (freed if freed is not None else shape)]
        if dynamic and dynamic_input_shapes is None:
            freed[0] = ""
        inputs.append((name, tuple(-1 if f is not None else int(e) for e, f in zip(shape, freed)), np.dtype(dtype).name, [f or "" for f in freed]))
    _core.onnx_export(sym, values, os.fspath(onnx_file_path), inputs, 13 if opset_version is None else opset_version, external_data)
    if verbose:
        print(f"exported to {onnx_file_path}")
    return onnx_file_path


def get_operator_support(opset_version=None):
    """Names of the operators that can be written."""
    return _core.onnx_exported_operators()
