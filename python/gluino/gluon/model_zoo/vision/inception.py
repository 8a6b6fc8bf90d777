"""Inception v3 (Szegedy et al., 2015)."""
from ... import nn
from ...contrib.nn import HybridConcurrent
from .... import _core
from ..model_store import with_weights
from ._blocks import Features, sequence

__all__ = ["Inception3", "inception_v3"]

def _basic(channels, kernel, stride=1, padding=0):
    return sequence(nn.Conv2D(channels, kernel, stride, padding, use_bias=False), nn.BatchNorm(epsilon=0.001), nn.Activation("relu"))


def _convolution(channels, height, width, stride, *padding):
    return _basic(channels, (height, width), stride, padding)


class _Rows:
    """The rows of the table, from the front."""

    def __init__(self):
        self._rows = _core.zoo_table("inception")

    def __bool__(self):
        return bool(self._rows)

    def next(self):
        return self._rows.pop(0)

    def convolutions(self):
        while self._rows[0][0] == "convolution":
            yield _convolution(*self.next()[1])

    def part(self):
        """A convolution, pooling, or branches side by side."""
        what, numbers = self.next()
        if what == "convolution":
            return _convolution(*numbers)
        if what == "max pooling":
            return nn.MaxPool2D(3, 2)
        out = HybridConcurrent(axis=1, prefix=what[len("block "):])
        with out.name_scope():
            while self._rows[0][0] != "end":
                out.add(self._branch(self.next()[0]))
        self.next()
        return out

    def _branch(self, what):
        pool = {"branch after average pooling": lambda: [nn.AvgPool2D(3, strides=1, padding=1)],
                "branch after max pooling": lambda: [nn.MaxPool2D(3, strides=2)]}.get(what, list)
        out = sequence(*pool(), *self.convolutions())
        if self._rows[0][0] != "fork":
            return out
        self.next()
        ends = HybridConcurrent(axis=1, prefix="")
        ends.add(*map(sequence, self.convolutions()))
        return sequence(out, ends)


class Inception3(Features):
    """For images of 299 x 299."""

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            rows, self.features = _Rows(), nn.HybridSequential(prefix="")
            while rows:
                self.features.add(rows.part())
            self.features.add(nn.AvgPool2D(8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


def make_aux(classes):
    """The classifier beside the network that MXNet kept for training."""
    return sequence(nn.AvgPool2D(5, 3), _basic(128, 1), _basic(768, 5), nn.Flatten(), nn.Dense(classes))


def inception_v3(pretrained=False, ctx=None, root=None, **kwargs):
    """Inception v3; pretrained=True reads the weights from a file in `root`."""
    return with_weights(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)
