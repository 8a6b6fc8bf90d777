"""Malformed requests are refused, each of them, and the server goes on. GLUINO_FUZZ_REQUESTS=10000 for a long run."""
import os

import numpy as np

import malformed
from conftest import random_array


def test_malformed_requests_are_refused(serve, models):
    server = serve(models.folder / "mlp", "--max-body-mb", "1")
    found = malformed.ask_all(server.port, int(os.environ.get("GLUINO_FUZZ_REQUESTS", 500)))
    assert found[400] > 100 and found[404] > 10
    x = random_array(0, 2, 8)
    np.testing.assert_array_equal(server.infer("mlp", data=x).output, models.mlp(x))
    assert server.metrics()["gluino_buffered_bytes"] == 0
