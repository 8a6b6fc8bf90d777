"""One .onnx file in ONNX Runtime and in Gluino."""
import numpy as np
import onnx_runtime

import gluino as mx

RELATIVE = 1e-4


def largest_difference(got, expected):
    """Relative to the largest number expected: single elements may cancel to nothing."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"shape {got.shape}, expected {expected.shape}"
    if expected.size == 0:
        return 0.0
    if expected.dtype == bool or np.issubdtype(expected.dtype, np.integer):
        return float(np.count_nonzero(got.astype(np.int64) != expected.astype(np.int64)))
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(expected))
    finite = np.isfinite(expected)
    if not finite.any():
        return 0.0
    return float(np.abs(got[finite] - expected[finite]).max() / max(np.abs(expected[finite]).max(), 1e-30))


def assert_close(got, expected, what, limit=RELATIVE):
    assert len(got) == len(expected), f"{what}: {len(got)} outputs, expected {len(expected)}"
    for i, (g, e) in enumerate(zip(got, expected)):
        difference = largest_difference(g, e)
        assert difference <= limit, f"{what}, output {i} of shape {np.shape(e)}: differs by {difference:.3g} of the largest number"


def in_onnx_runtime(runtime, path, inputs):
    with onnx_runtime.Session(runtime, path) as session:
        return session({name: inputs[name] for name in session.inputs})


def call(net, inputs):
    arrays = [mx.nd.array(inputs[n], dtype=inputs[n].dtype) for n in net.input_names]
    got = net(*arrays)
    return [o.asnumpy() for o in (got if isinstance(got, (list, tuple)) else [got])]


def own_noise(runtime, path, inputs, answers):
    """How far ONNX Runtime is from itself without its optimizations."""
    return max(largest_difference(a, b) for a, b in zip(in_onnx_runtime(runtime.unoptimized(), path, inputs), answers))


def judge(runtime, path, all_inputs, unsteady=False):
    """Gluino's answers to each of the inputs are ONNX Runtime's: eager, hybridized, and again. Gives ONNX Runtime's.

    unsteady: a network that enlarges rounding, as detectors without training do; more than 1e-4 is allowed where ONNX Runtime with and without its
    optimizations differs by more than a third of that."""
    net = mx.onnx.import_model(str(path))
    answers = [in_onnx_runtime(runtime, path, inputs) for inputs in all_inputs]
    limits = [max(RELATIVE, 3 * own_noise(runtime, path, i, a)) if unsteady else RELATIVE for i, a in zip(all_inputs, answers)]
    for hybrid in (False, True):
        net.hybridize(hybrid)
        for turn in range(1 + hybrid):
            for i, (inputs, expected, limit) in enumerate(zip(all_inputs, answers, limits)):
                assert_close(call(net, inputs), expected, f"{('eager', 'hybridized')[hybrid]}, call {turn}, inputs {i}", limit)
    return answers
