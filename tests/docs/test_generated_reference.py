"""`make docs`: every operator, layer and header is on a page and found by search, and no link of the pages leads nowhere."""
import html
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([sys.executable, ROOT / "tools/reference", folder], check=True, capture_output=True, timeout=300)
    return folder


def names(site):
    return {name for name, *_ in json.loads((site / "index.js").read_text().removeprefix("const INDEX = ").rstrip(";\n"))}


def test_all_operators_are_found(site):
    from mxnet import _core
    assert {spelling for spelling, _ in _core.operator_names()} <= names(site)


def test_declarations_of_headers_are_found(site):
    expected = {"gluino::Tensor", "gluino::Tensor::reshape", "gluino::nn::Dense", "gluino::nn::DenseOptions::use_bias", "gluino::hybrid", "gluino::DType",
                "GLUINO_CHILDREN", "gluino_model_load", "mx.gluon.nn.Dense", "mx.autograd.record", "gluino::optimizer::Optimizer::set_learning_rate"}
    assert expected <= names(site)
    text = (site / "header_nn.html").read_text()
    assert "units_" not in text and "0: from the first input" in text  # what is private is left out, comments are not
    assert all(f'{cls}(' in (site / "layers.html").read_text() for cls in ("Dense", "Conv2D", "BatchNorm", "LSTM", "SoftmaxCrossEntropyLoss"))


def test_every_header_has_a_page(site):
    for header in (ROOT / "include/gluino").glob("*.h"):
        assert header.name in ("c_api.h", "dlpack.h") or (site / f"header_{header.stem}.html").exists(), header.name


def test_links_lead_somewhere(site):
    ids = {page.name: set(re.findall(r'\bid="([^"]+)"', page.read_text())) for page in site.glob("*.html")}
    broken = set()
    for page in site.glob("*.html"):
        for link in re.findall(r'href="([^"]+)"', page.read_text()):
            target, _, anchor = html.unescape(link).partition("#")
            target = target or page.name
            if link.startswith("http") or target == "style.css":
                continue
            if target not in ids or (anchor and anchor not in ids[target]):
                broken.add(f"{page.name}: {link}")
    assert not broken, "\n".join(sorted(broken))


def test_pages_say_the_version(site):
    assert (ROOT / "VERSION").read_text().strip() in (site / "index.html").read_text()
