"""Networks of mx.np arrays: every optimizer, loss and recurrent layer makes what it needs besides of the kind that it was given."""
import pytest

import gluino as mx
from gluino import autograd, gluon, np, npx
from gluino.optimizer import Optimizer


@pytest.fixture(autouse=True)
def with_np():
    npx.set_np()
    yield
    npx.reset_np()


@pytest.mark.parametrize("name", sorted(Optimizer.opt_registry))
def test_optimizers(name):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(4, activation="relu"), gluon.nn.BatchNorm(), gluon.nn.Dense(2))
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), name, {"wd": 0.0})
    for _ in range(2):
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(np.ones((3, 5))), np.zeros((3, 2)))
        loss.backward()
        trainer.step(3)
    assert isinstance(net[0].weight.data(), np.ndarray)


ROWS, KIND = (2, 4), (2,)
LOSSES = {"SoftmaxCrossEntropyLoss": (ROWS, KIND), "SoftmaxCELoss": (ROWS, KIND), "CTCLoss": ((2, 5, 4), (2, 3)), "TripletLoss": (ROWS, ROWS, ROWS),
          "CosineEmbeddingLoss": (ROWS, ROWS, KIND)}


@pytest.mark.parametrize("name", [name for name in gluon.loss.__all__ if name != "Loss"])
def test_losses(name):
    out = getattr(gluon.loss, name)()(*(np.full(shape, 0.3) for shape in LOSSES.get(name, (ROWS, ROWS))))
    assert isinstance(out, np.ndarray) and out.shape in ((2,), (1,), ())


def test_recurrent_layers():
    x = np.ones((2, 3, 4))
    for layer in (gluon.rnn.LSTM(3), gluon.rnn.GRU(3, bidirectional=True), gluon.rnn.RNN(3)):
        layer.initialize()
        out, states = layer(x, layer.begin_state(3))
        assert isinstance(out, np.ndarray) and all(isinstance(s, np.ndarray) for s in states)
    for cell in (gluon.rnn.LSTMCell(3), gluon.rnn.ZoneoutCell(gluon.rnn.GRUCell(3), 0.1, 0.1), gluon.rnn.DropoutCell(0.2)):
        cell.initialize()
        for more in ({"merge_outputs": True}, {"valid_length": np.array([2, 3])}):
            cell.reset()
            cell.unroll(3, x, layout="NTC", **more)


def test_images():
    image = np.ones((8, 8, 3))
    for augmenter in mx.image.CreateAugmenter((3, 8, 8), brightness=0.1, contrast=0.1, saturation=0.1, hue=0.1, pca_noise=0.1, rand_gray=0.5, mean=True,
                                              std=True):
        image = augmenter(image)
    assert isinstance(image, np.ndarray)
