"""ONNX files behind the server: named after the file, described as they say, answers joined to batches like any other's."""
import numpy as np
import pytest
from conftest import at_once, random_array

import gluino as mx


@pytest.fixture(scope="module")
def onnx_file(models, tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "perceptron.onnx"
    try:
        mx.onnx.export_model(str(models.folder / "mlp-symbol.json"), str(models.folder / "mlp-0000.params"), [(1, 8)], onnx_file_path=str(path),
                             dynamic=True)
    except mx.MXNetError as error:
        if "libgluino_onnx" in str(error):
            pytest.skip(str(error))
        raise
    return path


def test_answers(serve, models, onnx_file):
    server = serve(onnx_file)
    described = server.get("/v2/models/perceptron").json
    assert described["inputs"][0]["shape"] == [-1, 8] and described["inputs"][0]["datatype"] == "FP32"
    for rows in (1, 3):
        x = random_array(rows, rows, 8)
        np.testing.assert_allclose(server.infer("perceptron", data=x).output, models.mlp(x), rtol=1e-5, atol=1e-6)


def test_many_at_once(serve, models, onnx_file):
    server = serve(f"net={onnx_file}")
    xs = [random_array(i, 1, 8) for i in range(16)]
    for answer, x in zip(at_once(16, lambda i: server.infer("net", data=xs[i])), xs):
        np.testing.assert_allclose(answer.output, models.mlp(x), rtol=1e-5, atol=1e-6)
