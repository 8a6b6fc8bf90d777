"""Random networks with random histories: eager = hybridized = verified = exported."""
import os

import numpy as np
import pytest
from random_programs import SHAPE, Program, agree

from gluino import current_context, gluon, nd

COUNT = int(os.environ.get("GLUINO_PYTHON_PROGRAMS", "500"))
FIRST = int(os.environ.get("GLUINO_PYTHON_FIRST", "0"))


def check(seed):
    program = Program(seed)
    want, _ = program.run()
    if any(seen[0] == "error" and seen[2] for seen in want if isinstance(seen, tuple)):
        return
    for flags in ({}, {"verify": True}):
        got, net = program.run(flags)
        for i, (a, b) in enumerate(zip(want, got)):
            assert agree(a, b), f"program {seed}, {flags}: observation {i} differs\n{program.source[program.source.index('class Net'):]}" \
                                f"\n{program.history}\neager: {a}\nhybridized: {b}"
        assert len(got) == len(want)
    if program.is_pure:
        with program.home:
            check_exported(net, seed)


def check_exported(net, seed):
    x, y = (nd.array(np.random.RandomState(seed + i).normal(size=SHAPE).astype("float32")) for i in range(2))
    want = net(x, y).asnumpy()
    net.export("exported")
    loaded = gluon.SymbolBlock.imports("exported-symbol.json", ["data0", "data1"], "exported-0000.params", ctx=current_context())
    np.testing.assert_allclose(loaded(x, y).asnumpy(), want, 1e-4, 1e-5)


@pytest.mark.parametrize("part", range(10))
def test_random_programs(part):
    for seed in range(FIRST + part, FIRST + COUNT, 10):
        check(seed)
