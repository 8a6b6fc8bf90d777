"""Training with several processes, its ranks: `mpirun -n 4 python3 script.py`, or `gluino launch -n 4 -- python3 script.py`.

A process that was started alone is the one rank of a world of one. All ranks make the same collective calls in the same order, with the same
shapes and dtypes; where they do not, every rank gets an error that says which rank is where. docs/distributed.md is the guide.
"""
import contextlib
import sys

from . import _core

__all__ = ["init", "is_initialized", "rank", "size", "local_rank", "local_size", "timeout", "set_timeout", "all_reduce", "all_gather",
           "all_gather_rows", "reduce_scatter", "broadcast", "reduce", "barrier", "broadcast_from_first", "finish", "abort", "start_timeline",
           "mark_timeline", "write_timeline"]

_ranks = _core.distributed
is_initialized, set_timeout = _ranks.is_initialized, _ranks.set_timeout
start_timeline, write_timeline = _ranks.start_timeline, _ranks.write_timeline


def init():
    """Joins the world; whatever is called first does so. From then on an error that nobody catches ends all ranks."""
    if is_initialized():
        return
    _ranks.init()
    if _ranks.size() > 1:
        _end_all_ranks_with_this_one()


def _end_all_ranks_with_this_one():
    previous = sys.excepthook

    def hook(kind, value, traceback):
        previous(kind, value, traceback)
        sys.stdout.flush()
        sys.stderr.flush()
        abort(f"{kind.__name__}: {value}")
    sys.excepthook = hook


def rank():
    """The number of this process: 0 to size() - 1."""
    init()
    return _ranks.rank()


def size():
    """How many ranks there are."""
    init()
    return _ranks.size()


def local_rank():
    """The number of this process among the ranks on this machine."""
    init()
    return _ranks.local_rank()


def local_size():
    """How many ranks are on this machine."""
    init()
    return _ranks.local_size()


def timeout():
    """How many seconds a collective waits for other ranks: set_timeout, GLUINO_DISTRIBUTED_TIMEOUT, or 300."""
    init()
    return _ranks.timeout()


def _call(operator, x, **attributes):
    from . import ndarray, symbol
    init()
    package = symbol if isinstance(x, symbol.Symbol) else ndarray
    return getattr(package._internal, f"_distributed_{operator}")(x, **attributes)


def all_reduce(x, how="sum"):
    """The arrays of all ranks combined (sum, mean, max or min), on every rank; float16 and bfloat16 are added up in float32."""
    return _call("all_reduce", x, how=how)


def all_gather(x):
    """The arrays of all ranks one after the other along axis 0."""
    return _call("all_gather", x)


def reduce_scatter(x):
    """Of the sum over all ranks, this rank's part along axis 0."""
    return _call("reduce_scatter", x)


def broadcast(x, root=0):
    """The array of rank `root`."""
    return _call("broadcast", x, root=root)


def reduce(x, root=0):
    """The sum on rank `root`, zeros elsewhere."""
    return _call("reduce", x, root=root)


def all_gather_rows(x):
    """As all_gather, where the arrays may differ in their first extent."""
    from . import numpy
    init()
    return _ranks.all_gather_rows(x, isinstance(x, numpy.ndarray))


def barrier():
    """Waits until all ranks have come to it."""
    init()
    _ranks.barrier()


def broadcast_from_first(arrays):
    """All ranks take the values of rank 0, in place."""
    init()
    _ranks.broadcast_from_first(list(arrays))


@contextlib.contextmanager
def mark_timeline(what):
    """What runs inside is a bar of the timeline, beside the buckets of gradients that are under way."""
    bar = _ranks.TimelineScope(what)
    try:
        yield
    finally:
        del bar


def finish():
    """Waits for all ranks to end and leaves the world; done when the process ends, where it is not done before."""
    if is_initialized():
        _ranks.finish()


def abort(why):
    """Ends all ranks now, with a message that names this one."""
    init()
    _ranks.abort(str(why))
