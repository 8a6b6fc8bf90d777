"""Networks for images: get_model('resnet18_v1'), or the function of that name."""
from .others import *  # noqa: F401,F403
from .others import AlexNet, SqueezeNet, get_densenet, get_mobilenet, get_mobilenet_v2, get_vgg
from .resnet import *  # noqa: F401,F403
from .resnet import get_resnet

_models = {"alexnet": AlexNet, "squeezenet1.0": lambda **k: SqueezeNet("1.0", **k), "squeezenet1.1": lambda **k: SqueezeNet("1.1", **k)}
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


for _name, _make in _models.items():
    _models[_name] = globals()[_name.replace(".", "_").replace("mobilenetv2_", "mobilenet_v2_")] = _function(_name, _make)
globals().update({n: m for n, m in _models.items() if n.isidentifier()})
del _version, _depth, _width, _name, _make


def get_model(name, **kwargs):
    """A network by its name."""
    try:
        return _models[name.lower()](**kwargs)
    except KeyError:
        raise ValueError(f"Model {name} is not supported. Available options are\n\t" + "\n\t".join(sorted(_models))) from None
