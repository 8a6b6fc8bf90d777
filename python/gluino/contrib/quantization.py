"""Quantization of models to 8 bits, which is not done here: engines run in the types that models have."""

__all__ = ["quantize_model", "quantize_model_mkldnn", "quantize_net", "quantize_net_v2", "quantize_graph", "calib_graph", "combine_histogram"]


def _refused(name):
    def function(*args, **kwargs):
        raise NotImplementedError(f"{name}: models are not quantized here; use them in float32, or cast('float16')")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raises: models are not quantized here."
    return function


quantize_model, quantize_model_mkldnn, quantize_net, quantize_net_v2, quantize_graph, calib_graph, combine_histogram = map(_refused, __all__)
