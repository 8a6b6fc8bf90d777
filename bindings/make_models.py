#!/usr/bin/python3
"""Writes the models that the tests of all languages run, and what Python computes with them: make_models.py FOLDER.

For each model NAME-symbol.json, NAME-0000.params, and NAME.cases: lines of words,
    input|output NAME DTYPE NDIM EXTENT... VALUE...
in the order in which the model takes and gives them, and a line "run" after each case. Batch and length differ from case to case."""
import pathlib
import sys

import numpy

import gluino as mx
from gluino import gluon, nd


class Perceptron(gluon.nn.HybridSequential):
    def __init__(self):
        super().__init__()
        self.add(gluon.nn.Dense(16, activation="relu"), gluon.nn.Dense(16, activation="tanh"), gluon.nn.Dense(3))


class Convolutions(gluon.nn.HybridSequential):
    def __init__(self):
        super().__init__()
        self.add(gluon.nn.Conv2D(8, 3, padding=1), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"), gluon.nn.MaxPool2D(2),
                 gluon.nn.Conv2D(8, 3, groups=2), gluon.nn.GlobalAvgPool2D(), gluon.nn.Dense(5))


class Loop(gluon.HybridBlock):
    """A recurrence over the first axis, whatever its length, and a branch on a value."""

    def __init__(self):
        super().__init__()
        self.cell = gluon.nn.Dense(6, activation="tanh", in_units=10)

    def hybrid_forward(self, F, data, state):
        def step(x, s):
            s = self.cell(F.concat(x, s, dim=1))
            return s, s

        steps, last = F.contrib.foreach(step, data, state)
        return steps, F.contrib.cond(F.sum(last) > 0, lambda: last * 2, lambda: last - 1)


class Embedding(gluon.HybridBlock):
    """Words as whole numbers, and their weights."""

    def __init__(self):
        super().__init__()
        self.words = gluon.nn.Embedding(50, 8)
        self.output = gluon.nn.Dense(4)

    def hybrid_forward(self, F, tokens, weights):
        return self.output(F.broadcast_mul(self.words(tokens), F.expand_dims(weights, axis=2)).sum(axis=1))


def normal(*shape):
    return numpy.random.normal(size=shape).astype("float32")


def tokens(*shape):
    return numpy.random.randint(0, 50, shape).astype("int32")


# name: the network, the names of its inputs, and inputs of several cases
MODELS = {
    "mlp": (Perceptron, ["data"], lambda: [[normal(n, 8)] for n in (1, 4, 3)]),
    "conv": (Convolutions, ["data"], lambda: [[normal(n, 3, side, side)] for n, side in ((2, 16), (1, 16), (3, 21))]),
    "loop": (Loop, ["data", "state"], lambda: [[normal(length, 2, 4), normal(2, 6)] for length in (3, 7, 1)]),
    "embedding": (Embedding, ["tokens", "weights"], lambda: [[tokens(n, length), normal(n, length)] for n, length in ((2, 5), (1, 9))]),
}


def line(kind, name, array):
    values = (f"{v:.9g}" for v in array.ravel())
    return " ".join([kind, name, array.dtype.name, str(array.ndim), *map(str, array.shape), *values]) + "\n"


def export(folder, name, make, input_names, make_cases):
    mx.random.seed(3)
    numpy.random.seed(5)
    net = make()
    net.initialize(mx.init.Normal(0.5))
    cases = make_cases()
    net.hybridize()
    net(*(nd.array(x, dtype=x.dtype) for x in cases[0]))
    stem = str(folder / name)
    net.export(stem)
    with open(f"{stem}.cases", "w") as file:
        for inputs in cases:
            arrays = [nd.array(x, dtype=x.dtype) for x in inputs]
            outputs = net(*arrays)
            outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            for n, x in zip(input_names, inputs):
                file.write(line("input", n, x))
            for i, y in enumerate(outputs):
                file.write(line("output", str(i), y.asnumpy()))
            file.write("run\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (make, input_names, cases) in MODELS.items():
        export(folder, name, make, input_names, cases)
    print(f"{len(MODELS)} models in {folder}")


if __name__ == "__main__":
    main()
