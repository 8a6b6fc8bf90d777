"""@mx.hybrid: compiles a plain function."""
import functools
import os

from . import _core
from ._tracing.snapshot import snapshot
from ._tracing.watch import Collector

__all__ = ["hybrid"]


def hybrid(function=None, **flags):
    """Decorates a function of arrays: the first call for a signature traces it, later ones run the compiled program.

    Options are those of HybridBlock.hybridize. The compiled function has explain(), stats() and to_dot().
    """
    if function is None:
        return functools.partial(hybrid, **flags)
    title = getattr(function, "__qualname__", type(function).__name__)
    cache = _core.HybridCache(function, lambda handle: "", Collector(lambda: (function,)), snapshot, title, flags)

    @functools.wraps(function)
    def compiled(*args, **kwargs):
        if _core.is_tracing():
            return function(*args, **kwargs)
        return cache(*args, **kwargs)
    compiled.explain = lambda html="": _core.cache_explain(cache, os.fspath(html), title)
    compiled.stats = lambda: _core.cache_stats(cache)
    compiled.to_dot = lambda before=False: _core.cache_to_dot(cache, before)
    compiled.clear = lambda: _core.cache_clear(cache)
    return compiled
