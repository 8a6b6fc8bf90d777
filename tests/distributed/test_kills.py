"""Trainings whose ranks are killed: every job ends by itself and names the rank, and a started-again one ends with the weights of an
undisturbed run. GLUINO_KILLS=200 for a long run."""
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

BUILD = os.environ.get("GLUINO_BUILD", "")
PROGRAM = os.path.join(BUILD, "tests", "train_ranks")
MPIRUN = shutil.which("mpirun")
KILLS = int(os.environ.get("GLUINO_KILLS", "3"))
EPOCHS = 12
pytestmark = pytest.mark.skipif(not MPIRUN or not os.path.exists(PROGRAM) or not os.path.exists(os.path.join(BUILD, "src", "libgluino_mpi.so.0")),
                                reason="needs mpirun and a build with libgluino_mpi (GLUINO_BUILD)")


def start(folder, ranks, *options):
    for name in os.listdir(folder):
        if name.startswith("pid."):
            os.remove(os.path.join(folder, name))
    return subprocess.Popen([MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), PROGRAM, str(folder), str(EPOCHS),
                             *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, "GLUINO_NUM_THREADS": "1", "GLUINO_JIT": "off", "OMPI_MCA_btl_vader_backing_directory": "/tmp"})


def finish(job, patience=240):
    """The exit code and the output of a job, which must end by itself."""
    try:
        output, _ = job.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        job.terminate()  # mpirun ends its ranks
        pytest.fail("the job did not end by itself")
    return job.returncode, output


def weights(folder):
    with open(os.path.join(folder, "final.params"), "rb") as file:
        return file.read()


def pid_of(folder, rank, deadline):
    path = os.path.join(folder, f"pid.{rank}")
    while time.monotonic() < deadline:
        try:
            with open(path, encoding="ascii") as file:
                text = file.read()
            if text.endswith("\n"):
                return int(text)
        except FileNotFoundError:
            pass
        time.sleep(0.005)
    pytest.fail(f"rank {rank} has not begun")


def undisturbed(folder, ranks, *options):
    begin = time.monotonic()
    code, output = finish(start(folder, ranks, *options))
    assert code == 0, output
    return weights(folder), time.monotonic() - begin


def test_killed_ranks(tmp_path):
    reference = tmp_path / "whole"
    reference.mkdir()
    want, seconds = undisturbed(reference, 2)
    chance = random.Random(int(os.environ.get("GLUINO_SEED", "1")))
    kills, run = 0, 0
    while kills < KILLS:
        folder = tmp_path / f"run{run}"
        folder.mkdir()
        run += 1
        while True:
            job = start(folder, 2)
            if kills >= KILLS or chance.random() < 0.3:
                code, output = finish(job)
                assert code == 0, output
                break
            victim = chance.randrange(2)
            pid = pid_of(folder, victim, time.monotonic() + 60)
            time.sleep(chance.random() * max(0.2, seconds - 0.3))
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was done
            code, output = finish(job)
            kills += 1
            if code == 0:
                break
            assert f"rank {victim}" in output or f"],{victim}]" in output or f"1,{victim}" in output, output
        assert weights(folder) == want, f"after {kills} kills"
        shutil.rmtree(folder)


def test_rank_0_killed_between_the_files_of_a_checkpoint(tmp_path):
    """Weights of epoch 3 are there, its states perhaps not: what counts is the last pair that is whole."""
    (tmp_path / "whole").mkdir()
    want, _ = undisturbed(tmp_path / "whole", 2)
    folder = tmp_path / "killed"
    folder.mkdir()
    job = start(folder, 2)
    deadline = time.monotonic() + 120
    pid = pid_of(folder, 0, deadline)
    while not (folder / "model-0003.params").exists() and time.monotonic() < deadline and job.poll() is None:
        pass
    os.kill(pid, signal.SIGKILL)
    code, output = finish(job)
    assert code != 0 and int((folder / "model-latest").read_text()) in (2, 3), output
    code, output = finish(start(folder, 2))
    assert code == 0 and weights(folder) == want, output


def test_another_number_of_ranks_goes_on(tmp_path):
    """A checkpoint of four ranks, with states dealt out, is gone on with by two, and by one."""
    folder = tmp_path
    job = start(folder, 4, "shard")
    deadline = time.monotonic() + 120
    while not (folder / "model-latest").exists() and time.monotonic() < deadline and job.poll() is None:
        time.sleep(0.01)
    try:
        os.kill(pid_of(folder, 3, deadline), signal.SIGKILL)
    except ProcessLookupError:
        pass
    finish(job)
    done = int((folder / "model-latest").read_text())
    assert done >= 1
    code, output = finish(start(folder, 2, "shard"))
    assert code == 0, output
    assert int((folder / "model-latest").read_text()) == EPOCHS
    os.remove(folder / "final.params")
    code, output = finish(start(folder, 1))
    assert code == 0 and (folder / "final.params").exists(), output
