"""The functions of mx.nd.random and mx.sym.random: one definition for both, over the registry's two forms of each
distribution (numbers as parameters, arrays as parameters)."""
from . import _core
from .base import MXNetError

_LIKE = {"uniform": {"low": 0, "high": 1}, "normal": {"loc": 0, "scale": 1}, "exponential": {"lam": 1}, "poisson": {"lam": 1},
         "gamma": {"alpha": 1, "beta": 1}, "negative_binomial": {"k": 1, "p": 1}, "generalized_negative_binomial": {"mu": 1, "alpha": 1}}
NAMES = [*(f"{name}_like" for name in _LIKE), "uniform", "normal", "randn", "poisson", "exponential", "gamma", "negative_binomial", "generalized_negative_binomial",
         "multinomial", "shuffle", "randint", "bernoulli"]


_NOT_NEGATIVE = ("scale", "sigma", "lam", "alpha", "beta", "k")


def _check(name, parameters):
    """Raises where a parameter given as a number is none of the distribution's."""
    for parameter, value in parameters.items():
        if parameter in _NOT_NEGATIVE and isinstance(value, (int, float)) and value < 0:
            raise MXNetError(f"random.{name}: {parameter} is {value}; it must be at least 0")
    low, high, p = parameters.get("low"), parameters.get("high"), parameters.get("p")
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low > high:
        raise MXNetError(f"random.{name}: low is {low} and high {high}; low must not be above high")
    if isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise MXNetError(f"random.{name}: p is {p}; it must lie between 0 and 1")


def functions(draw, array_type):
    """`draw(op, dtype, ctx, out, attrs)` makes the call; `array_type` is what counts as an array of parameters."""

    def sampled(name, parameters, shape, dtype, ctx, out):
        _check(name, parameters)
        arrays = any(isinstance(p, array_type) or _core.is_traced(p) for p in parameters.values())
        if arrays:
            if not all(isinstance(p, array_type) or _core.is_traced(p) for p in parameters.values()):
                raise ValueError(f"{name}: either all of {', '.join(parameters)} are arrays, or none is")
            return draw(f"_sample_{name}", dtype, None, out, {**parameters, "shape": () if shape is None else shape})
        if out is not None and shape is None:
            shape = out.shape
        return draw(f"_random_{name}", dtype, ctx, out, {**parameters, "shape": (1,) if shape is None else shape})

    def uniform(low=0, high=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
        """Uniform in [low, high)."""
        return sampled("uniform", {"low": low, "high": high}, shape, dtype, ctx, out)

    def normal(loc=0, scale=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
        """Normal with this mean and standard deviation."""
        if isinstance(loc, array_type):
            return sampled("normal", {"mu": loc, "sigma": scale}, shape, dtype, ctx, out)
        return sampled("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out)

    def randn(*shape, **kwargs):
        """Normal numbers of a shape given as arguments."""
        return normal(kwargs.pop("loc", 0), kwargs.pop("scale", 1), shape=shape or (1,), **kwargs)

    def poisson(lam=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
        """Poisson."""
        return sampled("poisson", {"lam": lam}, shape, dtype, ctx, out)

    def exponential(scale=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
        """Exponential with this mean."""
        return sampled("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out)

    def gamma(alpha=1, beta=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
        """Gamma with shape alpha and scale beta."""
        return sampled("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out)

    def negative_binomial(k=1, p=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
        """Negative binomial."""
        return sampled("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out)

    def generalized_negative_binomial(mu=1, alpha=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
        """Generalized negative binomial."""
        return sampled("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, ctx, out)

    def multinomial(data, shape=None, get_prob=False, out=None, dtype="int32", **kwargs):
        """Positions drawn with the probabilities of the last axis; get_prob: with the logarithms of these."""
        return draw("_sample_multinomial", dtype, None, out, {"data": data, "shape": shape, "get_prob": get_prob})

    def shuffle(data, **kwargs):
        """The rows in a random order."""
        return draw("_shuffle", None, None, kwargs.get("out"), {"data": data})

    def randint(low, high, shape=None, dtype=None, ctx=None, out=None, **kwargs):
        """Whole numbers in [low, high)."""
        return draw("_random_randint", dtype or "int32", ctx, out, {"low": low, "high": high, "shape": (1,) if shape is None else shape})

    def bernoulli(prob=0.5, shape=None, dtype=None, ctx=None, out=None, **kwargs):
        """1 with this probability, else 0."""
        return draw("_bernoulli", dtype, None, out, {"prob": prob, "shape": (1,) if shape is None else shape})

    made = dict(locals())
    made.update({f"{name}_like": _like(draw, name, parameters) for name, parameters in _LIKE.items()})
    return {name: made[name] for name in NAMES}


def _like(draw, name, parameters):
    def function(data, *args, out=None, **kwargs):
        given = {**parameters, **dict(zip(parameters, args)), **kwargs}
        return draw(f"_random_{name}_like", None, None, out, {"data": data, **given})
    function.__name__ = function.__qualname__ = f"{name}_like"
    function.__doc__ = f"Numbers of the distribution {name} in the shape of another array."
    return function
