"""Pictures and tables of graphs."""
import json

import numpy as np

from . import _core

__all__ = ["print_summary", "plot_network"]


def print_summary(symbol, shape=None, line_length=120, positions=(0.44, 0.64, 0.74, 1.0)):
    """Prints operators, output shapes, parameter counts and inputs."""
    shapes = {}
    if shape is not None:
        internals = symbol.get_internals()
        _, found, _ = internals.infer_shape(**shape)
        if found is None:
            raise ValueError("Input shape is incomplete")
        shapes = dict(zip(internals.list_outputs(), found))
    nodes = json.loads(symbol.tojson())["nodes"]
    given = set(shape or ())
    columns = [int(line_length * p) for p in positions]

    def row(*fields):
        text = ""
        for field, column in zip(fields, columns):
            text = (text + str(field))[:column].ljust(column)
        print(text)
    print("_" * line_length)
    row("Layer (type)", "Output Shape", "Param #", "Previous Layer")
    print("=" * line_length)
    total = 0
    for node in nodes:
        if node["op"] == "null" and node["name"] not in given:
            continue
        inputs = [nodes[i[0]] for i in node["inputs"]]
        params = [n for n in inputs if n["op"] == "null" and n["name"] not in given]
        count = sum(int(np.prod(shapes.get(n["name"], (0,)))) for n in params if not n["name"].endswith(("label",)))
        output = shapes.get(node["name"] + "_output", shapes.get(node["name"] + "_output0", shapes.get(node["name"], "")))
        row(f"{node['name']}({node['op']})", "x".join(map(str, output[1:])) if output else "", count, ", ".join(n["name"] for n in inputs if n not in params))
        print("_" * line_length)
        total += count
    print(f"Total params: {total}")
    print("_" * line_length)


class _Plot:
    """A graph for graphviz: .source is the text; view and save write it, or a picture without graphviz (.svg)."""

    def __init__(self, symbol, shape):
        self._symbol, self._shape, self.source = symbol, shape or {}, _core.sym_to_dot(symbol)

    def _repr_svg_(self):
        return _core.sym_to_svg(self._symbol, {k: tuple(v) for k, v in self._shape.items()})

    def save(self, filename="plot.gv", directory=None):
        """Writes the text."""
        path = filename if directory is None else f"{directory}/{filename}"
        _core.write_files([(path, self.source.encode())])
        return path

    def render(self, filename="plot", directory=None, **kwargs):
        """Writes a picture."""
        path = f"{filename if directory is None else directory + '/' + filename}.svg"
        _core.write_files([(path, self._repr_svg_().encode())])
        return path

    view = render


def plot_network(symbol, title="plot", save_format="pdf", shape=None, dtype=None, node_attrs=None, hide_weights=True):
    """The graph as a picture."""
    from .symbol import Symbol
    if not isinstance(symbol, Symbol):
        raise TypeError("symbol must be a Symbol")
    return _Plot(symbol, shape)
