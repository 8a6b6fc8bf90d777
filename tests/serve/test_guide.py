"""Every command of docs/serve.md, in the order of the document, in one shell; servers listen on ports that the system chooses."""
import os
import pathlib
import re
import shutil
import socket
import subprocess

import pytest

from conftest import LONG, PROGRAM, ROOT, export, perceptron


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def test_the_commands_of_the_guide(tmp_path):
    for tool in ("curl", "openssl"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    export(perceptron(), tmp_path / "net", (1, 8))
    export(perceptron(), tmp_path / "other", (1, 8))
    script = "set -m\n"  # jobs by their numbers, as in a terminal
    for text in re.findall(r"```sh\n(.*?)```", (ROOT / "docs/serve.md").read_text(), re.S):
        for line in text.replace("python3 -", "/usr/bin/python3 -").splitlines(keepends=True):
            # A server answers as soon as it says that it is ready.
            script += re.sub(r"^(gluino serve .*) &$", r"mkfifo ready; \1 > ready & grep -q '^ready$' ready; rm ready", line)
    for port in ("8080", "8443"):
        script = script.replace(port, free_port())
    path = f"{pathlib.Path(PROGRAM).resolve().parent}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-euc", script], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    assert '"shape":[1,3],"data":[' in done.stdout and "gluino_batches_total" in done.stdout and '"name":"other","versions":["7"]' in done.stdout
