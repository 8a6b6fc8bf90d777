"""What MXNet's documentation shows of functions and classes, with numbers of our own."""
import numpy as onp
import pytest

import gluino as mx


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("package", [mx.nd, mx.np])
@pytest.mark.parametrize("operator", ["iadd", "isub", "imul", "itruediv", "imod"])
@pytest.mark.parametrize("size", [16, 5000])  # beyond 4096 elements other threads may run meanwhile
def test_updates_in_place_take_every_kind_of_number(operator, package, dtype, size):
    whole = dtype == "int32" and package is mx.np  # which NumPy does not let become fractions
    if whole and operator == "itruediv":
        pytest.skip("NumPy refuses it")
    for number in (3, True, onp.int64(3)) if whole else (3, 3.0, True, onp.float32(3), onp.int64(3)):
        values = onp.arange(size, dtype=dtype) % 7
        x = package.array(values, dtype=dtype)
        wanted = {"iadd": values + number, "isub": values - number, "imul": values * number, "itruediv": values / number,
                  "imod": values % number}[operator]
        held = x
        held = getattr(type(held), f"__{operator}__")(held, number)
        assert held is x
        onp.testing.assert_allclose(x.asnumpy(), wanted.astype(dtype), rtol=1e-6)
