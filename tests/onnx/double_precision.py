"""The same graph in float64: what both engines round."""
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import gluino as mx

# Inputs that ONNX has in float32 whatever the data is; they are numbers of the file, not computed ones.
ALWAYS_FLOAT32 = {"Resize": (1, 2), "Upsample": (1,)}


def _widened(tensor):
    if tensor.data_type != TensorProto.FLOAT:
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)


def _widen_types(values):
    for value in values:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE


def _widen_node(node):
    for attribute in node.attribute:
        if attribute.HasField("t"):
            attribute.t.CopyFrom(_widened(attribute.t))
        if attribute.HasField("g"):
            _widen_graph(attribute.g)
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
    if node.op_type == "ConstantOfShape" and not node.attribute:
        node.attribute.append(onnx.helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))


def _widen_graph(graph):
    for initializer in graph.initializer:
        initializer.CopyFrom(_widened(initializer))
    for values in (graph.input, graph.output, graph.value_info):
        _widen_types(values)
    for node in graph.node:
        _widen_node(node)


def answers(path, inputs, folder):
    """What the model at `path` gives in float64, computed operator by operator."""
    model = onnx.load(str(path))
    _widen_graph(model.graph)
    wide = folder / "float64.onnx"
    onnx.save(model, str(wide))
    net = mx.onnx.import_model(str(wide))
    arrays = [mx.nd.array(v, dtype="float64" if v.dtype == np.float32 else v.dtype) for v in (inputs[n] for n in net.input_names)]
    got = net(*arrays)
    return [o.asnumpy() for o in (got if isinstance(got, (list, tuple)) else [got])]
