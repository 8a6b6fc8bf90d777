"""Steps of optimizers with gradients that are rows: the weight and its states change in those rows alone, unless lazy_update is false."""
from .ndarray import NDArray
from .sparse import RowSparseNDArray, rows_of

# The states of each step, which stand behind the weight and its gradient.
STEPS = {"sgd_update": (), "sgd_mom_update": ("mom",), "adam_update": ("mean", "var"), "ftrl_update": ("z", "n"), "_sparse_adagrad_update": ("history",),
         "_contrib_group_adagrad_update": ("history",)}


def _put(array, rows, values):
    if not isinstance(array, RowSparseNDArray):
        array[rows] = values
        return
    dense = array.todense()
    dense[rows] = values
    array[:] = dense


def step(name, args, kwargs):
    """The step of an operator with sparse arrays; NotImplemented where it is to change every row."""
    given = {**dict(zip(("weight", "grad", *STEPS[name]), args)), **kwargs}
    if len(args) > 2 + len(STEPS[name]) or not isinstance(given.get("grad"), RowSparseNDArray) or not given.pop("lazy_update", True):
        return NotImplemented
    from . import _internal
    arrays, grad, out = [given.pop(key) for key in ("weight", *STEPS[name])], given.pop("grad"), given.pop("out", None)
    if out is None:
        out = arrays[0].copy()
    elif out is not arrays[0] and isinstance(out, NDArray):
        out[:] = arrays[0]
    if not grad.indices.size:
        return out
    weight, *states = [rows_of(array, grad.indices).data for array in arrays]
    weight = getattr(_internal, name)(weight, grad.data, *states, **given)
    for array, rows in zip((out, *arrays[1:]), (weight, *states)):
        _put(array, grad.indices, rows)
    return out
