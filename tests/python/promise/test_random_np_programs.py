"""Random functions of mx.np, with every dtype, arrays of one element and of none, indices, NaN and updates in place: eager = hybridized."""
import os

import pytest
from random_np_programs import Program, agree

import gluino as mx
from gluino import npx

COUNT = int(os.environ.get("GLUINO_PYTHON_PROGRAMS", "500"))
FIRST = int(os.environ.get("GLUINO_PYTHON_FIRST", "0"))


@pytest.mark.parametrize("part", range(10))
def test_random_programs_of_numpys_functions(part):
    npx.set_np()
    try:
        for seed in range(FIRST + part, FIRST + COUNT, 10):
            program = Program(seed)
            eager, hybridized = program.run(lambda f: f), program.run(mx.hybrid)
            for i, (a, b) in enumerate(zip(eager, hybridized)):
                if a[0] == "error" and a[2]:
                    break  # eager code sees at backward that what it needs is gone; a program may still have it
                assert agree(a, b), f"program {seed}, {program.dtypes}, {program.shapes}, observation {i} differs\n{program.source}\neager: {a}\nhybridized: {b}"
    finally:
        npx.reset_np()
