#!/usr/bin/python3
"""The workloads of the comparison in PyTorch, modes "eager" and "script". Usage: torch_peer.py THREADS, requests as
bench/runner.h describes; or torch_peer.py --export FOLDER WORKLOAD..., which writes ONNX models. The networks, weights
and inputs are those of bench/workloads.cc; parameters must be created in the same order."""
import json
import pathlib
import statistics
import sys
import time

import numpy
import torch
from torch import nn


class Bottleneck(nn.Sequential):
    """A MobileNetV2 block: expands, filters each channel, projects back."""

    def __init__(self, inside, channels, expansion, stride):
        wide = inside * expansion
        super().__init__(*conv(inside, wide), nn.ReLU6(), *conv(wide, wide, 3, stride, groups=wide), nn.ReLU6(), *conv(wide, channels))
        self.has_shortcut = stride == 1 and inside == channels

    def forward(self, x):
        return super().forward(x) + x if self.has_shortcut else super().forward(x)


class Residual(nn.Module):
    """A ResNet v1 block; the stride of a bottleneck stands in its first convolution."""

    def __init__(self, bottleneck, inside, channels, stride, downsample):
        super().__init__()
        if bottleneck:
            narrow = channels // 4
            self.body = nn.Sequential(*conv(inside, narrow, 1, stride, bias=True), nn.ReLU(), *conv(narrow, narrow, 3), nn.ReLU(),
                                      *conv(narrow, channels, bias=True))
        else:
            self.body = nn.Sequential(*conv(inside, channels, 3, stride), nn.ReLU(), *conv(channels, channels, 3))
        self.downsample = nn.Sequential(*conv(inside, channels, 1, stride)) if downsample else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.downsample(x))


class Chain(nn.Module):
    def forward(self, a, b):
        d = a * b + 1
        return torch.exp(torch.relu(torch.tanh(d) * torch.sigmoid(d) - a) * 0.5 + b)


class Lstm(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


def conv(inside, outside, kernel=1, stride=1, groups=1, bias=False):
    return nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=bias), nn.BatchNorm2d(outside)


def mlp():
    return nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 2))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def encoder():
    return nn.Sequential(*(nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(4)))


def resnet(layers):
    blocks, bottleneck = {18: ([2, 2, 2, 2], False), 50: ([3, 4, 6, 3], True)}[layers]
    net = [*conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for stage, count in enumerate(blocks):
        channels = (256 if bottleneck else 64) << stage
        for i in range(count):
            net.append(Residual(bottleneck, inside, channels, 2 if i == 0 and stage > 0 else 1, inside != channels))
            inside = channels
    return nn.Sequential(*net, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


def mobilenet_v2():
    net = [*conv(3, 32, 3, 2), nn.ReLU6()]
    inside, expansion = 32, 1
    for channels, repeats, stride in [(16, 1, 1), (24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)]:
        for i in range(repeats):
            net.append(Bottleneck(inside, channels, expansion, stride if i == 0 else 1))
            inside, expansion = channels, 6
    return nn.Sequential(*net, *conv(320, 1280), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(1280, 1000, 1, bias=False), nn.Flatten())


# name: network, shapes of the inputs, classes of a training step
WORKLOADS = {
    "mlp_b1": (mlp, [(1, 512)], 0),
    "mlp_b64": (mlp, [(64, 512)], 0),
    "lenet": (lenet, [(16, 1, 28, 28)], 0),
    "chain": (Chain, [(1000000,), (1000000,)], 0),
    "lstm": (lambda: Lstm(128, 256, 2), [(32, 8, 128)], 0),
    "encoder": (encoder, [(1, 128, 256)], 0),
    "resnet18": (lambda: resnet(18), [(1, 3, 224, 224)], 0),
    "resnet50": (lambda: resnet(50), [(1, 3, 224, 224)], 0),
    "mobilenet_v2": (mobilenet_v2, [(1, 3, 224, 224)], 0),
    "train_lenet": (lenet, [(64, 1, 28, 28)], 10),
    "train_resnet18": (lambda: resnet(18), [(8, 3, 64, 64)], 1000),
}


def noise(stream, shape, scale=1.0):
    h = (numpy.arange(numpy.prod(shape), dtype=numpy.uint32) + numpy.uint32(1000003 * stream)) * numpy.uint32(2654435761)
    h ^= h >> numpy.uint32(16)
    h *= numpy.uint32(0x45D9F3B)
    h ^= h >> numpy.uint32(16)
    return torch.from_numpy((scale * (h * 2.0**-31 - 1).astype(numpy.float32)).astype(numpy.float32)).reshape(shape)


def weights(module):
    if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
        return []
    if isinstance(module, nn.MultiheadAttention):  # packs the three projections of its input
        return [part for pair in zip(module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)) for part in pair]
    return module.parameters(recurse=False)


@torch.no_grad()
def fill(net):
    for stream, p in enumerate(p for m in net.modules() for p in weights(m)):
        p.copy_(noise(stream, p.shape, (6 * p.shape[0] / p.numel()) ** 0.5 if p.dim() > 1 else 0.1))


class Inference:
    def __init__(self, make, shapes, mode):
        self.net, self.mode = make().eval(), mode
        fill(self.net)
        self.parameters = sum(p.numel() for p in self.net.parameters())
        self.inputs = [noise(100 + i, s) for i, s in enumerate(shapes)]

    @torch.no_grad()
    def start(self):
        if self.mode == "script":
            self.net = torch.jit.freeze(torch.jit.trace(self.net, tuple(self.inputs)))
        self.call()

    @torch.no_grad()
    def call(self):
        return self.net(*self.inputs)

    output = call


class Training(Inference):
    """A step of SGD; TorchScript cannot freeze what it trains, so "script" is the traced network."""

    def __init__(self, make, shapes, mode, classes):
        super().__init__(make, shapes, mode)
        self.net.train()
        self.labels = torch.arange(shapes[0][0]) % classes
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-4)

    def start(self):
        if self.mode == "script":
            self.net = torch.jit.trace(self.net, tuple(self.inputs), check_trace=False)
        self.call()

    def call(self):
        self.optimizer.zero_grad(set_to_none=True)
        losses = nn.functional.cross_entropy(self.net(*self.inputs), self.labels, reduction="none")
        losses.mean().backward()
        self.optimizer.step()
        return losses.detach()

    def output(self):
        self.call()
        return self.call()


def prepare(workload, mode):
    make, shapes, classes = WORKLOADS[workload]
    if mode not in ("eager", "script"):
        raise ValueError(f"there is no mode {mode}")
    return Training(make, shapes, mode, classes) if classes else Inference(make, shapes, mode)


def measure(call, duration):
    """As in runner.h: the median times of a call, short calls in groups of a millisecond."""
    clock, processor_clock = time.perf_counter, time.process_time
    begin = clock()
    call()
    once = clock() - begin
    group = int(1e-3 / once) + 1 if once < 1e-3 else 1
    wall, processor = [], []
    while not wall or clock() - begin < duration:
        p, w = processor_clock(), clock()
        for _ in range(group):
            call()
        wall.append((clock() - w) / group * 1e6)
        processor.append((processor_clock() - p) / group * 1e6)
    return {"wall_us": statistics.median(wall), "processor_us": statistics.median(processor)}


def begin(workload, mode, duration):
    program = prepare(workload, mode)
    t = time.perf_counter()
    program.start()
    first = (time.perf_counter() - t) * 1e6
    y = program.output()
    flat = y.flatten().double()
    facts = {"first_us": first, "parameters": program.parameters, "shape": list(y.shape), "norm": float(flat.norm()),
             "dot": float(flat @ noise(99, flat.shape).double())}
    measure(program.call, duration)
    return program, facts


def serve():
    ready, current = {}, None
    for line in sys.stdin:
        workload, mode, duration = line.split()
        try:
            if workload != current:
                ready, current = {}, workload
            if mode not in ready:
                ready[mode] = begin(workload, mode, float(duration))
            program, facts = ready[mode]
            answer = {**measure(program.call, float(duration)), **facts}
        except Exception as e:  # whatever fails in the peer belongs into the table
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


def export(folder, names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        program = prepare(name, "eager")
        torch.onnx.export(program.net, tuple(program.inputs), str(folder / f"{name}.onnx"), opset_version=17)


if __name__ == "__main__":
    if sys.argv[1] == "--export":
        export(pathlib.Path(sys.argv[2]), sys.argv[3:])
    else:
        torch.set_num_threads(int(sys.argv[1]))
        serve()
