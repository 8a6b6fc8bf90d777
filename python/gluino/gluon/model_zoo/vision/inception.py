"""Inception v3 (Szegedy et al., 2015)."""
from ... import nn
from ...contrib.nn import HybridConcurrent
from ..model_store import with_weights
from ._blocks import Features, sequence

__all__ = ["Inception3", "inception_v3"]

# Convolutions are (channels, kernel, stride, padding), the last two where they are not 1 and 0.
_ROW, _COLUMN = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))


def _basic(channels, kernel, stride=1, padding=0):
    return sequence(nn.Conv2D(channels, kernel, stride, padding, use_bias=False), nn.BatchNorm(epsilon=0.001), nn.Activation("relu"))


def _branch(*convolutions, pool=()):
    return sequence(*pool, *[_basic(*convolution) for convolution in convolutions])


def _side_by_side(prefix, *makers):
    out = HybridConcurrent(axis=1, prefix=prefix)
    with out.name_scope():
        out.add(*[make() for make in makers])
    return out


def _average():
    return [nn.AvgPool2D(3, strides=1, padding=1)]


def _maximum():
    return [nn.MaxPool2D(3, strides=2)]


def _block_a(prefix, pooled):
    return _side_by_side(prefix, lambda: _branch((64, 1)), lambda: _branch((48, 1), (64, 5, 1, 2)),
                         lambda: _branch((64, 1), (96, 3, 1, 1), (96, 3, 1, 1)), lambda: _branch((pooled, 1), pool=_average()))


def _block_b():
    return _side_by_side("B_", lambda: _branch((384, 3, 2)), lambda: _branch((64, 1), (96, 3, 1, 1), (96, 3, 2)), lambda: _branch(pool=_maximum()))


def _block_c(prefix, n):
    return _side_by_side(prefix, lambda: _branch((192, 1)), lambda: _branch((n, 1), (n, *_ROW), (192, *_COLUMN)),
                         lambda: _branch((n, 1), (n, *_COLUMN), (n, *_ROW), (n, *_COLUMN), (192, *_ROW)),
                         lambda: _branch((192, 1), pool=_average()))


def _block_d():
    return _side_by_side("D_", lambda: _branch((192, 1), (320, 3, 2)), lambda: _branch((192, 1), (192, *_ROW), (192, *_COLUMN), (192, 3, 2)),
                         lambda: _branch(pool=_maximum()))


def _forked(*first):
    """Ends in a row filter and a column filter side by side."""
    return sequence(_branch(*first), _side_by_side("", lambda: _branch((384, (1, 3), 1, (0, 1))), lambda: _branch((384, (3, 1), 1, (1, 0)))))


def _block_e(prefix):
    return _side_by_side(prefix, lambda: _branch((320, 1)), lambda: _forked((384, 1)), lambda: _forked((448, 1), (384, 3, 1, 1)),
                         lambda: _branch((192, 1), pool=_average()))


class Inception3(Features):
    """For images of 299 x 299."""

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = sequence(
                _basic(32, 3, 2), _basic(32, 3), _basic(64, 3, 1, 1), nn.MaxPool2D(3, 2), _basic(80, 1), _basic(192, 3), nn.MaxPool2D(3, 2),
                _block_a("A1_", 32), _block_a("A2_", 64), _block_a("A3_", 64), _block_b(), _block_c("C1_", 128), _block_c("C2_", 160),
                _block_c("C3_", 160), _block_c("C4_", 192), _block_d(), _block_e("E1_"), _block_e("E2_"), nn.AvgPool2D(8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


def make_aux(classes):
    """The classifier beside the network that MXNet kept for training."""
    return sequence(nn.AvgPool2D(5, 3), _basic(128, 1), _basic(768, 5), nn.Flatten(), nn.Dense(classes))


def inception_v3(pretrained=False, ctx=None, root=None, **kwargs):
    """Inception v3; pretrained=True reads the weights from a file in `root`."""
    return with_weights(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)
