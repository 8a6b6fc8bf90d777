"""mx.np.random."""
import numpy as _np

from .. import _core
from ..context import placed
from .multiarray import _op, array, ndarray

__all__ = ["uniform", "normal", "randn", "rand", "randint", "choice", "shuffle", "permutation", "multinomial", "exponential", "gamma", "beta",
           "seed", "bernoulli", "lognormal", "poisson", "laplace", "logistic", "gumbel", "chisquare", "f", "weibull", "pareto", "power",
           "rayleigh", "multivariate_normal"]


def seed(seed_):
    """Starts the generators again."""
    _core.seed(int(seed_), None)


def _size(size, *parameters):
    if size is None:
        return next((p.shape for p in parameters if isinstance(p, (_core.Array, _core.SymbolBase))), ())
    return (size,) if isinstance(size, int) else tuple(size)


def _drawn(op, size, dtype, ctx, **attrs):
    made = placed(ctx, lambda where: _op(op)(shape=size or (1,), dtype=dtype or "float32", ctx=where, **attrs))
    return made if size else made.reshape(())


def uniform(low=0.0, high=1.0, size=None, dtype=None, ctx=None, device=None, out=None):
    """Uniform in [low, high)."""
    return _drawn("_random_uniform", _size(size, low, high), dtype, ctx or device) * (high - low) + low


def normal(loc=0.0, scale=1.0, size=None, dtype=None, ctx=None, device=None, out=None):
    """Normal."""
    if isinstance(loc, (int, float)) and isinstance(scale, (int, float)):
        return _drawn("_random_normal", _size(size), dtype, ctx or device, loc=loc, scale=scale)
    return _drawn("_random_normal", _size(size, loc, scale), dtype, ctx or device) * scale + loc


def randn(*size, **kwargs):
    """Normal numbers."""
    return normal(size=size, **kwargs)


def rand(*size, **kwargs):
    """Uniform numbers."""
    return uniform(size=size, **kwargs)


def randint(low, high=None, size=None, dtype=None, ctx=None, device=None, out=None):
    """Whole numbers in [low, high)."""
    if high is None:
        low, high = 0, low
    return _drawn("_random_randint", _size(size), dtype or "int64", ctx or device, low=low, high=high)


def exponential(scale=1.0, size=None, ctx=None, out=None):
    """Exponential with this mean."""
    return _drawn("_random_exponential", _size(size, scale), None, ctx) * scale


def gamma(shape, scale=1.0, size=None, dtype=None, ctx=None, out=None):
    """Gamma."""
    return _drawn("_random_gamma", _size(size), dtype, ctx, alpha=shape, beta=scale)


def beta(a, b, size=None, dtype=None, ctx=None):
    """Beta."""
    x, y = gamma(a, 1.0, size, dtype, ctx), gamma(b, 1.0, size, dtype, ctx)
    return x / (x + y)


def poisson(lam=1.0, size=None, ctx=None):
    """Poisson."""
    return _drawn("_random_poisson", _size(size), None, ctx, lam=lam)


def bernoulli(prob=0.5, size=None, dtype=None, ctx=None):
    """1 with this probability."""
    return (uniform(size=_size(size, prob), ctx=ctx) < prob).astype(dtype or "float32")


def lognormal(mean=0.0, sigma=1.0, size=None, ctx=None):
    """The exponential of a normal number."""
    return _op("exp")(normal(mean, sigma, size, ctx=ctx))


def laplace(loc=0.0, scale=1.0, size=None, dtype=None, ctx=None, out=None):
    """Laplace."""
    u = uniform(-0.5, 0.5, size, dtype, ctx)
    return loc - scale * _op("sign")(u) * _op("log1p")(-2 * abs(u))


def logistic(loc=0.0, scale=1.0, size=None, ctx=None, out=None):
    """Logistic."""
    u = uniform(size=size, ctx=ctx)
    return loc + scale * (_op("log")(u) - _op("log1p")(-u))


def gumbel(loc=0.0, scale=1.0, size=None, ctx=None, out=None):
    """Gumbel."""
    return loc - scale * _op("log")(-_op("log")(uniform(size=size, ctx=ctx)))


def chisquare(df, size=None, dtype=None, ctx=None):
    """Sums of the squares of df normal numbers."""
    return gamma(df / 2, 2.0, size, dtype, ctx)


def f(dfnum, dfden, size=None, ctx=None):
    """The ratio of two chi-square numbers, each divided by its degrees of freedom."""
    return (chisquare(dfnum, size, ctx=ctx) / dfnum) / (chisquare(dfden, size, ctx=ctx) / dfden)


def weibull(a, size=None, ctx=None, out=None):
    """Weibull of scale 1."""
    return exponential(1.0, _size(size, a), ctx) ** (1.0 / a)


def pareto(a, size=None, ctx=None, out=None):
    """Pareto II."""
    return _op("expm1")(exponential(1.0, _size(size, a), ctx) / a)


def power(a, size=None, ctx=None, out=None):
    """Numbers of [0, 1] with a density that grows as their power a - 1."""
    return uniform(size=_size(size, a), ctx=ctx) ** (1.0 / a)


def rayleigh(scale=1.0, size=None, ctx=None, out=None):
    """The length of two normal numbers."""
    return _op("sqrt")(exponential(1.0, _size(size, scale), ctx) * 2) * scale


def multivariate_normal(mean, cov, size=None, check_valid=None, tol=None):
    """Normal vectors with this mean and covariance."""
    from .linalg import cholesky
    mean, cov = (x if isinstance(x, ndarray) else array(x) for x in (mean, cov))
    return normal(size=_size(size) + tuple(mean.shape)).dot(cholesky(cov).transpose()) + mean


def permutation(x):
    """The numbers below x, or the rows of x, in a random order."""
    from .multiarray import arange
    return _op("_shuffle")(arange(x, dtype="int64") if isinstance(x, int) else x)


def shuffle(x):
    """Puts the rows into a random order, in place."""
    x[:] = _op("_shuffle")(x)


def choice(a, size=None, replace=True, p=None, ctx=None, out=None):
    """Elements drawn with these probabilities."""
    values = array(_np.arange(a), dtype="int64") if isinstance(a, int) else a
    count = int(_np.prod(_size(size), dtype=int))
    if p is not None:
        if not replace:
            raise NotImplementedError("choice: probabilities without replacement")
        numbers = _op("_sample_multinomial")(p if isinstance(p, ndarray) else array(p), shape=(count,), dtype="int32")
    elif replace:
        numbers = randint(0, len(values), count)
    else:
        numbers = permutation(len(values))[:count]
    return _op("take")(values, numbers).reshape(_size(size))


def multinomial(n, pvals, size=None):
    """How often each outcome came up in n draws."""
    draws = int(_np.prod(_size(size), dtype=int))
    p = pvals if isinstance(pvals, ndarray) else array(pvals)
    numbers = _op("_sample_multinomial")(p, shape=(draws * n,), dtype="int32").reshape(draws, n)
    counts = _op("one_hot")(numbers, depth=len(p)).sum(axis=1).astype("int64")
    return counts.reshape(_size(size) + (len(p),))
