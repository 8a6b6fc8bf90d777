"""A wrong text among the options of a layer or loss is an error of its constructor, or for an activation of its first call: every class, every such
option."""
import inspect

import pytest

import layer_samples
from gluino import gluon

TEXTS = ("activation", "recurrent_activation", "layout", "conv_layout", "label_layout", "label_format")
NEEDED = {"channels": 4, "kernel_size": 3, "units": 3, "hidden_size": 3, "input_shape": None, "hidden_channels": 4, "i2h_kernel": 3, "h2h_kernel": 3}
SHAPES = {"Conv1D": (3, 8), "Conv2D": (3, 8, 8), "Conv3D": (3, 8, 8, 8)}


def _class(name):
    for module in (gluon.nn, gluon.rnn, gluon.loss, gluon.contrib.nn, gluon.contrib.rnn, gluon.contrib.cnn):
        if hasattr(module, name):
            return getattr(module, name)


def _cases():
    for name in sorted(layer_samples.all_classes() - layer_samples.BASES):
        for option, parameter in inspect.signature(_class(name).__init__).parameters.items():
            if option in TEXTS:
                yield name, option, parameter


@pytest.mark.parametrize("name, option, parameter", [pytest.param(*case, id=f"{case[0]}-{case[1]}") for case in _cases()])
def test_wrong_texts(name, option, parameter):
    make = _class(name)
    wanted = {key: value for key, value in NEEDED.items() if key in inspect.signature(make.__init__).parameters}
    if "input_shape" in wanted:
        wanted["input_shape"] = SHAPES[name[:6]]
    good = parameter.default if isinstance(parameter.default, str) else "tanh"
    make(**{**wanted, option: good})
    for wrong in ("nonsense", good + "x", good[1:], good.swapcase(), good + " "):
        for flags in (None, {}):
            with pytest.raises((ValueError, AssertionError, gluon.parameter.MXNetError)) as error:
                layer = make(**{**wanted, option: wrong})
                assert "activation" in option, "others are looked at by the constructor"
                layer.initialize()
                if flags is not None:
                    layer.hybridize()
                layer_samples.run(layer, layer_samples.SAMPLES[name][1]())
            assert wrong in str(error.value)


def test_there_are_cases():
    assert len(list(_cases())) > 40
