"""What PyTorch exports, in Gluino and in ONNX Runtime: the same outputs, eager and hybridized, with fixed and with free axes."""
import os
import pathlib

import double_precision
import numpy as np
import pytest
from judge import assert_close, judge

torch = pytest.importorskip("torch", reason="PyTorch is absent: tools/setup.sh onnx installs python3-torch")
import torch_models  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "build" / "onnx_models"
EVERY_WAY = [(operator_set, free) for operator_set in (11, 13, 17) for free in (False, True)]
# Large networks: each operator set once, fixed and free; GLUINO_ONNX_EVERY_WAY=1 takes them every way too.
SOME_WAYS = EVERY_WAY if os.environ.get("GLUINO_ONNX_EVERY_WAY") else [(11, False), (13, True), (17, True)]
needs_torchvision = pytest.mark.skipif(torch_models.torchvision is None, reason="torchvision is absent: tools/setup.sh onnx installs it")


def _larger(tensor, free_axes, seed):
    """Another input: free extents grow, those of the same name alike."""
    shape = list(tensor.shape)
    for axis, extent in free_axes.items():
        shape[axis] += {"batch": 1, "height": 16, "width": 8}.get(extent, 3)
    torch.manual_seed(seed)
    return torch.randint(0, int(tensor.max()) + 1, shape) if tensor.dtype == torch.int64 else torch.rand(shape) if tensor.min() >= 0 else torch.randn(shape)


def _check(runtime, kind, name, exported, operator_set, free, scratch=None):
    """Files are kept from one run to the next, as PyTorch takes longer to write them than all the rest."""
    path = FOLDER / f"{kind}-{name}-{operator_set}-{'free' if free else 'fixed'}.onnx"
    if not path.exists() or path.stat().st_mtime < pathlib.Path(torch_models.__file__).stat().st_mtime:
        FOLDER.mkdir(parents=True, exist_ok=True)
        exported.write(path.with_suffix(".part"), operator_set, free)
        path.with_suffix(".part").rename(path)
    inputs = [{n: t.numpy() for n, t in exported.inputs.items()}]
    if free:
        inputs.append({n: _larger(t, exported.free_axes.get(n, {}), 5).numpy() for n, t in exported.inputs.items()})
    for answer in judge(runtime, path, inputs, scratch):
        assert all(np.size(a) for a in answer), "an output has no elements: nothing is compared"


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(3)


def ways(some):
    return pytest.mark.parametrize("operator_set, free", some, ids=[f"{s}-{'free' if free else 'fixed'}" for s, free in some])


@ways(EVERY_WAY)
@pytest.mark.parametrize("name", sorted(torch_models.MODULES))
def test_modules(runtime, name, operator_set, free):
    _check(runtime, "module", name, torch_models.MODULES[name](), operator_set, free)


@needs_torchvision
@ways(SOME_WAYS)
@pytest.mark.parametrize("name", torch_models.CLASSIFIERS)
def test_classifiers(runtime, name, operator_set, free):
    _check(runtime, "classifier", name, torch_models.classifier(name), operator_set, free)


@needs_torchvision
@ways(SOME_WAYS)
@pytest.mark.parametrize("name", torch_models.SEGMENTERS)
def test_segmenters(runtime, name, operator_set, free):
    _check(runtime, "segmenter", name, torch_models.segmenter(name), operator_set, free)


@needs_torchvision
@ways(SOME_WAYS)
@pytest.mark.parametrize("name", torch_models.DETECTORS)
def test_detectors(runtime, tmp_path, name, operator_set, free):
    _check(runtime, "detector", name, torch_models.detector(name), operator_set, free, tmp_path)


@needs_torchvision
def test_float64_is_what_pytorch_computes(tmp_path):
    """The judge in float64 reads the file with Gluino's own rules: PyTorch, in float64 too, gives the same."""
    exported = torch_models.detector("fcos_resnet50_fpn")
    exported.write(tmp_path / "net.onnx", 13, True)
    image = _larger(exported.inputs["image"], exported.free_axes["image"], 5)
    with torch.no_grad():
        expected = [t.numpy() for t in exported.module().double()(image.double())]
    # Weights that PyTorch folds into others when it exports are rounded to float32 there.
    assert_close(double_precision.answers(tmp_path / "net.onnx", {"image": image.numpy()}, tmp_path), expected, "beside PyTorch's", 2e-5)
