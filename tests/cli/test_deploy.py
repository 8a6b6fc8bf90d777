"""Every command of docs/deploy.md, in the order of the document; its server answers many clients at once."""
import os
import pathlib
import re
import shutil
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


def installed_paths(prefix):
    """The environment of a user who has installed the build into a folder."""
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
    (lib,) = {path.parent for path in prefix.glob("lib/**/libgluino_c.so")}
    return {"PATH": f"{prefix / 'bin'}:{os.environ['PATH']}", "CPATH": str(prefix / "include"), "LIBRARY_PATH": str(lib), "LD_LIBRARY_PATH": str(lib),
            "PKG_CONFIG_PATH": str(lib / "pkgconfig"), "PYTHONPATH": ""}


def check_carried_program(folder, paths):
    """The program with the static library gives the same answers, needs neither LLVM nor pictures, and shows the names of the header alone."""
    answers = [subprocess.run([folder / name, "net-symbol.json"], cwd=folder, env={**os.environ, **paths}, capture_output=True, text=True, check=True).stdout
               for name in ("example", "carried")]
    numbers = [[float(line.split(":")[1]) for line in answer.splitlines()] for answer in answers]
    assert len(numbers[0]) == 8
    np.testing.assert_allclose(numbers[1], numbers[0], rtol=1e-6)
    needs = subprocess.run(["ldd", folder / "carried"], capture_output=True, text=True, check=True).stdout
    assert not re.search("LLVM|jpeg|png|gluino", needs), needs
    library = pathlib.Path(paths["LIBRARY_PATH"]) / "libgluino_inference.a"
    names = subprocess.run(["nm", "--defined-only", "--extern-only", library], capture_output=True, text=True, check=True).stdout
    declared = set(re.findall(r"\b(gluino_\w+)\(", (ROOT / "include/gluino/c_api.h").read_text()))
    assert {line.split()[-1] for line in names.splitlines() if len(line.split()) == 3} == declared
    onnx = subprocess.run([folder / "carried", "a.onnx"], cwd=folder, capture_output=True, text=True)
    assert onnx.returncode == 1 and "gluino convert a.onnx" in onnx.stderr


def test_the_commands_of_the_guide(models, tmp_path):
    if not (BUILD / "generated/gluino/ops.h").exists():
        pytest.skip("the program is not in a build tree")
    for file in models.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    np.save(tmp_path / "x.npy", np.load(models / "x.npy")[:1])
    shutil.copy(ROOT / "bindings/c/example.c", tmp_path)
    paths = installed_paths(tmp_path / "prefix")
    for place, language, text in re.findall(r"(?:<!-- (.*?) -->\n+)?```(\w+)\n(.*?)```", (ROOT / "docs/deploy.md").read_text(), re.S):
        if language == "cpp":
            (tmp_path / "server.cc").write_text(text)
        elif not place:  # the others are run by tests/package
            done = subprocess.run(["bash", "-euc", text], cwd=tmp_path, env={**os.environ, **paths}, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    check_carried_program(tmp_path, paths)
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
