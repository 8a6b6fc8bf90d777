"""Networks of PyTorch and torchvision with random weights, as their users export them: module, inputs, and which axes may be free."""
import warnings

import torch
from torch import nn

try:
    import torchvision
except ImportError:
    torchvision = None

CLASSIFIERS = ["alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "inception_v3", "mnasnet0_5", "mobilenet_v2",
               "mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "resnet18", "resnet50", "resnext50_32x4d",
               "shufflenet_v2_x0_5", "squeezenet1_0", "squeezenet1_1", "swin_t", "vgg11", "vgg11_bn", "vit_b_32", "wide_resnet50_2"]
# Those whose pooling PyTorch exports, or whose weights fit, at one size alone; and those that shrink a smaller image to a pixel, which has no variance.
SIZES = {"alexnet": 224, "vgg11": 224, "vgg11_bn": 224, "vit_b_32": 224, "inception_v3": 160, "efficientnet_v2_s": 128}
SEGMENTERS = ["deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large"]
DETECTORS = ["fasterrcnn_mobilenet_v3_large_320_fpn", "fasterrcnn_resnet50_fpn", "fcos_resnet50_fpn", "keypointrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn",
             "retinanet_resnet50_fpn", "ssd300_vgg16", "ssdlite320_mobilenet_v3_large"]


class Exported:
    """What is exported: make() gives the module; free_axes[name] maps an axis to the name of its extent."""

    def __init__(self, make, inputs, free_axes):
        self._make, self.inputs, self.free_axes = make, inputs, free_axes

    def module(self):
        torch.manual_seed(3)
        return self._make().eval()

    def write(self, path, operator_set, free):
        # Gradients stay on: without them encoder layers take a way of their own, which PyTorch cannot export.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(self.module(), tuple(self.inputs.values()), str(path), opset_version=operator_set, input_names=list(self.inputs),
                              dynamic_axes=self.free_axes if free else None)


def _is_batch_norm(module):
    return isinstance(module, nn.modules.batchnorm._BatchNorm) or type(module).__name__ == "FrozenBatchNorm2d"


def _settled(module, *inputs):
    """Statistics of batch norms as after training, those of what they are given: numbers of a fresh network grow from layer to layer. Most of what a
    norm gives is positive: else rounding grows by a fifth with every rectified layer of a network without training, and after 50 of them ONNX Runtime
    and Gluino both are 1e-4 to 1e-3 from what float64 gives. One at random in the weights shows whether they are used."""
    def take_statistics(norm, given):
        axes = [i for i in range(given[0].ndim) if i != 1]
        norm.running_mean.copy_(given[0].mean(axes))
        norm.running_var.copy_(given[0].var(axes, unbiased=False) + 0.01)
        nn.init.uniform_(norm.weight, 0.8, 1.2)
        nn.init.uniform_(norm.bias, 0.9, 1.1)

    hooks = [m.register_forward_pre_hook(take_statistics) for m in module.modules() if _is_batch_norm(m)]
    with torch.no_grad():
        module.eval()(*inputs)
    for hook in hooks:
        hook.remove()
    return module


def classifier(name):
    size = SIZES.get(name, 64)
    options = {"aux_logits": False, "init_weights": True} if name in ("googlenet", "inception_v3") else {}
    image = torch.randn(1, 3, size, size)
    return Exported(lambda: _settled(torchvision.models.get_model(name, weights=None, num_classes=10, **options), image), {"image": image},
                    {"image": {0: "batch"}})


class _Mask(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image):
        return self.net(image)["out"]


def segmenter(name):
    image = torch.randn(1, 3, 65, 65)
    return Exported(lambda: _Mask(_settled(torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5), image)),
                    {"image": image}, {"image": {0: "batch", 2: "height", 3: "width"}})


class _Detections(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image):
        found = self.net([image])[0]
        return tuple(found[k] for k in ("boxes", "scores", "labels"))


def _decided(net, name):
    """Weights that start as 0.01 times noise, as those of scores do, ten times as large where else all scores are alike and their order is rounding."""
    for p in net.parameters() if name.startswith("ssd") else ():
        if p.ndim > 1 and float(p.detach().std()) < 0.02:
            p.data *= 10
    return net


def detector(name):
    options = {"min_size": 96, "max_size": 128} if "ssd" not in name else {}
    few = {"rpn_post_nms_top_n_test": 50, "box_score_thresh": 0.0, "box_detections_per_img": 20} if "rcnn" in name else {
        "score_thresh": 0.0, "detections_per_img": 20, "topk_candidates": 50}
    classes = {"num_classes": 2} if "keypoint" in name else {"num_classes": 4}
    image = torch.rand(3, 96, 112)
    return Exported(lambda: _settled(_Detections(_decided(torchvision.models.get_model(
        name, weights=None, weights_backbone=None, **classes, **options, **few), name)), image),
                    {"image": image}, {"image": {1: "height", 2: "width"}})


class _First(nn.Module):
    """Modules that give a tuple within a tuple, flattened."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, *inputs):
        out, state = self.net(*inputs)
        return (out, *(state if isinstance(state, tuple) else (state,)))


def _recurrent(kind, **options):
    def make():
        return Exported(lambda: _First(getattr(nn, kind)(12, 16, **options)), {"sequence": torch.randn(7, 2, 12)}, {"sequence": {0: "length", 1: "batch"}})
    return make


def _recurrent_batch_first(kind, **options):
    def make():
        return Exported(lambda: _First(getattr(nn, kind)(12, 16, batch_first=True, **options)), {"sequence": torch.randn(2, 7, 12)},
                        {"sequence": {0: "batch", 1: "length"}})
    return make


class _WithState(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.LSTM(8, 6, num_layers=2)

    def forward(self, x, h, c):
        out, (h, c) = self.net(x, (h, c))
        return out, h, c


class _Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True, norm_first=True), 2)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1])
        mask = torch.zeros(tokens.shape[1], tokens.shape[1]).masked_fill(places[:, None] < places[None, :], float("-inf"))
        return self.head(self.layers(self.embedding(tokens), mask))


class _Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, q, k):
        return self.net(q, k, k)


class _Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)

    def forward(self, source, target):
        return self.net(source, target)


class _TextAverage(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(100, 16), nn.Linear(16, 3)

    def forward(self, tokens):
        return self.head(self.embedding(tokens).mean(1))


class _Branches(nn.Module):
    """To be scripted, so that If and Loop are in the file."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        for _ in range(x.size(0)):
            if bool(x.sum() > 0):
                x = torch.tanh(self.a(x))
            else:
                x = torch.relu(self.b(x)) - 0.5
        return x


def _conv_1d():
    return nn.Sequential(nn.Conv1d(4, 16, 5, padding=2), nn.BatchNorm1d(16), nn.GELU(), nn.Conv1d(16, 16, 3, dilation=2, groups=4), nn.PReLU(16),
                         nn.MaxPool1d(2), nn.ConvTranspose1d(16, 8, 4, stride=2, padding=1), nn.InstanceNorm1d(8, affine=True), nn.SiLU(),
                         nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 3))


def _fsrcnn():
    layers = [nn.Conv2d(1, 16, 5, padding=2), nn.PReLU(16), nn.Conv2d(16, 6, 1), nn.PReLU(6)]
    for _ in range(2):
        layers += [nn.Conv2d(6, 6, 3, padding=1), nn.PReLU(6)]
    return nn.Sequential(*layers, nn.Conv2d(6, 16, 1), nn.PReLU(16), nn.ConvTranspose2d(16, 1, 9, stride=2, padding=4, output_padding=1))


def _sub_pixel():
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.Hardswish(), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2), nn.Hardsigmoid(),
                         nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Upsample(scale_factor=2), nn.ReflectionPad2d(1),
                         nn.GroupNorm(1, 1), nn.Softplus(), nn.ELU(), nn.LeakyReLU(), nn.Mish())


MODULES = {
    "rnn_tanh": _recurrent("RNN"),
    "rnn_relu": _recurrent("RNN", nonlinearity="relu", bidirectional=True),
    "lstm": _recurrent("LSTM"),
    "lstm_two_layers": _recurrent("LSTM", num_layers=2, bidirectional=True),
    "lstm_batch_first": _recurrent_batch_first("LSTM"),
    "lstm_without_bias": _recurrent("LSTM", bias=False),
    "lstm_with_state": lambda: Exported(lambda: _WithState(), {"x": torch.randn(5, 3, 8), "h": torch.randn(2, 3, 6), "c": torch.randn(2, 3, 6)},
                                        {"x": {0: "length", 1: "batch"}, "h": {1: "batch"}, "c": {1: "batch"}}),
    "gru": _recurrent("GRU"),
    "gru_two_layers": _recurrent("GRU", num_layers=2, bidirectional=True),
    "gru_batch_first": _recurrent_batch_first("GRU"),
    "encoder": lambda: Exported(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2), {"x": torch.randn(2, 9, 32)},
                                {"x": {0: "batch", 1: "length"}}),
    "encoder_length_first": lambda: Exported(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, activation="gelu"), 1),
                                             {"x": torch.randn(9, 2, 32)}, {"x": {0: "length", 1: "batch"}}),
    "causal": lambda: Exported(lambda: _Causal(), {"tokens": torch.randint(0, 50, (2, 9))}, {"tokens": {0: "batch", 1: "length"}}),
    "attention": lambda: Exported(lambda: _Attention(), {"q": torch.randn(2, 5, 32), "k": torch.randn(2, 7, 32)},
                                  {"q": {0: "batch", 1: "queries"}, "k": {0: "batch", 1: "keys"}}),
    "transformer": lambda: Exported(lambda: _Translator(), {"source": torch.randn(2, 6, 32), "target": torch.randn(2, 4, 32)},
                                    {"source": {0: "batch", 1: "source_length"}, "target": {0: "batch", 1: "target_length"}}),
    "text_average": lambda: Exported(lambda: _TextAverage(), {"tokens": torch.randint(0, 100, (2, 11))}, {"tokens": {0: "batch", 1: "length"}}),
    "conv_1d": lambda: Exported(lambda: _settled(_conv_1d(), torch.randn(2, 4, 40)), {"x": torch.randn(2, 4, 40)}, {"x": {0: "batch", 2: "length"}}),
    "fsrcnn": lambda: Exported(lambda: _fsrcnn(), {"x": torch.rand(1, 1, 24, 20)}, {"x": {0: "batch", 2: "height", 3: "width"}}),
    "sub_pixel": lambda: Exported(lambda: _sub_pixel(), {"x": torch.rand(1, 1, 12, 10)}, {"x": {0: "batch", 2: "height", 3: "width"}}),
    "branches": lambda: Exported(lambda: torch.jit.script(_Branches().eval()), {"x": torch.randn(3, 8)}, {"x": {0: "rows"}}),
}
