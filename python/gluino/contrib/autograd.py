"""mx.autograd as it was before 1.0."""
import functools

from .. import autograd, ndarray as nd

__all__ = ["TrainingStateScope", "set_is_training", "train_section", "test_section", "mark_variables", "backward", "compute_gradient", "grad_and_loss",
           "grad"]


def set_is_training(is_train):
    """Turns training and recording on or off; gives what was before."""
    previous = autograd.set_training(is_train)
    autograd.set_recording(is_train)
    return previous


class TrainingStateScope:
    """A `with` scope for set_is_training."""

    def __init__(self, enter_state):
        self._enter_state, self._previous = enter_state, None

    def __enter__(self):
        self._previous = set_is_training(self._enter_state)

    def __exit__(self, *exc):
        if self._previous != self._enter_state:
            set_is_training(self._previous)


def train_section():
    """A `with` scope in which operators are recorded."""
    return TrainingStateScope(True)


def test_section():
    """A `with` scope inside of train_section in which they are not."""
    return TrainingStateScope(False)


def mark_variables(variables, gradients, grad_reqs="write"):
    """Gives arrays gradients that backward() writes into the given arrays."""
    autograd.mark_variables(variables, gradients, grad_reqs)


def backward(outputs, out_grads=None, retain_graph=False):
    """Computes the gradients of marked arrays."""
    if not isinstance(outputs, (list, tuple)):
        raise AssertionError("outputs must be a list or tuple of NDArrays")
    autograd.backward(list(outputs), out_grads, retain_graph)


def compute_gradient(outputs):
    """backward() by its oldest name."""
    backward(outputs)


def grad_and_loss(func, argnum=None):
    """A function that gives (gradients with respect to the arguments, what func gives)."""
    @functools.wraps(func)
    def wrapped(*args):
        numbers = range(len(args)) if argnum is None else [argnum] if isinstance(argnum, int) else argnum
        variables = [args[i] for i in numbers]
        for variable in variables:
            if not isinstance(variable, nd.NDArray):
                raise AssertionError("type of autograd input should NDArray.")
        gradients = [nd.zeros_like(variable) for variable in variables]
        mark_variables(variables, gradients)
        with train_section():
            outputs = func(*args)
        backward([outputs] if isinstance(outputs, nd.NDArray) else outputs)
        return gradients, outputs
    return wrapped


def grad(func, argnum=None):
    """A function that gives the gradients with respect to the arguments."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(both)
    def wrapped(*args):
        return both(*args)[0]
    return wrapped
