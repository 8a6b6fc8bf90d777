"""Ways in and who may use them: TLS, a bearer token, a Unix socket, limits of connections and of time."""
import http.client
import os
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from conftest import LONG, Server, UnixConnection, at_once, binary_body, random_array, wait_until

X = random_array(0, 2, 8)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_tls(serve, models, certificate):
    server = serve(models.folder / "mlp", "--tls-certificate", certificate[0], "--tls-key", certificate[1])
    context = ssl.create_default_context(cafile=str(certificate[0]))

    def ask(_):
        connection = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=LONG)
        replies = [server.infer("mlp", connection, data=X), server.infer("mlp", connection, data=X)]
        large = server.infer("mlp", connection, data=random_array(1, 50000, 8))  # 1.6 MB in, 0.6 MB out: many records of TLS
        assert large.output.shape == (50000, 3)
        return replies

    for replies in at_once(4, ask):
        for reply in replies:
            np.testing.assert_allclose(reply.output, models.mlp(X), rtol=1e-5, atol=1e-6)
    with socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as plain:  # someone who does not speak TLS
        plain.sendall(b"GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n")
        try:
            assert not plain.recv(1000).startswith(b"HTTP")
        except ConnectionResetError:
            pass
    assert server.process.poll() is None
    with pytest.raises(ssl.SSLError):
        ssl.create_default_context().wrap_socket(socket.create_connection(("127.0.0.1", server.port)), server_hostname="localhost")


def test_wrong_certificates(models, certificate, tmp_path):
    for pair, message in (((certificate[1], certificate[1]), "holds no certificate"), ((certificate[0], certificate[0]), "holds no private key"),
                          ((tmp_path / "none", certificate[1]), "holds no certificate")):
        with pytest.raises(AssertionError, match=message):
            Server(models.folder / "mlp", "--tls-certificate", pair[0], "--tls-key", pair[1])


def test_a_token(serve, models, tmp_path):
    (tmp_path / "token").write_text("secret words\n")
    server = serve(models.folder / "mlp", "--token-file", tmp_path / "token")
    for wrong in ({}, {"Authorization": "Bearer secret"}, {"Authorization": "secret words"}, {"Authorization": "Bearer secret wordssecret words"}, {"Authorization": "Bearer "}):
        reply = server.infer("mlp", headers=wrong, data=X)
        assert reply.status == 401 and reply.headers["www-authenticate"] == "Bearer"
        assert server.ask("GET", "/metrics", headers=wrong).status == 401
    np.testing.assert_array_equal(server.infer("mlp", headers={"Authorization": "Bearer secret words"}, data=X).output, models.mlp(X))
    assert server.get("/v2/health/live").status == server.get("/v2/health/ready").status == 200
    connection = server.connect()  # a refused body does not stand in the way of the next request
    assert server.infer("mlp", connection, data=X).status == 401
    assert server.infer("mlp", connection, headers={"Authorization": "Bearer secret words"}, data=X).status == 200


def test_a_token_from_the_environment(serve, models):
    server = serve(models.folder / "mlp", GLUINO_SERVE_TOKEN="abc")
    assert server.infer("mlp", data=X).status == 401
    assert server.infer("mlp", headers={"Authorization": "Bearer abc"}, data=X).status == 200


def test_a_unix_socket(serve, models, tmp_path):
    path = tmp_path / "socket"
    server = serve(models.folder / "mlp", "--unix-socket", path, port=False)
    assert server.port is None and stat.S_IMODE(os.stat(path).st_mode) == 0o700
    np.testing.assert_array_equal(server.infer("mlp", UnixConnection(path), data=X).output, models.mlp(X))
    with pytest.raises(AssertionError, match="cannot listen on the socket"):  # it is another server's
        Server(models.folder / "mlp", "--unix-socket", path, port=False)
    server.process.kill()
    server.process.wait()
    assert path.exists()
    after = serve(models.folder / "mlp", "--unix-socket", path)  # what the killed one left is no obstacle
    for connection in (UnixConnection(path), after.connect()):
        np.testing.assert_array_equal(after.infer("mlp", connection, data=X).output, models.mlp(X))
    assert after.end() == 0 and not path.exists()


def test_too_many_connections(serve, models):
    server = serve(models.folder / "mlp", "--max-connections", "4")
    kept = [server.connect() for _ in range(4)]
    for c in kept:
        assert server.get("/v2/health/live", connection=c).status == 200
    reply = server.get("/v2/health/live")
    assert reply.status == 503 and "--max-connections" in reply.json["error"]
    kept.pop().close()
    for _ in range(1000):
        if server.get("/v2/health/live").status == 200:
            break
        time.sleep(0.01)
    else:
        raise AssertionError("a closed connection makes no room")
    wait_until(lambda: '{code="503"}' in server.get("/metrics").body.decode())


def test_a_slow_client(serve, models):
    server = serve(models.folder / "mlp", "--read-timeout", "0.2")
    for part in (b"GET /v2 HT", b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as s:
            s.sendall(part)
            assert s.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_waits_to_be_asked(serve, models):
    from conftest import json_body
    server = serve(models.folder / "mlp", "--max-body-mb", "1")
    body = json_body(data=X)
    with socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as s:
        s.sendall(b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert s.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(body)
        assert s.recv(1000).startswith(b"HTTP/1.1 200 ")
    with socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as s:
        s.sendall(b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5000000\r\n\r\n")
        assert s.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_second_signal_ends_at_once(models, tmp_path):
    import signal
    server = Server(models.folder / "mlp")
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall(b"GET /v2 HT")  # half a request, for which the server waits
        time.sleep(0.1)
        server.process.send_signal(signal.SIGTERM)
        while server.process.stdout.readline() != "ending: requests that have come are answered\n":
            pass
        assert server.end() == 1 and "told to end at once; connections are cut" in server.lines


def test_nobody_reads_along(models):
    server = Server(models.folder / "mlp")
    server.process.stdout.close()
    server.process.terminate()
    assert server.process.wait(LONG) == 0
    server.process.stderr.close()


def test_a_client_that_never_stops_sending_does_not_stop_others(serve, models):
    server = serve(models.folder / "mlp", "--max-body-mb", "1")
    stop = threading.Event()

    def flood():
        with socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as s:
            s.sendall(b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000000\r\n\r\n")
            try:
                while not stop.is_set():
                    s.sendall(b"x" * 1000000)
            except OSError:
                pass  # the server has enough of it

    floods = [threading.Thread(target=flood) for _ in range(3)]
    for f in floods:
        f.start()
    try:
        for _ in range(20):
            assert server.infer("mlp", data=X).status == 200
    finally:
        stop.set()
    for f in floods:
        f.join()


def test_several_threads_that_read(serve, models):
    server = serve(models.folder / "mlp", "--io-threads", "3")
    for _ in range(3):
        for i, reply in enumerate(at_once(16, lambda i: server.infer("mlp", data=random_array(i, 1, 8)))):
            np.testing.assert_allclose(reply.output, models.mlp(random_array(i, 1, 8)), rtol=1e-5, atol=1e-6)


def test_large_bodies_in_json(serve, models):
    from conftest import json_body
    server = serve(models.folder / "mlp")
    x = random_array(0, 20000, 8)
    np.testing.assert_array_equal(server.ask("POST", "/v2/models/mlp/infer", json_body(data=x)).output, models.mlp(x))
    wrong = server.ask("POST", "/v2/models/mlp/infer", json_body(data=x)[:-1])
    assert wrong.status == 400 and "a '}' or ','" in wrong.json["error"]


def test_answers_that_nobody_reads_are_counted(serve, models):
    server = serve(models.folder / "mlp", "--max-queue-mb", "24")
    body, header = binary_body(data=np.zeros((700000, 8), np.float32))  # 22 MB in, 8 MB out: more than the kernel takes for the client
    with socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nInference-Header-Content-Length: %s\r\n\r\n"
                  % (len(body), header["Inference-Header-Content-Length"].encode()) + body)
        assert s.recv(8) == b"HTTP/1.1"
        assert server.ask("POST", "/v2/models/mlp/infer", body, header).status == 429
        assert server.infer("mlp", data=X).status == 429
    end = time.monotonic() + LONG
    while server.ask("POST", "/v2/models/mlp/infer", body, header).status != 200:
        assert time.monotonic() < end


def test_from_the_python_package(serve, models):
    server = serve(models.folder / "mlp", program=[sys.executable, "-m", "gluino"])
    np.testing.assert_array_equal(server.infer("mlp", data=X).output, models.mlp(X))
