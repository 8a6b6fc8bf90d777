"""Whether random numbers have the distribution that they should have."""
import math

import numpy as np

__all__ = ["mean_check", "var_check", "chi_square_check", "verify_generator", "gen_buckets_probs_with_ppf"]


def _numpy(x):
    return x.asnumpy() if hasattr(x, "asnumpy") else np.asarray(x)


def mean_check(generator, mu, sigma, nsamples=1000000):
    """Whether the mean of samples is within three deviations of mu."""
    mean = _numpy(generator(nsamples)).astype("float64").mean()
    return bool(mu - 3 * sigma / np.sqrt(nsamples) < mean < mu + 3 * sigma / np.sqrt(nsamples))


def var_check(generator, sigma, nsamples=1000000):
    """Whether the variance of samples is within three deviations of sigma squared."""
    variance = _numpy(generator(nsamples)).astype("float64").var(ddof=1)
    spread = 3 * np.sqrt(2 * sigma**4 / (nsamples - 1))
    return bool(sigma**2 - spread < variance < sigma**2 + spread)


def gen_buckets_probs_with_ppf(ppf, nbuckets):
    """Buckets of the same probability, from the inverse of a distribution function."""
    probability = 1.0 / nbuckets
    return [(ppf(probability * i), ppf(probability * (i + 1))) for i in range(nbuckets)], [probability] * nbuckets


def chi_square_tail(x, freedom):
    """The probability of a chi-square number above x: the upper incomplete gamma function (Numerical Recipes, 6.2)."""
    a, x = freedom / 2.0, x / 2.0
    if x <= 0:
        return 1.0
    front = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:  # a series of the lower function
        term = total = 1.0 / a
        for n in range(1, 10000):
            term *= x / (a + n)
            total += term
            if term < total * 1e-15:
                break
        return 1.0 - front * total
    b, c, d = x + 1.0 - a, 1e300, 1.0 / (x + 1.0 - a)  # a continued fraction of the upper one (Lentz)
    result = d
    for n in range(1, 10000):
        b, step = b + 2.0, -n * (n - a)
        d, c = 1.0 / (step * d + b), b + step / c
        result *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return front * result


def chi_square_check(generator, buckets, probs, nsamples=1000000):
    """(probability of a deviation of this size, counts, expected counts) of samples in buckets: pairs of bounds, or single values."""
    samples = _numpy(generator(nsamples)).reshape(-1)
    if isinstance(buckets[0], (list, tuple)):
        edges = np.array([buckets[0][0], *[high for _, high in buckets]])
        places = np.searchsorted(edges, samples, side="right") - 1
        counts = np.bincount(places[(places >= 0) & (places < len(buckets))], minlength=len(buckets))
    else:
        counts = np.array([(samples == value).sum() for value in buckets])
    expected = nsamples * np.asarray(probs)
    statistic = ((counts - expected) ** 2 / expected).sum()
    return chi_square_tail(float(statistic), len(buckets) - 1), counts, expected


def verify_generator(generator, buckets, probs, nsamples=1000000, nrepeat=5, success_rate=0.2, alpha=0.05):
    """Raises AssertionError where too few of several chi-square tests pass; gives their probabilities."""
    found = [chi_square_check(generator, buckets, probs, nsamples)[0] for _ in range(nrepeat)]
    passed = sum(p > alpha for p in found)
    if passed < nrepeat * success_rate:
        raise AssertionError(f"Generator test fails, Chi-square p={found}, passed {passed} of {nrepeat}, needed {nrepeat * success_rate}")
    return found
