"""Files of a network as MXNet's exporter reads them."""
from ... import ndarray as nd
from ... import symbol as sym_module


def load_module(sym_filepath, params_filepath):
    """(symbol, parameters by name) of a -symbol.json and a .params file."""
    return sym_module.load(sym_filepath), {name[4:] if name.startswith(("arg:", "aux:")) else name: value
                                           for name, value in nd.load(params_filepath).items()}
