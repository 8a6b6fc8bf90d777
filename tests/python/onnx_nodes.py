"""ONNX's own node tests, as Debian's python3-onnx makes them: which there are, and whether Gluino gives their answers."""
import os

import numpy as np

import mxnet as mx

LEFT_OUT = os.path.join(os.path.dirname(__file__), "onnx_nodes_left_out.txt")
BFLOAT16 = 16  # NumPy lacks it: the cases hold its bits as uint16


def cases():
    """The cases whose inputs and outputs are tensors of numbers and truth values."""
    for alias in ("bool", "int", "float", "object", "complex", "str"):  # NumPy removed them, the cases use them
        if alias not in np.__dict__:
            setattr(np, alias, __builtins__[alias] if isinstance(__builtins__, dict) else getattr(__builtins__, alias))
    from onnx.backend.test.case.node import collect_testcases
    try:
        found = collect_testcases()
    except TypeError:  # later releases choose by operator
        found = collect_testcases(None)
    return [case for case in found if all(_is_plain(value) for inputs, outputs in case.data_sets for value in [*inputs, *outputs])]


def _is_plain(value):
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fiub"


def _from_bits(value):
    return (np.asarray(value).astype(np.uint32) << 16).view(np.float32)


def _array(value, info, dtype):
    value = np.asarray(value)
    if info.type.tensor_type.elem_type == BFLOAT16:
        return mx.np.array(_from_bits(value)).astype("bfloat16")
    return mx.np.array(value, dtype=dtype)  # mx.nd has no arrays without axes


def _compare(case, info, got, expected, how):
    expected = np.asarray(expected)
    if info.type.tensor_type.elem_type == BFLOAT16:
        expected, got = _from_bits(expected), got.astype("float32")
    got = got.asnumpy()
    assert got.shape == expected.shape, f"{how}: shape {got.shape}, expected {expected.shape}"
    # uint16 and the like are carried in the next wider type.
    narrow = expected.dtype.name in ("int16", "uint16", "uint32", "uint64")
    assert narrow or got.dtype == expected.dtype, f"{how}: {got.dtype}, expected {expected.dtype}"
    np.testing.assert_allclose(got.astype(expected.dtype), expected, rtol=case.rtol, atol=case.atol, err_msg=how)


def run(case, folder):
    """Raises where an answer differs, eager or hybridized."""
    path = os.path.join(folder, "case.onnx")
    with open(path, "wb") as file:
        file.write(case.model.SerializeToString())
    net = mx.onnx.import_model(path)
    types = [dtype for _, dtype, _ in net._program.inputs()]
    for how in ("eager", "hybridized", "hybridized again"):
        if how == "hybridized":
            net.hybridize()
        for inputs, outputs in case.data_sets:
            arrays = [_array(v, info, dtype) for v, info, dtype in zip(inputs, case.model.graph.input, types)]
            got = net(*arrays)
            got = got if isinstance(got, (list, tuple)) else [got]
            assert len(got) == len(outputs), f"{how}: {len(got)} outputs, expected {len(outputs)}"
            for info, g, e in zip(case.model.graph.output, got, outputs):
                _compare(case, info, g, e, how)


def left_out():
    """Names of cases that do not pass, with the reason."""
    entries = {}
    with open(LEFT_OUT, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, reason = line.split(":", 1)
                entries[name.strip()] = reason.strip()
    return entries
