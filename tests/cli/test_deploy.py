"""Every command of docs/deploy.md, in the order of the document; its server answers many clients at once."""
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

from conftest import PROGRAM, ROOT

BUILD = pathlib.Path(PROGRAM).resolve().parent.parent


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, x):
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(x.tobytes())
        answer = b""
        while part := s.recv(65536):
            answer += part
    return np.frombuffer(answer, np.float32)


def test_the_commands_of_the_guide(models, tmp_path):
    if not (BUILD / "generated/gluino/ops.h").exists():
        pytest.skip("the program is not in a build tree")
    for file in models.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    np.save(tmp_path / "x.npy", np.load(models / "x.npy")[:1])
    paths = {"PATH": f"{BUILD / 'src'}:{os.environ['PATH']}", "CPATH": f"{ROOT / 'include'}:{BUILD / 'generated'}", "LIBRARY_PATH": str(BUILD / "src"),
             "LD_LIBRARY_PATH": str(BUILD / "src")}
    for language, text in re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs/deploy.md").read_text(), re.S):
        if language == "cpp":
            (tmp_path / "server.cc").write_text(text)
        else:
            subprocess.run(["bash", "-euc", text], cwd=tmp_path, env={**os.environ, **paths}, check=True, capture_output=True, timeout=300)
    port = free_port()
    server = subprocess.Popen([tmp_path / "server", tmp_path / "net.gluino", str(port)], env={**os.environ, **paths})
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        x, wanted = np.load(models / "x.npy")[:1], np.load(models / "y.npy")[0]
        answers = [None] * 8
        clients = [threading.Thread(target=lambda i=i: answers.__setitem__(i, ask(port, x))) for i in range(8)]
        for c in clients:
            c.start()
        for c in clients:
            c.join()
        for answer in answers:
            np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-5)
    finally:
        server.kill()
        server.wait()
