"""Gradients of gradients against differences, for every function of one number."""
import numpy as np
import pytest

from gluino import autograd, nd

RANGES = {"arcsin": (-0.8, 0.8), "arccos": (-0.8, 0.8), "arccosh": (1.2, 3), "arctanh": (-0.8, 0.8), "erfinv": (-0.8, 0.8), "log1p": (0.5, 2),
          **dict.fromkeys("log log2 log10 sqrt cbrt rsqrt rcbrt reciprocal abs softsign gamma gammaln".split(), (0.5, 2))}
NAMES = "sin cos tan sinh cosh tanh arctan arcsinh exp expm1 square sigmoid relu degrees radians erf negative softmax log_softmax".split()


@pytest.mark.parametrize("name", [*NAMES, *RANGES])
def test_second_derivatives(name):
    rng = np.random.RandomState(5)
    values, weights = rng.uniform(*RANGES.get(name, (-1, 1)), (2, 3)), nd.array(rng.rand(2, 3), dtype="float64")

    def value(x):
        return (getattr(nd, name)(x) * weights).sum()

    def squares_of_gradients(numbers):
        x = nd.array(numbers, dtype="float64")
        x.attach_grad()
        with autograd.record():
            y = value(x)
        y.backward()
        return float((x.grad ** 2).sum().asscalar())
    x = nd.array(values, dtype="float64")
    x.attach_grad()
    with autograd.record():
        gradient, = autograd.grad(value(x), [x], create_graph=True, retain_graph=True)
        y = (gradient ** 2).sum()
    y.backward()
    wanted, step = np.zeros((2, 3)), 1e-5
    for place in np.ndindex(2, 3):
        sides = []
        for sign in (1, -1):
            moved = values.copy()
            moved[place] += sign * step
            sides.append(squares_of_gradients(moved))
        wanted[place] = (sides[0] - sides[1]) / (2 * step)
    np.testing.assert_allclose(x.grad.asnumpy(), wanted, rtol=1e-4, atol=1e-6)


def test_the_derivative_of_digamma():
    x = nd.array([0.1, 0.5, 1.0, 2.5, 9.0, 100.0, -0.3, -4.6], dtype="float64")
    x.attach_grad()
    with autograd.record():
        y = nd.digamma(x)
    y.backward()
    step = 1e-5
    wanted = (nd.digamma(x + step) - nd.digamma(x - step)) / (2 * step)
    np.testing.assert_allclose(x.grad.asnumpy(), wanted.asnumpy(), rtol=1e-5)
    np.testing.assert_allclose(x.grad.asnumpy()[2], np.pi ** 2 / 6, rtol=1e-10)
