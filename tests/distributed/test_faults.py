"""Jobs in which a rank goes wrong: they end by themselves, soon, and say which rank it was."""
import os
import shutil
import subprocess
import time

import pytest

BUILD = os.environ.get("GLUINO_BUILD", "")
PROGRAM = os.path.join(BUILD, "tests", "faulty_ranks")
MPIRUN = shutil.which("mpirun")
pytestmark = pytest.mark.skipif(not MPIRUN or not os.path.exists(PROGRAM) or not os.path.exists(os.path.join(BUILD, "src", "libgluino_mpi.so.0")),
                                reason="needs mpirun and a build with libgluino_mpi (GLUINO_BUILD)")


def run(how, ranks=3, timeout=60, **environment):
    """The exit code, all output, and the seconds it took."""
    start = time.monotonic()
    done = subprocess.run([MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), PROGRAM, how],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                          env={**os.environ, "GLUINO_NUM_THREADS": "1", **environment}, check=False)
    return done.returncode, done.stdout, time.monotonic() - start


def test_nothing_wrong():
    code, output, _ = run("nothing")
    assert code == 0 and output.count("is done") == 3, output


@pytest.mark.parametrize("how", ["kill", "segfault", "exit", "throw", "abort"])
def test_a_rank_that_dies_is_named(how):
    """mpirun notices; nobody waits for the timeout of 300 s."""
    code, output, _ = run(how)
    assert code != 0, output
    assert "rank 2" in output or "2]" in output, output


@pytest.mark.parametrize("how, what", [("shape", "float32 (3, 4)"), ("dtype", "float64 (4,)"), ("order", "broadcast")])
def test_ranks_at_different_collectives_are_told_so(how, what):
    code, output, _ = run(how)
    assert code != 0
    told = [line for line in output.splitlines() if "was told" in line]
    assert len(told) == 3, output
    assert all("ranks 0 and 1: is at number 6" in line and "rank 2: is at number 6" in line and what in line for line in told), output


def test_a_rank_that_ends_early_is_named():
    code, output, _ = run("return")
    assert code != 0
    assert "rank 2: is at number 6, the end of the program" in output, output


@pytest.mark.parametrize("how, what", [("stop", "rank 2: does not answer"), ("sleep", "rank 2: has done number 5, all_reduce")])
def test_a_rank_that_does_not_come_is_named(how, what):
    code, output, seconds = run(how, GLUINO_DISTRIBUTED_TIMEOUT="2")
    assert code != 0
    assert "was not done within 2 s" in output and what in output, output
    assert seconds < 50


def test_a_rank_that_never_comes_is_not_waited_for_without_end():
    """It has ended well before it met the others. mpirun sees nothing wrong in that unless the others have begun to by then; MPI_Init itself
    waits for ever."""
    code, output, seconds = run("absent", GLUINO_DISTRIBUTED_TIMEOUT="3")
    assert code != 0 and seconds < 50
    assert "have not all come within 3 s" in output or 'did not call "init" before exiting' in output, output


@pytest.mark.parametrize("how", ["compression", "other compression"])
def test_ranks_that_send_gradients_in_different_ways_are_told_so(how):
    code, output, _ = run(how)
    assert code != 0
    told = [line for line in output.splitlines() if "was told" in line]
    assert len(told) == 3 and all("rank 2: is at number" in line and "as fp16" in line for line in told), output
