"""ONNX's own node tests through import, eager and hybridized."""
import pytest

pytest.importorskip("onnx", reason="python3-onnx is not installed; tools/setup.sh installs it")

import onnx_nodes  # noqa: E402


def test_node_tests(tmp_path):
    cases = onnx_nodes.cases()
    left_out = onnx_nodes.left_out()
    failed, passed = {}, []
    for case in cases:
        try:
            onnx_nodes.run(case, tmp_path)
            passed.append(case.name)
        except Exception as error:  # noqa: BLE001: whatever goes wrong is the case's answer
            failed[case.name] = f"{type(error).__name__}: {error}".splitlines()[0]
    print(f"{len(passed)} of {len(cases)} node tests pass")
    unexpected = {name: why for name, why in failed.items() if name not in left_out}
    assert not unexpected, f"{len(unexpected)} cases fail that should pass: {unexpected}"
    assert not [name for name in left_out if name in passed], "these pass now: take them from the list"
    assert all(left_out.values()), "every case that is left out has its reason"
    assert len(passed) >= 870
