"""The Open Inference Protocol: addresses, JSON, tensors as bytes, versions; answers are the library's."""
import json

import numpy as np
import pytest

import gluino as mx
from conftest import PROGRAM, binary_body, export, json_body, perceptron, random_array


@pytest.fixture(scope="module")
def server(models):
    from conftest import Server
    server = Server(models.folder / "mlp", f"pictures={models.folder / 'conv'}")
    yield server
    assert server.end() == 0


def test_health_and_metadata(server):
    assert server.get("/v2/health/live").status == server.get("/v2/health/ready").status == 200
    assert server.get("/v2").json["name"] == "gluino" and "binary_tensor_data" in server.get("/v2").json["extensions"]
    described = server.get("/v2/models/mlp").json
    assert described["versions"] == ["1"] and described["inputs"] == [{"name": "data", "datatype": "FP32", "shape": [-1, 8]}]
    assert described["outputs"][0]["shape"] == [-1, 3]
    assert server.get("/v2/models/pictures/versions/1").json["name"] == "pictures"
    assert server.get("/v2/models/pictures/ready").status == 200
    index = server.ask("POST", "/v2/repository/index").json
    assert {(m["name"], m["version"], m["state"]) for m in index} == {("mlp", "1", "READY"), ("pictures", "1", "READY")}


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
def test_answers_are_the_library_s_bit_by_bit(server, models, rows):
    x, picture = random_array(rows, rows, 8), random_array(rows, rows, 3, 8, 8)
    np.testing.assert_array_equal(server.infer("mlp", data=x).output, models.mlp(x))
    np.testing.assert_array_equal(server.infer("pictures", data=picture).output, models.conv(picture))
    by_json = server.ask("POST", "/v2/models/mlp/infer", json_body(data=x))
    np.testing.assert_array_equal(by_json.output, models.mlp(x))  # the shortest digits that read back as the same number


def test_tensors_in_json_and_bytes_mix(server, models):
    x = random_array(0, 2, 8)
    body, header = binary_body(binary_output=False, data=x)
    answer = server.ask("POST", "/v2/models/mlp/infer", body, header)
    assert "data" in answer.json["outputs"][0]
    np.testing.assert_array_equal(answer.output, models.mlp(x))
    request = json.loads(json_body(data=x))
    request |= {"id": "a \"b\" ü", "outputs": [{"name": answer.json["outputs"][0]["name"], "parameters": {"binary_data": True}}]}
    answer = server.ask("POST", "/v2/models/mlp/infer", json.dumps(request).encode())
    size = int(answer.headers["inference-header-content-length"])
    assert json.loads(answer.body[:size])["id"] == 'a "b" ü'
    np.testing.assert_array_equal(answer.output, models.mlp(x))


def test_nested_data_and_any_order_of_keys(server, models):
    x = random_array(1, 2, 8)
    body = b'{ "inputs" : [ {"data": %s ,"unknown": {"a": [1, "]", {}]}, "shape":[2,8], "datatype":"FP32", "name":"data"} ] }' % json.dumps(x.tolist()).encode()
    np.testing.assert_array_equal(server.ask("POST", "/v2/models/mlp/infer", body).output, models.mlp(x))


def test_chunked_bodies_and_head(server, models):
    x = random_array(2, 3, 8)
    body = json_body(data=x)
    connection = server.connect()
    connection.request("POST", "/v2/models/mlp/infer", iter([body[:10], body[10:500], body[500:]]), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    assert json.loads(connection.getresponse().read())["outputs"][0]["shape"] == [3, 3]
    head = server.ask("HEAD", "/v2", connection=connection)
    assert head.status == 200 and head.body == b"" and int(head.headers["content-length"]) > 0
    assert server.get("/v2/health/live", connection=connection).status == 200


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool"])
def test_every_type_of_numbers(serve, tmp_path, dtype):
    data = mx.sym.var("data")
    mx.sym.identity(data).save(str(tmp_path / "same-symbol.json"))
    mx.nd.save(str(tmp_path / "same-0000.params"), {"arg:unused": mx.nd.zeros(1)})
    server = serve(tmp_path / "same")
    x = (np.arange(6).reshape(2, 3) % 2 if dtype == "bool" else np.arange(6).reshape(2, 3)).astype(dtype)
    for reply in (server.infer("same", data=x), server.ask("POST", "/v2/models/same/infer", json_body(data=x))):
        assert reply.status == 200, reply.body
        assert reply.output.dtype == x.dtype
        np.testing.assert_array_equal(reply.output, x)


def test_numbers_that_json_lacks_are_null(serve, tmp_path):
    mx.sym.log(mx.sym.var("data")).save(str(tmp_path / "log-symbol.json"))
    mx.nd.save(str(tmp_path / "log-0000.params"), {"arg:unused": mx.nd.zeros(1)})
    server = serve(tmp_path / "log")
    x = np.array([1, 0, -1], np.float32)
    assert server.ask("POST", "/v2/models/log/infer", json_body(data=x)).json["outputs"][0]["data"] == [0, None, None]
    np.testing.assert_array_equal(server.infer("log", data=x).output, np.array([0, -np.inf, np.nan], np.float32))


def test_versions(serve, models, tmp_path):
    second = export(perceptron(4), tmp_path / "second", (1, 8))
    server = serve(f"mlp:1={models.folder / 'mlp'}", f"mlp:10={tmp_path / 'second'}", f"mlp:9={models.folder / 'mlp'}")
    x = random_array(0, 2, 8)
    assert server.get("/v2/models/mlp").json["versions"] == ["1", "9", "10"]
    np.testing.assert_array_equal(server.infer("mlp", data=x).output, second(x))
    np.testing.assert_array_equal(server.infer("mlp/versions/9", data=x).output, models.mlp(x))
    assert server.infer("mlp/versions/2", data=x).status == 404


def test_folders_of_versions_and_one_file(gluino_program, serve, models, tmp_path):
    for version in (1, 2):
        (tmp_path / "net" / str(version)).mkdir(parents=True)
    gluino_program("convert", models.folder / "mlp", "-o", tmp_path / "net/1/mlp.gluino")
    second = export(perceptron(4), tmp_path / "net/2/any", (1, 8))
    server = serve(tmp_path / "net")
    x = random_array(0, 2, 8)
    np.testing.assert_array_equal(server.infer("net/versions/1", data=x).output, models.mlp(x))
    np.testing.assert_array_equal(server.infer("net", data=x).output, second(x))


@pytest.fixture
def gluino_program():
    import subprocess
    return lambda *arguments: subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True)
