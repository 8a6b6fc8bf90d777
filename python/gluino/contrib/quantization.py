"""Quantization of models to 8 bits: a graph's layers become layers of levels, with bounds that a calibration has found or that are found at every call.

A quantized layer takes levels of 8 bits, sums in int32 and gives levels again (requantize); what follows and can be computed on levels (pooling, relu,
flatten, concat) stays in them, everything else gets real numbers back (dequantize). Weights are stored as levels."""
import functools
import json
import logging

import numpy as np

from .. import nd
from .. import symbol as sym_module
from ..base import DTYPES_BY_CODE, MXNetError
from ..context import cpu
from ..gluon import SymbolBlock

__all__ = ["quantize_model", "quantize_model_mkldnn", "quantize_net", "quantize_net_v2", "quantize_graph", "calib_graph", "combine_histogram",
           "CalibrationCollector"]

_LAYERS = {"Convolution": "_contrib_quantized_conv", "FullyConnected": "_contrib_quantized_fully_connected"}
_BINS = 8001  # of a histogram around 0, so that one is in the middle
_LEVELS = 255


# ---- the graph

class _Nodes:
    """A graph that is written node by node, in the form of a -symbol.json."""

    def __init__(self):
        self.nodes, self.by_name = [], {}

    def add(self, op, name, inputs=(), **attributes):
        """The number of the node, which is made where there is none of this name."""
        if name not in self.by_name:
            node = {"op": op, "name": name, "inputs": [[n, i, 0] for n, i in inputs]}
            if attributes:
                node["attrs"] = {key: str(value) for key, value in attributes.items()}
            self.by_name[name] = len(self.nodes)
            self.nodes.append(node)
        return self.by_name[name]

    def symbol(self, heads, about):
        """The graph that gives `heads`; `about`: what else the file said."""
        graph = {"nodes": self.nodes, "arg_nodes": [n for n, node in enumerate(self.nodes) if node["op"] == "null"],
                 "node_row_ptr": list(range(len(self.nodes) + 1)), "heads": [[n, i, 0] for n, i in heads]}
        return sym_module.load_json(json.dumps({**graph, "attrs": about}))


def _attributes(node):
    return node.get("attrs") or node.get("param") or {}


def _is_on(attributes, name):
    return str(attributes.get(name, "False")).lower() in ("true", "1")


def _is_layer(node):
    """Whether it has a form on levels: of convolutions those of images."""
    attributes = _attributes(node)
    if node["op"] == "Convolution":
        return attributes.get("kernel", "").count(",") >= 1 and len(attributes["kernel"].strip("()[] ").rstrip(",").split(",")) == 2
    return node["op"] == "FullyConnected"


def _stays_in_levels(node):
    attributes = _attributes(node)
    return (node["op"] in ("Flatten", "flatten", "relu") or node["op"] == "Activation" and attributes.get("act_type") == "relu"
            or node["op"] == "Pooling" and attributes.get("pool_type", "max") in ("max", "avg"))


class _Quantizer:
    """Writes the quantized graph beside the real one: of every value the real form, the levels, or both, each made when it is asked for."""

    def __init__(self, symbol, parameters, excluded_names, excluded_ops, dtype):
        self.graph = json.loads(symbol.tojson())
        self.parameters, self.dtype = parameters, dtype
        self.excluded_names, self.excluded_ops = set(excluded_names or ()), set(excluded_ops or ())
        self.out = _Nodes()
        self.reals, self.levels = {}, {}  # (node, output) of the given graph: (node, output) of the new one; three of these
        self.calibrated = {}              # node of the new graph that wants bounds: the name of the value they are of
        self.quantized = []               # names of parameters that are stored as levels

    def value_name(self, value):
        node = self.graph["nodes"][value[0]]
        return node["name"] if node["op"] == "null" else f"{node['name']}_output" + (str(value[1]) if value[1] else "")

    def real(self, value):
        if value not in self.reals:
            q, low, high = self.levels[value]
            self.reals[value] = self.out.add("_contrib_dequantize", f"{self.value_name(value)}_dequantize", (q, low, high)), 0
        return self.reals[value]

    def level(self, value):
        if value not in self.levels:
            name = f"{self.value_name(value)}_quantize"
            node = self.out.add("_contrib_quantize_v2", name, (self.real(value),), out_type=self.dtype)
            self.calibrated[name] = self.value_name(value)
            self.levels[value] = (node, 0), (node, 1), (node, 2)
        return self.levels[value]

    def stored_levels(self, value):
        """A parameter's: three parameters of the new graph, which says their shapes and types."""
        given = self.graph["nodes"][value[0]]["name"]
        name = given + "_quantize"
        if name not in self.quantized:
            self.quantized.append(name)
        levels = self.out.add("null", name, __shape__=self.parameters[given].shape, __dtype__=DTYPES_BY_CODE.index("int8"))
        bounds = [self.out.add("null", name + ending, __shape__=(1,), __dtype__=DTYPES_BY_CODE.index("float32")) for ending in ("_min", "_max")]
        return [(node, 0) for node in (levels, *bounds)]

    def is_parameter(self, value):
        node = self.graph["nodes"][value[0]]
        return node["op"] == "null" and node["name"] in self.parameters

    def run(self):
        for number, node in enumerate(self.graph["nodes"]):
            values = [(n, i) for n, i, *_ in node["inputs"]]
            is_excluded = node["name"] in self.excluded_names or node["op"] in self.excluded_ops
            if not is_excluded and _is_layer(node) and all(map(self.is_parameter, values[1:])):
                self.layer(number, node, values)
            elif not is_excluded and _stays_in_levels(node) and values[0] in self.levels:
                self.kept(number, node, values[0])
            elif not is_excluded and node["op"] in ("Concat", "concat") and all(v in self.levels for v in values):
                self.joined(number, node, values)
            else:
                made = self.out.add(node["op"], node["name"], [self.real(v) for v in values])
                self.out.nodes[made].update({key: node[key] for key in ("attrs", "param", "attr", "subgraphs") if key in node})
                for output in range(64):  # as many as anybody asks for
                    self.reals[number, output] = made, output
        heads = [self.real((n, i)) for n, i, *_ in self.graph["heads"]]
        return self.out.symbol(heads, self.graph.get("attrs", {}))

    def layer(self, number, node, values):
        attributes = _attributes(node)
        has_bias = len(values) > 2 and not _is_on(attributes, "no_bias")
        parts = [self.level(values[0]), self.stored_levels(values[1])] + ([self.stored_levels(values[2])] if has_bias else [])
        inputs = [p[0] for p in parts] + [bound for p in parts for bound in p[1:]]
        sums = self.out.add(_LAYERS[node["op"]], f"quantized_{node['name']}", inputs, **attributes)
        name = f"requantize_{node['name']}"
        made = self.out.add("_contrib_requantize", name, [(sums, 0), (sums, 1), (sums, 2)])
        self.calibrated[name] = self.value_name((number, 0))
        self.levels[number, 0] = (made, 0), (made, 1), (made, 2)

    def kept(self, number, node, value):
        op = {"Pooling": "_contrib_quantized_pooling", "Flatten": "_contrib_quantized_flatten", "flatten": "_contrib_quantized_flatten"}
        attributes = {"act_type": "relu"} if node["op"] in ("relu", "Activation") else _attributes(node)
        made = self.out.add(op.get(node["op"], "_contrib_quantized_act"), f"quantized_{node['name']}", self.levels[value], **attributes)
        self.levels[number, 0] = (made, 0), (made, 1), (made, 2)

    def joined(self, number, node, values):
        inputs = [self.levels[v][0] for v in values] + [bound for v in values for bound in self.levels[v][1:]]
        made = self.out.add("_contrib_quantized_concat", f"quantized_{node['name']}", inputs, **_attributes(node))
        self.levels[number, 0] = (made, 0), (made, 1), (made, 2)


def _quantized_parameters(names, parameters):
    """Parameters of the quantized graph: levels and their bounds for `names`, the others as they are."""
    out = dict(parameters)
    for name in names:
        value = out.pop(name[:-len("_quantize")], None)
        if value is None:  # two layers share it
            value = parameters[name[:-len("_quantize")]]
        levels, low, high = nd.contrib.quantize(value, value.min(), value.max(), out_type="int8")
        out.update({name: levels, f"{name}_min": low, f"{name}_max": high})
    return out


def _with_bounds(symbol, bounds, calibrated, dtype):
    """The graph with the bounds that a calibration has found."""
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        if calibrated.get(node["name"]) in bounds:
            low, high = bounds[calibrated[node["name"]]]
            attributes = node.setdefault("attrs", {})
            attributes.update(min_calib_range=repr(float(low)), max_calib_range=repr(float(high)))
            if dtype == "auto" and node["op"] == "_contrib_quantize_v2":
                attributes["out_type"] = "uint8" if low >= 0 else "int8"
    return sym_module.load_json(json.dumps(graph))


# ---- calibration

class CalibrationCollector:
    """What a calibration sees of the layers in `include_layers`. Subclasses gather it in collect() and leave bounds by layer in min_max_dict."""

    def __init__(self):
        self.include_layers, self.min_max_dict = None, {}

    def collect(self, name, op_name, arr):
        """Called with every output of every layer that is to be calibrated."""
        raise NotImplementedError

    def post_collect(self):
        """The bounds by layer, when all has been seen."""
        return self.min_max_dict


class _LayerOutputMinMaxCollector(CalibrationCollector):
    def collect(self, name, op_name, arr):
        low, high = float(arr.min().asscalar()), float(arr.max().asscalar())
        known = self.min_max_dict.get(name, (low, high))
        self.min_max_dict[name] = min(low, known[0]), max(high, known[1])


class _LayerHistogramCollector(CalibrationCollector):
    """Histograms, and from these the bounds between which levels of 8 bits tell most of the values."""

    def __init__(self):
        super().__init__()
        self.hist_dict = {}

    def collect(self, name, op_name, arr):
        values = arr.asnumpy()
        low, high = float(values.min()), float(values.max())
        bound = max(abs(low), abs(high))
        if name in self.hist_dict:
            self.hist_dict[name] = combine_histogram(self.hist_dict[name], values, low, high, bound)
        else:
            histogram, edges = np.histogram(values, bins=_BINS, range=(-bound, bound))
            self.hist_dict[name] = histogram, edges, low, high, bound

    def post_collect(self):
        for name, (histogram, edges, low, high, _) in self.hist_dict.items():
            levels = _LEVELS * 2 + 1 if low >= 0 else _LEVELS  # unsigned levels are twice as fine
            bound = float(nd.contrib.calibrate_entropy(nd.array(histogram), nd.array(edges), num_quantized_bins=levels)[0].asscalar())
            self.min_max_dict[name] = (0.0 if low >= 0 else -bound), bound
        return self.min_max_dict


def combine_histogram(old_hist, arr, new_min, new_max, new_th):
    """A histogram with more values counted in: wider with bins of the old size where they go beyond its bound."""
    histogram, edges, low, high, bound = old_hist
    if new_th > bound:
        step = 2 * bound / len(histogram) if bound else 1
        more = int((new_th - bound) // step + 1)
        histogram, bound = np.pad(histogram, more), bound + more * step
    counted, edges = np.histogram(arr, bins=len(histogram), range=(-bound, bound))
    return histogram + counted, edges, min(low, new_min), max(high, new_max), bound


_COLLECTORS = {"naive": _LayerOutputMinMaxCollector, "entropy": _LayerHistogramCollector}


def _batches(data, most):
    """Lists of arrays, one per input, of about `most` examples, from an iterator of Module's kind, a loader, or arrays."""
    if hasattr(data, "reset"):
        data.reset()
    seen = 0
    for batch in data:
        arrays = batch.data if hasattr(batch, "data") and isinstance(batch.data, list) else list(batch) if isinstance(batch, (list, tuple)) else [batch]
        yield arrays
        seen += arrays[0].shape[0]
        if most is not None and seen >= most:
            return


def _collect(symbol, parameters, input_names, wanted, collector, data, most, ctx, logger):
    """Shows the collector what the real graph computes for the values `wanted`."""
    internals = symbol.get_internals()
    names = [name for name in internals.list_outputs() if name in wanted]
    outputs = sym_module.Group([internals[name] for name in names])
    arguments, states = outputs.list_arguments(), {name: parameters[name] for name in outputs.list_auxiliary_states()}
    count = 0
    for arrays in _batches(data, most):
        given = {**parameters, **{name: array.as_in_context(ctx) for name, array in zip(input_names, arrays)}}
        bound = outputs.bind(ctx, {name: given[name] for name in arguments if name in given}, grad_req="null", aux_states=states)
        for name, value in zip(names, bound.forward(is_train=False)):
            collector.collect(name, None, value)
        count += arrays[0].shape[0]
    if not count:
        raise ValueError("calibration needs data: calib_data has no batch")
    if logger:
        logger.info("calibrated %d values with %d examples", len(names), count)


# ---- what users call

def _check(quantized_dtype, quantize_granularity, calib_mode, quantize_mode):
    for name, value, known in [("quantized_dtype", quantized_dtype, ("int8", "uint8", "auto")), ("quantize_mode", quantize_mode, ("full", "smart")),
                               ("calib_mode", calib_mode, ("none", None, "naive", "entropy", "custom"))]:
        if value not in known:
            raise ValueError(f"{name} is {value!r}; known are {', '.join(map(repr, known))}")
    if quantize_granularity != "tensor-wise":
        raise NotImplementedError(f"quantize_granularity={quantize_granularity!r}: a tensor has one pair of bounds here, 'tensor-wise'")


def quantize_graph(sym, arg_params, aux_params, ctx=cpu(), excluded_sym_names=None, excluded_op_names=None, calib_mode="entropy", quantized_dtype="int8",
                   quantize_mode="full", quantize_granularity="tensor-wise", LayerOutputCollector=None, logger=None):
    """The quantized graph without bounds, its parameters, and a collector that calib_graph takes once it has seen data (`collect(name, op_name, array)`)."""
    _check(quantized_dtype, quantize_granularity, calib_mode, quantize_mode)
    quantizer = _Quantizer(sym, arg_params, excluded_sym_names, excluded_op_names, "int8" if quantized_dtype == "auto" else quantized_dtype)
    quantized = quantizer.run()
    if logger:
        logger.info("%d parameters are stored in 8 bits", len(quantizer.quantized))
    collector = LayerOutputCollector if LayerOutputCollector is not None else _COLLECTORS[calib_mode]() if calib_mode in _COLLECTORS else None
    if collector is not None:
        collector.include_layers = sorted(set(quantizer.calibrated.values()))
        collector.calibrated = quantizer.calibrated
    return quantized, _quantized_parameters(quantizer.quantized, arg_params), dict(aux_params), collector


def calib_graph(qsym, arg_params, aux_params, collector, calib_mode="entropy", quantized_dtype="int8", logger=logging):
    """The quantized graph with the bounds that the collector of quantize_graph has found."""
    bounds = {name: tuple(map(float, pair)) for name, pair in collector.post_collect().items()}
    if not bounds:
        raise ValueError("calib_graph: the collector has seen nothing yet")
    return _with_bounds(qsym, bounds, collector.calibrated, quantized_dtype), arg_params, aux_params


def _quantize(symbol, arg_params, aux_params, input_names, ctx, excluded_names, excluded_ops, calib_mode, data, most, dtype, mode, granularity,
              collector, logger):
    if calib_mode not in ("none", None) and data is None:
        raise ValueError(f"calib_data must be given when calib_mode is {calib_mode!r}")
    quantized, parameters, states, collector = quantize_graph(symbol, arg_params, aux_params, ctx, excluded_names, excluded_ops, calib_mode, dtype, mode,
                                                              granularity, collector, logger)
    if collector is None:
        return quantized, parameters, states
    _collect(symbol, {**arg_params, **aux_params}, input_names, set(collector.include_layers), collector, data, most, ctx, logger)
    return calib_graph(quantized, parameters, states, collector, calib_mode, dtype, logger)


def quantize_model(sym, arg_params, aux_params, data_names=("data",), label_names=("softmax_label",), ctx=cpu(), excluded_sym_names=None,
                   excluded_op_names=None, calib_mode="entropy", calib_data=None, num_calib_examples=None, quantized_dtype="int8", quantize_mode="smart",
                   quantize_granularity="tensor-wise", logger=None):
    """A model of Module's kind in 8 bits: symbol, parameters, states. calib_mode: 'none', bounds are found at every call; 'naive', they are the least and
    the greatest number that calib_data (an iterator) gives; 'entropy', those that lose least."""
    return _quantize(sym, arg_params, aux_params, list(data_names), ctx, excluded_sym_names, excluded_op_names, calib_mode, calib_data, num_calib_examples,
                     quantized_dtype, quantize_mode, quantize_granularity, None, logger)


@functools.wraps(quantize_model)
def quantize_model_mkldnn(*args, **kwargs):
    return quantize_model(*args, **kwargs)  # layers are fused when the graph is compiled


quantize_model_mkldnn.__name__ = quantize_model_mkldnn.__qualname__ = "quantize_model_mkldnn"


def _input_shapes(data_shapes, calib_data):
    if data_shapes is not None:
        return [tuple(getattr(d, "shape", d)) for d in data_shapes]
    if calib_data is not None and hasattr(calib_data, "provide_data"):
        return [tuple(d.shape) for d in calib_data.provide_data]
    if calib_data is not None:
        return [a.shape for a in next(_batches(calib_data, 1))]
    raise ValueError("quantize_net needs data_shapes or calib_data: the network must be called once")


def quantize_net_v2(network, quantized_dtype="auto", quantize_mode="full", quantize_granularity="tensor-wise", exclude_layers=None, exclude_layers_match=None,
                    exclude_operators=None, calib_data=None, data_shapes=None, calib_mode="none", num_calib_examples=None, ctx=cpu(),
                    LayerOutputCollector=None, logger=None):
    """A network in 8 bits as a SymbolBlock. exclude_layers: names of layers that stay as they are; exclude_layers_match: parts of such names;
    exclude_operators: names of operators. Loaders may give labels behind the inputs."""
    shapes = _input_shapes(data_shapes, calib_data)
    for count in range(len(shapes), 0, -1):  # what a loader gives behind the inputs are labels
        try:
            network(*[nd.zeros(shape, ctx=ctx) for shape in shapes[:count]])
            break
        except (MXNetError, TypeError, ValueError):
            if count == 1 or data_shapes is not None:
                raise
    names = [f"data{i}" if count > 1 else "data" for i in range(count)]
    symbols = [sym_module.var(name) for name in names]
    outputs = network(*symbols)
    outputs = sym_module.Group(list(outputs)) if isinstance(outputs, (list, tuple)) else outputs
    values = {name: p.data(p.list_ctx()[0]) for name, p in network.collect_params().items() if p._data is not None}
    args = {name: values[name] for name in outputs.list_arguments() if name in values}
    states = {name: values[name] for name in outputs.list_auxiliary_states() if name in values}
    excluded = list(exclude_layers or ())
    nodes = [node["name"] for node in json.loads(outputs.tojson())["nodes"]]
    excluded += [name for name in nodes if any(part in name for part in exclude_layers_match or ())]
    quantized, args, states = _quantize(outputs, args, states, names, ctx, excluded, exclude_operators, calib_mode, calib_data, num_calib_examples,
                                        quantized_dtype, quantize_mode, quantize_granularity, LayerOutputCollector, logger)
    block = SymbolBlock(quantized, symbols)
    for name, parameter in block.collect_params().items():
        parameter._load({**args, **states}[name], ctx, cast_dtype=True, dtype_source="saved")
        parameter.grad_req = "null"  # levels are not trained
    return block


def quantize_net(network, quantized_dtype="auto", quantize_mode="full", exclude_layers=None, exclude_layers_match=None, exclude_operators=None,
                 calib_data=None, data_shapes=None, calib_mode="none", num_calib_examples=None, ctx=cpu(), logger=None):
    """As quantize_net_v2."""
    return quantize_net_v2(network, quantized_dtype, quantize_mode, "tensor-wise", exclude_layers, exclude_layers_match, exclude_operators, calib_data,
                           data_shapes, calib_mode, num_calib_examples, ctx, None, logger)
