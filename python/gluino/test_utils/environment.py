"""Where tests run, and what they may assume."""
import contextlib
import functools
import os

import numpy as np

from ..context import Context, current_context

__all__ = ["default_context", "set_default_context", "default_dtype", "list_gpus", "retry", "environment", "discard_stderr", "assert_exception",
           "is_cd_run", "is_aarch64_run", "has_tvm_ops", "is_op_runnable"]


def default_context():
    """The context of tests."""
    return current_context()


def set_default_context(ctx):
    """Changes it."""
    ctx._make_current()


def default_dtype():
    """float32."""
    return np.float32


def list_gpus():
    """None."""
    return []


def is_cd_run():
    """Whether CD_JOB is set to 1."""
    return os.environ.get("CD_JOB", "0") == "1"


def is_aarch64_run():
    """Whether the processor is an Arm of 64 bits."""
    import platform
    return platform.machine() == "aarch64"


def has_tvm_ops():
    """No operators of TVM are here."""
    return False


def is_op_runnable():
    """On a CPU every operator runs."""
    return True


def retry(n):
    """A decorator: an AssertionError only counts when it comes n times."""
    def decorate(test):
        @functools.wraps(test)
        def again(*args, **kwargs):
            for _ in range(n - 1):
                with contextlib.suppress(AssertionError):
                    return test(*args, **kwargs)
            return test(*args, **kwargs)
        return again
    return decorate


@contextlib.contextmanager
def environment(*args):
    """A `with` scope with other environment variables: (name, value) or a dictionary; None takes one away."""
    wanted = args[0] if len(args) == 1 else {args[0]: args[1]}
    before = {name: os.environ.get(name) for name in wanted}

    def put(values):
        for name, value in values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = str(value)
    put(wanted)
    try:
        yield
    finally:
        put(before)


@contextlib.contextmanager
def discard_stderr():
    """A `with` scope that shows no errors of C++."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def assert_exception(f, exception_type, *args, **kwargs):
    """Raises unless f does."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{exception_type} was not raised")
