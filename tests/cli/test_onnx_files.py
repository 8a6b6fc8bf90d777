"""ONNX files wherever a model is taken, and written by convert. Skipped, and said so, where libgluino_onnx is not built."""
import numpy as np
import pytest

import gluino as mx


@pytest.fixture(scope="module")
def onnx_file(gluino, models, tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    try:
        mx.onnx.import_model("absent.onnx")
    except Exception as error:  # noqa: BLE001
        if "libgluino_onnx" in str(error):
            pytest.skip(str(error))
    gluino("convert", models / "net", "-o", path, "--shape", "data=2,3,8,8", "--free", "data=0")
    return path


@pytest.fixture
def with_unknown_nodes(tmp_path):
    onnx = pytest.importorskip("onnx")
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [node("Relu", ["x"], ["a"]), node("Strange", ["a"], ["b"], name="first"), node("Odd", ["b"], ["y"], name="second", domain="com.example")]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [2])], [value("y", 1, [2])])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), str(tmp_path / "odd.onnx"))
    return tmp_path / "odd.onnx"


def test_inspect(gluino, onnx_file):
    report = gluino("inspect", onnx_file, "--json").json
    assert report["inputs"] == [{"name": "data", "shape": [None, 3, 8, 8], "dtype": "float32"}]
    assert report["outputs"][0]["shape"] == [None, 5] and report["unsupported"] == [] and "flops" not in report
    assert report["operator_sets"] == {"ai.onnx": 13} and {"name": "Conv", "count": 1} in report["operators"]
    assert gluino("inspect", onnx_file, "--shape", "data=1,3,8,8", "--json").json["flops"]["total"] > 0
    assert "Conv" in gluino("inspect", onnx_file).out
    assert "no input 'dta'" in gluino("inspect", onnx_file, "--shape", "dta=1,3,8,8", code=2).err


def test_inspect_lists_all_unknown_nodes(gluino, with_unknown_nodes):
    report = gluino("inspect", with_unknown_nodes, "--json").json
    assert report["unsupported"] == [{"operator": "Strange", "nodes": ["node 'first', Strange of operator set 13"]},
                                     {"operator": "com.example.Odd", "nodes": ["node 'second', Odd of operator set com.example 1"]}]
    assert "com.example.Odd" in gluino("inspect", with_unknown_nodes).out
    error = gluino("run", with_unknown_nodes, "--input", "x.npy", code=1).err
    assert "2 of its nodes cannot be imported" in error


def test_run_bench_explain_draw(gluino, models, onnx_file, tmp_path):
    for flags in ([], ["--eager"]):
        gluino("run", onnx_file, "--input", models / "x.npy", "-o", tmp_path / "y.npy", *flags)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), np.load(models / "y.npy"), rtol=1e-4, atol=1e-5)
    report = gluino("bench", onnx_file, "--shape", "data=1,3,8,8", "--seconds", "0.1", "--json").json
    assert report["flops"] > 0 and "calls" in str(report["hybridized"])
    assert "Convolution" in gluino("explain", onnx_file, "--shape", "data=1,3,8,8").out
    for ending in ("html", "svg", "dot"):
        gluino("draw", onnx_file, "--shape", "data=1,3,8,8", "-o", tmp_path / f"graph.{ending}")
        assert (tmp_path / f"graph.{ending}").stat().st_size > 100


def test_diff_and_verify(gluino, models, onnx_file, tmp_path):
    gluino("verify", onnx_file, "--input", models / "x.npy")
    gluino("diff", onnx_file, "--input", models / "x.npy")
    report = gluino("diff", models / "net", onnx_file, "--input", models / "x.npy", "--json").json
    assert report["outputs"]["same"]
    np.savez(tmp_path / "wrong.npz", **{"in:data": np.load(models / "x.npy"), "out0": np.load(models / "y.npy") + 1})
    gluino("verify", onnx_file, "--against", tmp_path / "wrong.npz", code=1)


@pytest.mark.parametrize("flags", [[], ["--external-data"], ["--operator-set", "17"]])
def test_convert_there_and_back(gluino, models, tmp_path, flags):
    gluino("convert", models / "net", "-o", tmp_path / "out.onnx", *flags)
    assert (tmp_path / "out.onnx.data").exists() == (flags == ["--external-data"])
    gluino("convert", tmp_path / "out.onnx", "-o", tmp_path / "back", "--shape", "data=2,3,8,8")
    for model in ("out.onnx", "back", "back-symbol.json"):
        gluino("run", tmp_path / model, "--input", models / "x.npy", "-o", tmp_path / "y.npy")
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), np.load(models / "y.npy"), rtol=1e-4, atol=1e-5)


def test_a_folder_with_one(gluino, models, onnx_file):
    assert gluino("inspect", onnx_file.parent, "--json").json["file"] == str(onnx_file)


def test_wrong_input(gluino, models, onnx_file, tmp_path):
    assert "holds its parameters itself" in gluino("run", onnx_file, "--params", models / "net-0000.params", "--input", models / "x.npy", code=2).err
    assert "--free" in gluino("convert", models / "net", "-o", tmp_path / "a.onnx", "--free", "data", code=2).err
    assert "has 4 axes" in gluino("convert", models / "net", "-o", tmp_path / "a.onnx", "--shape", "data=2,3,8,8", "--free", "data=7", code=2).err
    assert "no input 'dta'" in gluino("convert", models / "net", "-o", tmp_path / "a.onnx", "--free", "dta=0", code=2).err
    (tmp_path / "damaged.onnx").write_bytes(onnx_file.read_bytes()[:100])
    for command in ("inspect", "run", "explain"):
        assert "damaged" in gluino(command, tmp_path / "damaged.onnx", code=1).err


def test_decisions_on_computed_values(gluino, tmp_path):
    """If is decided when it is reached: such a model runs, and has no one graph to draw."""
    onnx = pytest.importorskip("onnx")
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    branches = {f"{name}_branch": onnx.helper.make_graph([node(op, ["x"], [name])], name, [], [value(name, 1, [2])])
                for name, op in (("then", "Neg"), ("else", "Exp"))}
    nodes = [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Greater", ["m", "zero"], ["c"]), node("If", ["c"], ["y"], **branches)]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [2])], [value("y", 1, [2])],
                                   [onnx.helper.make_tensor("zero", 1, [], [0.0])])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), str(tmp_path / "if.onnx"))
    for x in ([1.0, -2.0], [-1.0, -2.0]):
        np.save(tmp_path / "x.npy", np.array(x, "float32"))
        gluino("verify", tmp_path / "if.onnx", "--input", tmp_path / "x.npy", code=1)
        gluino("run", tmp_path / "if.onnx", "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), -np.array(x) if max(x) > 0 else np.exp(x), rtol=1e-6)
