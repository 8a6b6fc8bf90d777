"""Networks for images: get_model('resnet18_v1'), or the function of that name."""
from . import alexnet as _alexnet, densenet as _densenet, inception as _inception, mobilenet as _mobilenet, resnet as _resnet, small as _small
from . import squeezenet as _squeezenet, vgg as _vgg
from .alexnet import *  # noqa: F401,F403
from .densenet import *  # noqa: F401,F403
from .inception import *  # noqa: F401,F403
from .mobilenet import *  # noqa: F401,F403
from .resnet import *  # noqa: F401,F403
from .small import *  # noqa: F401,F403
from .squeezenet import *  # noqa: F401,F403
from .vgg import *  # noqa: F401,F403

# What get_model() knows: functions by their own names, but for numbers with a point.
_SPELLINGS = {"inception_v3": "inceptionv3", "mobilenet_v2_": "mobilenetv2_", "0_": "0.", "1_": "1."}
_models = {"mlp": _small.MLP, "lenet": _small.LeNet}
for _module in (_alexnet, _densenet, _inception, _mobilenet, _resnet, _squeezenet, _vgg):
    for _name in _module.__all__:
        if _name[0].islower() and not _name.startswith("get_"):
            _known = _name
            for _text, _other in _SPELLINGS.items() if "resnet" not in _name and "vgg" not in _name else ():
                _known = _known.replace(_text, _other)
            _models[_known] = getattr(_module, _name)
del _module, _name, _known, _text, _other


def get_model(name, **kwargs):
    """A network by its name."""
    try:
        return _models[name.lower()](**kwargs)
    except KeyError:
        raise ValueError(f"Model {name} is not supported. Available options are\n\t" + "\n\t".join(sorted(_models))) from None
