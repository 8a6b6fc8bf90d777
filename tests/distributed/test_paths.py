"""Ranks of one machine add up straight from each other's memory, ranks of several send messages: the same bits, and nothing is left behind."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

BUILD = os.environ.get("GLUINO_BUILD", "")
MPIRUN = shutil.which("mpirun")
SCRIPT = pathlib.Path(__file__).parent / "scripts/paths.py"
pytestmark = pytest.mark.skipif(not MPIRUN or not os.path.exists(os.path.join(BUILD, "src", "libgluino_mpi.so.0")),
                                reason="needs mpirun and a build with libgluino_mpi (GLUINO_BUILD)")
START = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
ENVIRONMENT = {**os.environ, "GLUINO_NUM_THREADS": "1", "GLUINO_DISTRIBUTED_TIMEOUT": "60"}
MESSAGES = ["-x", "GLUINO_DISTRIBUTED_GBIT=1000"]  # an emulated network is one between machines


def results(arguments):
    done = subprocess.run([*START, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stdout
    return next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))


def test_the_same_bits_by_messages_and_by_shared_memory():
    """Three ranks: parts are uneven."""
    program = ["-n", "3", sys.executable, str(SCRIPT)]
    assert results(program) == results([*MESSAGES, *program])


def test_ranks_that_cannot_all_share_memory_send_messages():
    """One rank may have no files of that size (ulimit -f): all agree on what is possible for all."""
    program = [sys.executable, str(SCRIPT)]
    shell = ["sh", "-c", "ulimit -f 100; exec \"$@\"", "sh"]
    assert results(["-n", "1", *program, ":", "-n", "1", *shell, *program]) == results(["-n", "2", *program])


def shared_files():
    """Names of what lives in memory under a name."""
    return set(os.listdir("/dev/shm"))


def pids_in(folder, ranks):
    """Of the ranks, once all have written theirs. Lines on their common output may run into each other."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        texts = [path.read_text() for path in sorted(folder.glob("pid.*"))]
        if len(texts) == ranks and all(text.endswith("\n") for text in texts):
            return [int(text) for text in texts]
        time.sleep(0.01)
    pytest.fail(f"not all of {ranks} ranks have come to exchange")


def test_nothing_is_left_of_ranks_that_were_killed(tmp_path):
    """The memory has no name in the file system, so it is gone with the processes."""
    before = shared_files()
    program = "import os, sys\nfrom gluino import distributed, nd\n" \
              "distributed.all_reduce(nd.ones((1000000,)))\n" \
              "with open(os.path.join(sys.argv[1], f'pid.{distributed.rank()}'), 'w') as file: file.write(f'{os.getpid()}\\n')\n" \
              "while True: distributed.all_reduce(nd.ones((1000000,)))\n"
    job = subprocess.Popen([*START, "-n", "3", sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=ENVIRONMENT)
    try:
        pids = pids_in(tmp_path, 3)
        maps = pathlib.Path(f"/proc/{pids[0]}/maps").read_text()
        assert maps.count("memfd:gluino") >= 3, maps  # it is used at all
        os.kill(pids[1], signal.SIGKILL)
        output, _ = job.communicate(timeout=60)
    finally:
        job.terminate()  # mpirun ends its ranks
    assert job.returncode != 0, output
    for _ in range(100):
        if not any(os.path.exists(f"/proc/{p}") for p in pids):
            break
        time.sleep(0.1)
    assert not any(os.path.exists(f"/proc/{p}") for p in pids)
    assert not [name for name in shared_files() - before if "gluino" in name]
