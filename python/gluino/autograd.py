"""Recording operators and computing gradients."""
from . import _core

__all__ = ["record", "pause", "train_mode", "predict_mode", "is_recording", "is_training", "set_recording", "set_training", "mark_variables",
           "backward", "grad", "get_symbol", "Function"]

is_recording = _core.is_recording
is_training = _core.is_training
set_recording = _core.set_recording
set_training = _core.set_training


_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}  # the numbers of MXNet's C interface


class _Scope:
    def __init__(self, recording, training):
        self._wanted = recording, training
        self._previous = None

    def __enter__(self):
        recording, training = self._wanted
        self._asked = _core.ask_modes(None if recording is None else not recording) if _core.is_tracing() else None
        self._previous = (None if recording is None else set_recording(recording), None if training is None else set_training(training))
        self._is_pause = self._previous[0] is True and not recording
        if self._is_pause:
            _core.count_pause(1)

    def __exit__(self, *exc):
        recording, training = self._previous
        if self._asked is not None:
            _core.put_asked_modes(self._asked)
        if self._is_pause:
            _core.count_pause(-1)
        if recording is not None:
            set_recording(recording)
        if training is not None:
            set_training(training)

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def inside(*args, **kwargs):
            with _Scope(*self._wanted):
                return function(*args, **kwargs)
        return inside


def record(train_mode=True):
    """A `with` scope in which operators are recorded for backward()."""
    return _Scope(True, train_mode)


def pause(train_mode=False):
    """A `with` scope in which they are not."""
    return _Scope(False, train_mode)


def train_mode():
    """A `with` scope in which dropout and batch normalisation behave as in training."""
    return _Scope(None, True)


def predict_mode():
    """A `with` scope in which they behave as in prediction."""
    return _Scope(None, False)


def _listed(x):
    if x is None:
        return []
    return list(x) if isinstance(x, (list, tuple)) else [x]


def mark_variables(variables, gradients, grad_reqs="write"):
    """Gives arrays gradients that backward() writes into the given arrays."""
    variables, gradients = _listed(variables), _listed(gradients)
    requests = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else list(grad_reqs)
    for variable, gradient, request in zip(variables, gradients, requests):
        _core.mark_variable(variable, gradient, request)


def backward(heads, head_grads=None, retain_graph=False, train_mode=True):
    """Computes the gradients of all arrays with attach_grad() that the heads depend on."""
    heads = _listed(heads)
    head_grads = [None] * len(heads) if head_grads is None else _listed(head_grads)
    if len(head_grads) != len(heads):
        raise ValueError(f"{len(heads)} heads, but {len(head_grads)} head gradients")
    _core.backward(heads, head_grads, retain_graph, train_mode)


def grad(heads, variables, head_grads=None, retain_graph=None, create_graph=False, train_mode=True):
    """The gradients with respect to `variables`; with create_graph they can be differentiated again."""
    from .numpy.multiarray import _Symbol, ndarray
    wanted = _listed(variables)
    if not wanted:
        raise ValueError("variables cannot be an empty list.")
    heads = _listed(heads)
    head_grads = [None] * len(heads) if head_grads is None else _listed(head_grads)
    retain = create_graph if retain_graph is None else retain_graph
    found = _core.grad(heads, wanted, head_grads, retain, create_graph, train_mode, isinstance(wanted[0], (ndarray, _Symbol)))
    return found


def get_symbol(x):
    """The recorded computation of `x` as a Symbol; arrays that it started from are variables."""
    if not isinstance(x, _core.Array):
        raise TypeError(f"get_symbol takes an array, not {x!r:.60}")
    return _core.get_symbol(x)


class Function:
    """A function with a gradient of its own: define forward(self, *inputs) and backward(self, *output_grads)."""

    def __init__(self):
        self._saved = ()

    def save_for_backward(self, *arrays):
        """Keeps arrays for backward, as self.saved_tensors."""
        self._saved = arrays

    @property
    def saved_tensors(self):
        return self._saved

    def __call__(self, *inputs):
        from .numpy import ndarray
        result = _core.call_function(self._forward, self._backward, list(inputs), any(isinstance(x, ndarray) for x in inputs))
        return tuple(result) if isinstance(result, list) else result

    def _forward(self, *inputs):
        with pause(train_mode=is_training()):
            return self.forward(*inputs)

    def _backward(self, *grads):
        with pause(train_mode=is_training()):
            return self.backward(*grads)

    def forward(self, *inputs):
        """What the function computes."""
        raise NotImplementedError

    def backward(self, *output_grads):
        """The gradients of the inputs, given those of the outputs."""
        raise NotImplementedError
