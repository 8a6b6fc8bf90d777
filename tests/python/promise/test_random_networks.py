"""Random networks over several shapes, some with NaN and infinities in their inputs: the same eagerly, hybridized and again."""
import os
import warnings

import pytest
from random_networks import Case, agree

COUNT = int(os.environ.get("GLUINO_PYTHON_NETWORKS", "100"))
FIRST = int(os.environ.get("GLUINO_PYTHON_FIRST", "0"))


def check(seed):
    """Whether the network takes its shapes at all."""
    case = Case(seed)
    if not case.is_legal:
        return False
    want = case.run()
    case.net.hybridize(**case.flags)
    for which in ("first", "second"):
        got = case.run()
        assert len(got) == len(want)
        for i, (a, b) in enumerate(zip(want, got)):
            assert agree(a, b), f"network {seed}, {case.flags}, {which} time: observation {i} of shape {a.shape} differs\n{case.net}\neager: {a}\nhybridized: {b}"
    return True


@pytest.mark.parametrize("part", range(5))
def test_random_networks(part):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        legal = [check(seed) for seed in range(FIRST + part, FIRST + COUNT, 5)]
    assert sum(legal) * 2 >= len(legal)
