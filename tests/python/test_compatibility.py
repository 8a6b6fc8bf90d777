"""docs/compatibility.md says which of MXNet 1.9.1's names are here, docs/operators.md what operators can do: both must be true."""
import importlib.util
import pathlib

import pytest

pytest.importorskip("mxnet", reason="python/compat is not on the path")
ROOT = pathlib.Path(__file__).resolve().parents[2]


def _tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


compatibility, operators = _tool("compatibility"), _tool("operators")


@pytest.fixture(scope="module")
def survey():
    return compatibility.survey()


def test_the_page_is_true(survey):
    assert compatibility.PAGE.read_text() == compatibility.page(survey), "run tools/compatibility.py"


def test_the_page_of_operators_is_true():
    assert operators.PAGE.read_text() == operators.page(), "run tools/operators.py"


def test_what_is_not_here_has_a_reason(survey):
    _, _, absent, _, ops_absent = survey
    known = compatibility.reasons()
    assert not [name for name in [*absent, *ops_absent] if compatibility.reason_of(name, known) is None]


def test_arguments_are_compared():
    expected, found = compatibility.written("self, a, b=1, *, c='x'"), compatibility.written("b=2, a=0")
    told = compatibility.differences(expected, found)
    assert "takes `a` at place 2" in told and "takes `b` at place 1" in told and "does not take `c`" in told
    assert "`b` is 2 where nothing is said, not 1" in told
    assert compatibility.differences(expected, compatibility.written("a, b=1, c='x', d=None")) == []
    assert compatibility.differences(expected, compatibility.written("a, b=1, **more")) == []
    assert compatibility.differences(expected, compatibility.written("a, b=1, c='x', d=MISSING, *, e")) == ["needs `e`"]
