"""What the operators inside of a hybridized block give, for those who watch them."""
import json

from .. import _core, autograd
from ._structure import values_in


def tell_of_operators(block, inputs, callback, monitor_all):
    """Compiled programs keep no values inside: they are computed beside it, on copies of the states that operators change."""
    if not block._active or _core.is_tracing():
        return
    symbol, items = block._exported()
    values = {name[4:]: value.copy() if name.startswith("aux:") else value for name, value in items}
    values.update(zip(block._inputs_of(symbol, values), (value.as_nd_ndarray() for value in values_in(inputs))))
    internals = symbol.get_internals()
    states = set(symbol.list_auxiliary_states())
    with autograd.pause(train_mode=autograd.is_training()):
        inside = _core.sym_bind(internals, {n: v for n, v in values.items() if n not in states}, {}, {}, {n: v for n, v in values.items() if n in states})
        inside.forward(autograd.is_training())
    operators = {node["name"]: node["op"] for node in json.loads(symbol.tojson())["nodes"]}
    for name, value in zip(internals.list_outputs(), inside.outputs(False)):
        node = name if name in operators else name.rpartition("_")[0]
        if monitor_all or operators.get(node) != "null":
            callback(name, operators.get(node, ""), value)
