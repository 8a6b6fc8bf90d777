"""Networks for images: get_model('resnet18_v1'), or the function of that name."""
from .inception import Inception3
from .others import *  # noqa: F401,F403
from .others import AlexNet, LeNet, MLP, SqueezeNet, get_densenet, get_mobilenet, get_mobilenet_v2, get_vgg
from .resnet import *  # noqa: F401,F403
from .resnet import get_resnet

_models = {"mlp": MLP, "lenet": LeNet, "alexnet": AlexNet, "inceptionv3": Inception3}
for _version in ("1.0", "1.1"):
    _models[f"squeezenet{_version}"] = lambda v=_version, **k: SqueezeNet(v, **k)
for _version in (1, 2):
    for _depth in (18, 34, 50, 101, 152):
        _models[f"resnet{_depth}_v{_version}"] = lambda v=_version, d=_depth, **k: get_resnet(v, d, **k)
for _depth in (11, 13, 16, 19):
    _models[f"vgg{_depth}"] = lambda d=_depth, **k: get_vgg(d, **k)
    _models[f"vgg{_depth}_bn"] = lambda d=_depth, **k: get_vgg(d, batch_norm=True, **k)
for _depth in (121, 161, 169, 201):
    _models[f"densenet{_depth}"] = lambda d=_depth, **k: get_densenet(d, **k)
for _width in ("1.0", "0.75", "0.5", "0.25"):
    _models[f"mobilenet{_width}"] = lambda w=_width, **k: get_mobilenet(float(w), **k)
    _models[f"mobilenetv2_{_width}"] = lambda w=_width, **k: get_mobilenet_v2(float(w), **k)


def _function(name, make):
    def model(pretrained=False, ctx=None, root=None, **kwargs):
        if pretrained:
            raise ValueError(f"{name}: pretrained weights cannot be downloaded; load a .params file with load_parameters")
        return make(**kwargs)
    model.__name__, model.__doc__ = name.replace(".", "_"), f"{name} without weights."
    return model


# Names that are no identifiers, or are spelled otherwise as functions.
_spellings = {".": "_", "mobilenetv2_": "mobilenet_v2_", "inceptionv3": "inception_v3"}
for _name, _make in _models.items():
    _identifier = _name
    for _text, _other in _spellings.items():
        _identifier = _identifier.replace(_text, _other)
    _models[_name] = globals()[_identifier] = _function(_name, _make)
globals().update({n: m for n, m in _models.items() if n.isidentifier()})
del _version, _depth, _width, _name, _make, _identifier, _text, _other


def get_model(name, **kwargs):
    """A network by its name."""
    try:
        return _models[name.lower()](**kwargs)
    except KeyError:
        raise ValueError(f"Model {name} is not supported. Available options are\n\t" + "\n\t".join(sorted(_models))) from None
