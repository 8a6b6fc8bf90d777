"""Random histories of backward passes: eager = hybridized = hybridized with everything static = verified."""
import os
import warnings

import pytest
from random_backward_passes import make_plan, run
from random_programs import agree

COUNT = int(os.environ.get("GLUINO_PYTHON_PROGRAMS", "500"))
FIRST = int(os.environ.get("GLUINO_PYTHON_FIRST", "0"))
# A program may have what eager code has lost; one that is made again to be differentiated once more may have lost what eager code has.
LOST = ("error", "was changed in place")


def check(seed):
    plan = make_plan(seed)
    want = run(plan)
    for flags in ({}, {"static_alloc": True, "static_shape": True}, {"verify": True}):
        for i, (a, b) in enumerate(zip(want, got := run(plan, flags))):
            if LOST in (a, b):
                break
            assert agree(a, b), f"plan {seed}, {flags}: observation {i} differs\n{plan}\neager: {a}\nhybridized: {b}"
        else:
            assert len(got) == len(want)


@pytest.mark.parametrize("part", range(10))
def test_random_backward_passes(part):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST + part, FIRST + COUNT, 10):
            check(seed)
