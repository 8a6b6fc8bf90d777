"""What is wrong is answered with a status that says whose mistake it is, and a message that names it."""
import json
import re
import socket
import subprocess

import numpy as np
import pytest

from conftest import PROGRAM, Server, binary_body, json_body, random_array


@pytest.fixture(scope="module")
def server(models):
    server = Server(models.folder / "mlp", "--max-body-mb", "0.01")
    yield server
    assert server.end() == 0


def raw(server, data):
    """What comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        answer = b""
        while part := s.recv(65536):
            answer += part
    return answer


X = np.ones((1, 8), np.float32)


def changed(**changes):
    request = json.loads(json_body(data=X))
    request["inputs"][0].update(changes)
    request["inputs"][0] = {k: v for k, v in request["inputs"][0].items() if v is not None}
    return json.dumps(request).encode()


@pytest.mark.parametrize("body, message", [
    (b"", "the request needs an object"),
    (b"[]", "the request needs an object"),
    (b'{"inputs": 3}', "inputs needs an array"),
    (json_body(data=X) + b" x", "something follows the end"),
    (json_body(other=X), "the input 'data' is missing"),
    (json_body(data=X, more=X), "the input 'more' is given twice, or unknown; mlp takes data"),
    (changed(datatype="FP8"), "the datatype 'FP8' is not known; there are FP32"),
    (changed(datatype=None), "has no datatype"),
    (changed(shape=None), "has no shape"),
    (changed(data=None), "has neither data nor binary_data_size"),
    (changed(shape=[2, 8]), "fewer elements|has 8 elements, its shape says 16"),
    (changed(shape=[1, 7]), "more than the 7 elements"),
    (changed(shape=[-1, 8]), "an extent of a shape is -1"),
    (changed(shape=[1 << 40, 1 << 40]), "has too many elements"),
    (changed(shape=[1] * 40), "more than 32 axes"),
    (changed(data=["a"] * 8), "must be numbers"),
    (changed(data=[1.5] * 8, datatype="INT32"), "must be whole numbers"),
    (changed(data=[300] * 8, datatype="UINT8"), "does not fit into the datatype"),
    (changed(shape=[2, 4]), "FullyConnected"),
    (json_body(data=X)[:-1] + b', "inputs": []}', "'inputs' is given twice"),
    (json_body(data=X)[:-1] + b', "outputs": [], "outputs": []}', "'outputs' is given twice"),
    (json_body(data=X)[:-1] + b', "parameters": {"timeout": -1}}', "timeout is -1"),
    (b"[" * 100000, "the request needs an object"),
    (b'{"a":' + b"[" * 9000, "nested too deep"),
    (b'{"inputs":[{"name":"data","shape":[1,8],"datatype":"FP32","data":[01,1,1,1,1,1,1,1]}]}', "must be numbers"),
])
def test_wrong_requests(server, body, message):
    reply = server.ask("POST", "/v2/models/mlp/infer", body)
    if len(body) > 10486:
        assert reply.status == 413
        return
    assert reply.status == 400
    assert any(part in reply.json["error"] for part in message.split("|")), reply.json


@pytest.mark.parametrize("header, message", [("x", "is 'x'"), ("99999", "is '99999'"), ("-1", "is '-1'")])
def test_wrong_length_of_the_json(server, header, message):
    body, _ = binary_body(data=X)
    reply = server.ask("POST", "/v2/models/mlp/infer", body, {"Inference-Header-Content-Length": header})
    assert reply.status == 400 and message in reply.json["error"]


def test_two_lengths_of_the_json(server):
    """Two readers would take other bytes for the tensor."""
    body, header = binary_body(data=X)
    lines = b"".join(b"Inference-Header-Content-Length: %s\r\n" % n for n in (header["Inference-Header-Content-Length"].encode(), b"3"))
    answer = raw(server, b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%s\r\n" % (len(body), lines) + body)
    assert answer.startswith(b"HTTP/1.1 400 ") and b"given twice" in answer, answer


def test_addresses_with_a_host(server):
    """A server must take them (RFC 9112, 3.2.2), though only proxies are asked so."""
    for address, status in ((b"http://a:80/v2/health/live", 200), (b"HTTPS://a/v2/health/live?x=y", 200), (b"http://a", 200), (b"http://a/nothing", 404), (b"http:///", 400)):
        assert raw(server, b"GET " + address + b" HTTP/1.1\r\nHost: b\r\n\r\n").startswith(b"HTTP/1.1 %d " % status), address


def test_wrong_binary_sizes(server):
    body, header = binary_body(data=X)
    for wrong, message in ((body[:-1], "needs 32 bytes behind the JSON, 31 are left"), (body + b"x", "1 bytes are left behind the JSON"),
                           (body.replace(b'_size": 32', b'_size": 31'), "binary_data_size 31")):
        reply = server.ask("POST", "/v2/models/mlp/infer", wrong, header)
        assert reply.status == 400 and message in reply.json["error"], reply.json


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/v2/models/none", 404), ("POST", "/v2/models/none/infer", 404), ("GET", "/v2/models/mlp/infer", 405), ("POST", "/v2/models/mlp", 405),
    ("GET", "/nothing", 404), ("GET", "/v2/models/mlp/versions/7", 404), ("DELETE", "/v2", 405), ("POST", "/v2/repository/models/none/load", 404),
    ("GET", "/v2/models/%zz", 400), ("GET", "/v2/models/mlp/versions/1/infer/more", 404)])
def test_wrong_addresses(server, method, path, status):
    reply = server.ask(method, path, b"")
    assert reply.status == status and reply.json["error"]


@pytest.mark.parametrize("request_bytes, status", [
    (b"GET / HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400), (b"GET /\r\n\r\n", 400), (b"hello\r\n\r\n", 400),
    (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505), (b"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400), (b"GET ftp://x/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400), (b"GET / HTTP/1.1\nHost: a\n\n\r\n\r\n", 400),
    (b"POST /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400), (b"POST /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    (b"POST /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nab", 400),
    (b"POST /v2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nab", 501), (b"POST /v2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"POST /v2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", 400),
    (b"POST /v2 HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", 417), (b"POST /v2 HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n\r\n", 415),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20000 + b"\r\n\r\n", 431), (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
    (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431), (b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400)])
def test_wrong_http(server, request_bytes, status):
    assert raw(server, request_bytes).startswith(b"HTTP/1.1 %d " % status)


def test_large_bodies_are_refused_before_they_come(server):
    answer = raw(server, b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000000\r\n\r\nabc")
    assert answer.startswith(b"HTTP/1.1 413 ") and b"--max-body" in answer
    chunked = b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"1000\r\n" + b"x" * 4096 + b"\r\n") * 4
    assert raw(server, chunked).startswith(b"HTTP/1.1 413 ")
    # A chunk says how long it will be: that is enough.
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
        s.sendall(b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nab")
        assert s.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_connection_goes_on_after_a_mistake(server, models):
    connection = server.connect()
    for body in (b"{", json_body(data=random_array(0, 2, 3))):
        assert server.ask("POST", "/v2/models/mlp/infer", body, connection=connection).status == 400
    np.testing.assert_array_equal(server.infer("mlp", connection, data=X).output, models.mlp(X))


def test_pipelined_requests_are_answered_in_order(server):
    answer = raw(server, b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\nGET /v2/none HTTP/1.1\r\nHost: a\r\n\r\nGET /v2 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"404", b"200"]


@pytest.mark.parametrize("arguments, code, message", [
    ([], 2, "MODEL is required"), (["nothing"], 1, "there is no 'nothing'"), (["=x"], 2, "does not name a model"), (["a:=x"], 2, "does not name a model"),
    (["{mlp}", "{mlp}"], 1, "version 1 of the model 'mlp' is both"), (["{mlp}", "--no-port"], 2, "--no-port needs --unix-socket"),
    (["{mlp}", "--tls-key", "k"], 2, "--tls-certificate and --tls-key"), (["{mlp}", "--host", "999.1.1.1", "--port", "0"], 1, "--host 999.1.1.1"),
    (["{mlp}", "--max-batch", "0"], 2, "--max-batch")])
def test_wrong_command_lines(models, arguments, code, message):
    done = subprocess.run([PROGRAM, "serve", *(a.format(mlp=models.folder / "mlp") for a in arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code and message in done.stderr, done.stderr


def test_a_port_that_is_taken(server, models):
    done = subprocess.run([PROGRAM, "serve", models.folder / "mlp", "--port", str(server.port)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and f"cannot listen on 127.0.0.1 port {server.port}" in done.stderr
