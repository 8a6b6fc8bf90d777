"""Scripts as MXNet's and Horovod's users have them, started as several ranks by `gluino launch` and by mpirun."""
import os
import shutil
import subprocess
import sys

import pytest

BUILD, PROGRAM = os.environ.get("GLUINO_BUILD", ""), os.environ.get("GLUINO_PROGRAM", "")
SCRIPTS = os.path.join(os.path.dirname(__file__), "scripts")
FASHION = os.path.join(os.environ.get("GLUINO_SHARED", os.path.join(os.path.dirname(__file__), "../../../shared")), "data", "fashion-mnist")
MPIRUN = shutil.which("mpirun")
pytestmark = pytest.mark.skipif(not MPIRUN or not os.path.exists(os.path.join(BUILD, "src", "libgluino_mpi.so.0")),
                                reason="needs mpirun and a build with libgluino_mpi (GLUINO_BUILD)")
BY_MPIRUN = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


def run(command, *arguments, timeout=400):
    done = subprocess.run([*command, sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                          env={**os.environ, "GLUINO_JIT": "off"}, check=False)
    return done.returncode, done.stdout


def script(name):
    return os.path.join(SCRIPTS, name)


@pytest.mark.parametrize("options", [[], ["--hybridize", "--kvstore", "dist_async"]])
def test_mxnets_style(options):
    code, output = run([*BY_MPIRUN, "-n", "2"], script("mxnet_dist_sync.py"), *options)
    assert code == 0 and "all workers have the same weights" in output, output
    assert ("runs as 'dist_sync'" in output) == bool(options), output


def test_mxnets_style_on_fashion_mnist():
    if not os.path.isdir(FASHION):
        pytest.skip("needs Fashion-MNIST beside the checkout")
    code, output = run([*BY_MPIRUN, "-n", "2"], script("mxnet_dist_sync.py"), "--data", FASHION, "--epochs", "1", "--hybridize")
    assert code == 0 and "all workers have the same weights" in output, output


@pytest.mark.parametrize("options", [[], ["--optimizer-instead-of-trainer"]])
def test_horovods_style(options):
    code, output = run([*BY_MPIRUN, "-n", "2"], script("horovod_gluon.py"), *options)
    assert code == 0 and output.count("agrees") == 2, output


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_stores_and_layers(ranks):
    code, output = run([*BY_MPIRUN, "-n", str(ranks)] if ranks > 1 else [], script("store_and_layers.py"))
    assert code == 0 and output.count("agrees") == ranks, output


@pytest.mark.skipif(not os.path.exists(PROGRAM), reason="needs the command (GLUINO_PROGRAM)")
def test_launch():
    says = "import gluino as mx; print(f'rank {mx.distributed.rank()} of {mx.distributed.size()}')"
    code, output = run([PROGRAM, "launch", "-n", "3", "--"], "-c", says)
    assert code == 0 and all(f"rank {r} of 3" in output for r in range(3)), output
    code, output = run([PROGRAM, "launch", "-n", "3", "--"], "-c", "import os; print('threads ' + os.environ['GLUINO_NUM_THREADS'])")
    assert code == 0 and output.count(f"threads {max(1, (os.cpu_count() or 1) // 3)}") == 3, output
    code, output = run([PROGRAM, "launch", "-n", "2", "--"], "-c", "raise SystemExit(4)")
    assert code != 0


@pytest.mark.skipif(not os.path.exists(PROGRAM), reason="needs the command (GLUINO_PROGRAM)")
def test_launch_without_mpirun():
    done = subprocess.run([PROGRAM, "launch", "-n", "2", "--", "true"], stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": "/nowhere"}, check=False)
    assert done.returncode == 1 and "openmpi-bin" in done.stderr


def test_an_error_on_one_rank_ends_all():
    program = "import gluino as mx\nif mx.distributed.rank() == 1: raise ValueError('no more')\nmx.distributed.barrier()\nmx.distributed.barrier()"
    code, output = run([*BY_MPIRUN, "-n", "2"], "-c", program, timeout=60)
    assert code != 0 and "rank 1 ends the job: ValueError: no more" in output, output


def test_without_the_library(tmp_path):
    """Started as one of several ranks, but libgluino_mpi is missing: what to install is said."""
    shutil.copy(os.path.realpath(os.path.join(BUILD, "src", "libgluino.so.0")), tmp_path / "libgluino.so.0")
    program = os.path.join(BUILD, "tests", "faulty_ranks")
    done = subprocess.run([program, "nothing"], env={**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "LD_PRELOAD": str(tmp_path / "libgluino.so.0")},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode != 0 and "libopenmpi-dev and openmpi-bin" in done.stdout, done.stdout
