"""What the operators inside of a hybridized block give, for those who watch them."""
from .. import _core, autograd
from ..executor import values_inside
from ._structure import values_in


def tell_of_operators(block, inputs, callback, monitor_all):
    """Calls callback(name, operator, array) for the graph of a call that was just made."""
    if not block._active or _core.is_tracing():
        return
    symbol, items = block._exported()
    values = {name[4:]: value for name, value in items}
    values.update(zip(block._inputs_of(symbol, values), (value.as_nd_ndarray() for value in values_in(inputs))))
    states = set(symbol.list_auxiliary_states())
    with autograd.pause(train_mode=autograd.is_training()):
        inside = list(values_inside(symbol, {n: v for n, v in values.items() if n not in states}, {n: v for n, v in values.items() if n in states},
                                    autograd.is_training(), monitor_all))
    for name, operator, value in inside:
        callback(name, operator, value)
