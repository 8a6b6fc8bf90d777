"""Fine tuning an ONNX model in Python: a network that knows the digits 0 to 4 is an .onnx file; it is imported, learns all ten, and leaves
as an .onnx file again. Run with PYTHONPATH=$(make -s pythonpath)."""
import csv
import gzip
import os

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "digits.csv.gz")


def digits(end):
    with gzip.open(DATA, "rt") as file:
        rows = np.array([[float(n) for n in row] for row in csv.reader(file)], dtype="float32")
    rows = rows[rows[:, -1] < end]
    images, labels = rows[:, :-1].reshape(-1, 1, 8, 8) / 16, rows[:, -1]
    cut = len(rows) * 4 // 5
    return gluon.data.ArrayDataset(images[:cut], labels[:cut]), (mx.nd.array(images[cut:]), labels[cut:])


def fit(net, end, epochs=15):
    train, (images, labels) = digits(end)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(epochs):
        for x, y in gluon.data.DataLoader(train, batch_size=50, shuffle=True):
            with autograd.record():
                loss = loss_function(net(x), y)
            loss.backward()
            trainer.step(len(x))
    return float((net(images).asnumpy().argmax(axis=1) == labels).mean())


def write(net, path):
    symbol, parameters = net.export(path[:-5])
    return mx.onnx.export_model(symbol, parameters, [(1, 1, 8, 8)], onnx_file_path=path, dynamic=True)


def main():
    mx.random.seed(1)
    first = gluon.nn.HybridSequential()
    first.add(gluon.nn.Conv2D(16, 3, padding=1, activation="relu"), gluon.nn.MaxPool2D(2), gluon.nn.Dense(32, activation="relu"), gluon.nn.Dense(10))
    first.initialize(mx.init.Xavier())
    first.hybridize()
    print(f"digits 0 to 4, from scratch: accuracy {fit(first, 5):.3f}")
    write(first, "first.onnx")  # any framework could have written it

    net = mx.onnx.import_model("first.onnx")
    net.hybridize()
    accuracy = fit(net, 10)
    print(f"all digits, fine tuned:      accuracy {accuracy:.3f}")
    again = mx.onnx.import_model(write(net, "tuned.onnx"))
    x = mx.nd.random.normal(shape=(3, 1, 8, 8))
    np.testing.assert_allclose(net(x).asnumpy(), again(x).asnumpy(), rtol=1e-4, atol=1e-5)
    assert accuracy > 0.85


if __name__ == "__main__":
    main()
