"""mx.np.random: parameters are numbers or arrays, which broadcast with each other and with the size."""
import numpy as _np

from .. import _core
from ..base import MXNetError
from ..context import engine_device, placed
from .elementwise import refuse, written
from .multiarray import _op, array, ndarray

__all__ = ["uniform", "normal", "randn", "rand", "randint", "choice", "shuffle", "permutation", "multinomial", "exponential", "gamma", "beta",
           "seed", "bernoulli", "lognormal", "poisson", "laplace", "logistic", "gumbel", "chisquare", "f", "weibull", "pareto", "power",
           "rayleigh", "multivariate_normal", "random", "random_sample"]

_ARRAYS = (_core.Array, _core.SymbolBase)


def seed(seed, ctx="all"):
    """Starts the generators again: those of one context, or all."""
    _core.seed(int(seed), None if ctx in (None, "all") else engine_device(ctx))


def _size(size, *parameters):
    """The shape of the result: the one given, or that of the parameters together."""
    shapes = [tuple(p.shape) for p in parameters if isinstance(p, _ARRAYS)]
    if size is None:
        return tuple(_np.broadcast_shapes(*shapes)) if shapes else ()
    size = (int(size),) if isinstance(size, (int, _np.integer)) else tuple(size)
    if shapes and tuple(_np.broadcast_shapes(size, *shapes)) != size:
        raise ValueError(f"parameters of shapes {shapes} do not broadcast to size {size}")
    return size


def _drawn(op, size, dtype, ctx, **attrs):
    made = placed(ctx, lambda where: _op(op)(shape=size or (1,), dtype=dtype or "float32", ctx=where, **attrs))
    return made if size else made._call("Reshape", shape=())


def _at_least(name, least, **parameters):
    """Raises where a parameter that is a number is none of the distribution's."""
    for parameter, value in parameters.items():
        if isinstance(value, (int, float, _np.generic)) and value < least:
            raise MXNetError(f"random.{name}: {parameter} is {value}; it must be at least {least}")


def uniform(low=0.0, high=1.0, size=None, dtype=None, ctx=None, out=None, device=None):
    """Uniform in [low, high)."""
    return written(_drawn("_random_uniform", _size(size, low, high), dtype, ctx or device) * (high - low) + low, out)


def normal(loc=0.0, scale=1.0, size=None, dtype=None, ctx=None, out=None, device=None):
    """Normal."""
    _at_least("normal", 0, scale=scale)
    if isinstance(loc, (int, float)) and isinstance(scale, (int, float)):
        return written(_drawn("_random_normal", _size(size), dtype, ctx or device, loc=loc, scale=scale), out)
    return written(_drawn("_random_normal", _size(size, loc, scale), dtype, ctx or device) * scale + loc, out)


def randn(*size, **kwargs):
    """Normal numbers."""
    return normal(size=size, **kwargs)


def rand(*size, **kwargs):
    """Uniform numbers."""
    return uniform(size=size, **kwargs)


def random(size=None, dtype=None, ctx=None):
    """Uniform in [0, 1)."""
    return uniform(size=size, dtype=dtype, ctx=ctx)


random_sample = random


def randint(low, high=None, size=None, dtype=None, ctx=None, out=None, device=None):
    """Whole numbers in [low, high)."""
    if high is None:
        low, high = 0, low
    if low >= high:
        raise ValueError(f"randint: low is {low} and high {high}; low must be below high")
    return written(_drawn("_random_randint", _size(size), dtype or "int64", ctx or device, low=int(low), high=int(high)), out)


def exponential(scale=1.0, size=None, ctx=None, out=None):
    """Exponential with this mean."""
    _at_least("exponential", 0, scale=scale)
    return written(_drawn("_random_exponential", _size(size, scale), None, ctx) * scale, out)


def gamma(shape, scale=1.0, size=None, dtype=None, ctx=None, out=None):
    """Gamma."""
    _at_least("gamma", 0, shape=shape, scale=scale)
    if not isinstance(shape, _ARRAYS):
        return written(_drawn("_random_gamma", _size(size, scale), dtype, ctx, alpha=float(shape), beta=1.0) * scale, out)
    whole = _size(size, shape, scale)
    alphas = shape.astype(dtype or "float32").broadcast_to(whole)
    return written(_op("_sample_gamma")(alphas, _op("ones_like")(alphas)) * scale, out)


def beta(a, b, size=None, dtype=None, ctx=None):
    """Beta."""
    whole = _size(size, a, b)
    x, y = gamma(a, 1.0, whole, dtype, ctx), gamma(b, 1.0, whole, dtype, ctx)
    return x / (x + y)


def poisson(lam=1.0, size=None, ctx=None, out=None):
    """Poisson."""
    _at_least("poisson", 0, lam=lam)
    if isinstance(lam, _ARRAYS):
        return written(_op("_sample_poisson")(lam.astype("float32").broadcast_to(_size(size, lam))), out)
    return written(_drawn("_random_poisson", _size(size), None, ctx, lam=lam), out)


def bernoulli(prob=None, logit=None, size=None, dtype=None, ctx=None, out=None):
    """1 with this probability, given as itself or as its logit."""
    if (prob is None) == (logit is None):
        raise ValueError("either prob or logit is needed, and not both")
    if prob is None:
        prob = _op("sigmoid")(logit) if isinstance(logit, _ARRAYS) else float(1 / (1 + _np.exp(-logit)))
    return written((uniform(size=_size(size, prob), ctx=ctx) < prob).astype(dtype or "float32"), out)


def lognormal(mean=0.0, sigma=1.0, size=None, dtype=None, ctx=None, out=None):
    """The exponential of a normal number."""
    return written(_op("exp")(normal(mean, sigma, size, dtype, ctx)), out)


def laplace(loc=0.0, scale=1.0, size=None, dtype=None, ctx=None, out=None):
    """Laplace."""
    _at_least("laplace", 0, scale=scale)
    u = uniform(-0.5, 0.5, _size(size, loc, scale), dtype, ctx)
    return written(loc - scale * _op("sign")(u) * _op("log1p")(-2 * abs(u)), out)


def logistic(loc=0.0, scale=1.0, size=None, ctx=None, out=None):
    """Logistic."""
    _at_least("logistic", 0, scale=scale)
    u = uniform(size=_size(size, loc, scale), ctx=ctx)
    return written(loc + scale * (_op("log")(u) - _op("log1p")(-u)), out)


def gumbel(loc=0.0, scale=1.0, size=None, ctx=None, out=None):
    """Gumbel."""
    _at_least("gumbel", 0, scale=scale)
    return written(loc - scale * _op("log")(-_op("log")(uniform(size=_size(size, loc, scale), ctx=ctx))), out)


def chisquare(df, size=None, dtype=None, ctx=None):
    """Sums of the squares of df normal numbers."""
    return gamma(df / 2, 2.0, size, dtype, ctx)


def f(dfnum, dfden, size=None, ctx=None):
    """The ratio of two chi-square numbers, each divided by its degrees of freedom."""
    whole = _size(size, dfnum, dfden)
    return (chisquare(dfnum, whole, ctx=ctx) / dfnum) / (chisquare(dfden, whole, ctx=ctx) / dfden)


def weibull(a, size=None, ctx=None, out=None):
    """Weibull of scale 1."""
    _at_least("weibull", 0, a=a)
    return written(exponential(1.0, _size(size, a), ctx) ** (1.0 / a), out)


def pareto(a, size=None, ctx=None, out=None):
    """Pareto II."""
    _at_least("pareto", 0, a=a)
    return written(_op("expm1")(exponential(1.0, _size(size, a), ctx) / a), out)


def power(a, size=None, ctx=None, out=None):
    """Numbers of [0, 1] with a density that grows as their power a - 1."""
    _at_least("power", 0, a=a)
    return written(uniform(size=_size(size, a), ctx=ctx) ** (1.0 / a), out)


def rayleigh(scale=1.0, size=None, ctx=None, out=None):
    """The length of two normal numbers."""
    _at_least("rayleigh", 0, scale=scale)
    return written(_op("sqrt")(exponential(1.0, _size(size, scale), ctx) * 2) * scale, out)


def multivariate_normal(mean, cov, size=None, check_valid=None, tol=None):
    """Normal vectors with this mean and covariance; batches of either broadcast."""
    from .linalg import cholesky
    refuse("multivariate_normal", check_valid=check_valid, tol=tol)
    mean, cov = (x if isinstance(x, ndarray) or isinstance(x, _core.SymbolBase) else array(x) for x in (mean, cov))
    front = _np.broadcast_shapes(tuple(mean.shape[:-1]), tuple(cov.shape[:-2]))
    front = ((size,) if isinstance(size, int) else tuple(size or ())) + tuple(front)
    drawn = normal(size=front + tuple(mean.shape[-1:]))
    from .products import matmul
    root = cholesky(cov)
    return matmul(root, drawn._call("expand_dims", axis=-1))._call("Reshape", shape=front + tuple(mean.shape[-1:])) + mean


def permutation(x):
    """The numbers below x, or the rows of x, in a random order."""
    from .multiarray import arange
    return _op("_shuffle")(arange(x, dtype="int64") if isinstance(x, int) else x)


def shuffle(x):
    """Puts the rows into a random order, in place."""
    x[:] = _op("_shuffle")(x)


def choice(a, size=None, replace=True, p=None, ctx=None, out=None):
    """Elements drawn with these probabilities; without replacement each at most once."""
    values = array(_np.arange(a), dtype="int64") if isinstance(a, (int, _np.integer)) else a
    whole = _size(size)
    count, known = int(_np.prod(whole, dtype=int)), len(values)
    if not replace and count > known:
        raise ValueError(f"choice: {count} different elements cannot be drawn from {known}")
    if p is not None:
        p = p if isinstance(p, _ARRAYS) else array(p)
        if p.shape[0] != known:
            raise ValueError(f"choice: {p.shape[0]} probabilities for {known} elements")
    if p is not None and not replace:  # the greatest of log p + Gumbel noise (Efraimidis and Spirakis, 2006)
        numbers = _op("topk")(_op("log")(p) + gumbel(size=known), k=count, ret_typ="indices", dtype="int64")
    elif p is not None:
        numbers = _op("_sample_multinomial")(p, shape=(count,), dtype="int32")
    elif replace:
        numbers = randint(0, known, count)
    else:
        numbers = permutation(known)[:count]
    return written(_op("take")(values, numbers)._call("Reshape", shape=whole), out)


def multinomial(n, pvals, size=None):
    """How often each outcome came up in n draws."""
    whole = _size(size)
    draws = int(_np.prod(whole, dtype=int))
    if not _core.is_traced(pvals) and float(_np.sum(pvals.asnumpy() if isinstance(pvals, ndarray) else pvals)) > 1 + 1e-6:
        raise ValueError("multinomial: sum(pvals) > 1.0")
    p = pvals if isinstance(pvals, ndarray) else array(pvals)
    numbers = _op("_sample_multinomial")(p, shape=(draws * n,), dtype="int32").reshape(draws, n)
    counts = _op("one_hot")(numbers, depth=len(p)).sum(axis=1).astype("int64")
    return counts.reshape(whole + (len(p),))
