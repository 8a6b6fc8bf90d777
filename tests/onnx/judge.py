"""One .onnx file in ONNX Runtime and in Gluino."""
import double_precision
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


def judge(runtime, path, all_inputs, scratch=None):
    """Gluino's answers to each of the inputs are ONNX Runtime's to 1e-4: eager, hybridized, and again. Gives ONNX Runtime's.

    scratch: a folder, for networks that enlarge rounding, as detectors without training do. Where the two differ by more, the same graph in float64
    decides: Gluino's answer is no further from it than ONNX Runtime's."""
    net = mx.onnx.import_model(str(path))
    answers = [in_onnx_runtime(runtime, path, inputs) for inputs in all_inputs]
    exact = {}
    for hybrid in (False, True):
        net.hybridize(hybrid)
        for turn in range(1 + hybrid):
            for i, (inputs, expected) in enumerate(zip(all_inputs, answers)):
                what, got = f"{('eager', 'hybridized')[hybrid]}, call {turn}, inputs {i}", call(net, inputs)
                if scratch is None or all(largest_difference(g, e) <= RELATIVE for g, e in zip(got, expected)):
                    assert_close(got, expected, what)
                    continue
                if i not in exact:
                    exact[i] = double_precision.answers(path, inputs, scratch)
                assert_no_further(got, expected, exact[i], what)
    return answers


def assert_no_further(got, other, exact, what):
    for i, (g, o, e) in enumerate(zip(got, other, exact)):
        ours, theirs = largest_difference(g, e), largest_difference(o, e)
        print(f"{what}, output {i}: {ours:.2g} from float64, ONNX Runtime {theirs:.2g}")
        assert ours <= max(theirs, RELATIVE / 10), f"{what}, output {i}: {ours:.3g} from what float64 gives, ONNX Runtime {theirs:.3g}"
