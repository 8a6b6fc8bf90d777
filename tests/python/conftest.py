"""What the tests share: where the outside vectors are, temporary folders, a fixed seed."""
import os
import pathlib

import pytest

import gluino as mx

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("GLUINO_SHARED", ROOT.parent / "shared"))


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """Every test starts from the same seed, in mx.nd mode, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    mx.random.seed(1)
    mx.npx.reset_np()
    yield
    mx.npx.reset_np()


@pytest.fixture
def shared():
    """The folder of reference documents and golden vectors."""
    if not SHARED.exists():
        pytest.skip(f"{SHARED} is absent (set GLUINO_SHARED): the outside vectors and documents are not tested")
    return SHARED
