"""Small impure programs: each is run eagerly and hybridized from the same beginning, and everything a user sees is compared."""
import random
import warnings

import numpy as np
from promise import plain

import gluino as mx
from gluino import gluon, nd


def rows(k=0):
    """A small array; another one for another k."""
    return nd.array(np.arange(6).reshape(2, 3) * 0.3 - 0.5 + k * 0.1)


def calls(f):
    """What seven calls give."""
    return [plain(f(rows(k % 3))) for k in range(7)]


def changing(values, put, f):
    """put(value) changes something before each call."""
    def drive(function):
        seen = []
        for value in values:
            put(value)
            seen.append(plain(function(rows())))
        return seen
    return f, drive


def _rounded(value):
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return type(value)(map(_rounded, value)) if type(value) in (list, tuple) else value


def expect_same(make):
    """make() gives a function or block, and what is done with it."""
    seen = []
    for hybridized in (False, True):
        mx.random.seed(3)
        random.seed(3)
        np.random.seed(3)
        f, drive = make()
        if isinstance(f, gluon.Block):
            f.initialize()
            if hybridized:
                f.hybridize()
        elif hybridized:
            f = mx.hybrid(f)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what runs operator by operator
            seen.append(str(_rounded(drive(f))))
    assert seen[1] == seen[0]
