"""The packages of `make package` on a machine that has nothing else: a fresh Debian in a folder, entered with chroot.

`make test-package` makes the packages and runs this. The blocks of docs/deploy.md that begin with a comment "on a clean machine" are run there.
Skipped, and said so, without root, debootstrap or a mirror. GLUINO_TEST_BUILDS=1 also builds there: the steps of the Dockerfile, and the library
for inference alone."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest

import gluino as mx
from gluino.gluon import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "build" / "packages"
CACHE = pathlib.Path(os.environ.get("CCACHE_DIR", pathlib.Path.home() / ".cache/ccache"))  # of the compiler, lent to those machines
builds = pytest.mark.skipif(not os.environ.get("GLUINO_TEST_BUILDS"), reason="GLUINO_TEST_BUILDS=1 runs what builds the library there")
MIRROR = os.environ.get("GLUINO_DEBIAN_MIRROR", "http://deb.debian.org/debian")


class Machine:
    """A Debian in a folder."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, script, where="/root", mount=(), check=True):
        """Runs a script as root in it; what it mounts and starts ends with it."""
        binds = [("/dev", "/dev"), *mount]
        prepare = "".join(f"mkdir -p {self.folder}{inside}; mount --bind {outside} {self.folder}{inside}; " for outside, inside in binds)
        command = f"{prepare} mount -t proc proc {self.folder}/proc; exec chroot {self.folder} bash -euc {shlex.quote(f'cd {where}; {script}')}"
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", "LANG": "C.UTF-8"}
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", command], env=environment, capture_output=True, text=True,
                              timeout=7200)
        if check:
            assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done

    def put(self, *files, where="/root"):
        (self.folder / where.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, self.folder / where.lstrip("/"))


@pytest.fixture(scope="session")
def base():
    """The fresh Debian, kept between runs."""
    folder = ROOT / "build" / "clean_debian"
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap: tools/setup.sh package installs it")
    if not (folder / "var/lib/apt/lists/lock").exists():
        shutil.rmtree(folder, ignore_errors=True)
        done = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", folder, MIRROR], capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"debootstrap: {done.stdout[-300:]}")
        shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
        Machine(folder).run("apt-get update")
    return folder


@pytest.fixture
def machine(base, tmp_path):
    folder = tmp_path / "debian"
    subprocess.run(["cp", "-a", base, folder], check=True)
    yield Machine(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """What the guide takes for granted: an exported network, one input and the answer to it."""
    folder = tmp_path_factory.mktemp("model")
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = mx.nd.random.normal(shape=(1, 3, 8, 8))
    np.save(folder / "x.npy", x.asnumpy())
    np.save(folder / "y.npy", net(x).asnumpy())
    net.export(str(folder / "net"))
    return folder


def packages(*patterns):
    found = [path for pattern in patterns for path in PACKAGES.glob(pattern)]
    if len(found) < len(patterns):
        pytest.skip(f"{PACKAGES} does not have all of {' '.join(patterns)}: make package")
    return found


def put_checkout(folder):
    folder.mkdir(parents=True)
    files = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=files, check=True)


def guide(title, where="on a clean machine"):
    """The commands of the guide for a clean machine, under a title."""
    section = (ROOT / "docs/deploy.md").read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(rf"<!-- {where} -->\n+```sh\n(.*?)```", section, re.S)


def test_the_debian_packages(machine, model):
    machine.put(*packages("gluino_*.deb", "libgluino-dev_*.deb", "libgluino-inference-dev_*.deb"), ROOT / "bindings/c/example.c", *model.iterdir())
    for commands in guide("Debian packages"):
        machine.run(commands)
    answers = machine.run("./example net-symbol.json").stdout.splitlines()
    assert len(answers) == 8 and len({line.split(":")[1] for line in answers}) == 1
    machine.run("apt-get install -y --no-install-recommends valgrind")
    machine.run("valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite ./example net-symbol.json")
    # What the machine has: nothing of a compiler's but what -dev asks for, no pictures, no LLVM for the carried program.
    carried = machine.run("ldd ./carried").stdout
    assert "not found" not in carried and not re.search("LLVM|jpeg|png|gluino", carried), carried
    assert "gluino_model_run" in machine.run("nm -D --defined-only /usr/lib/*/libgluino_c.so.1 /usr/lib/libgluino_c.so.1 2>/dev/null || true").stdout


def test_the_runtime_alone(machine, model):
    """Without -dev: the command, the manual, completion, machine code for loops, ONNX, bundled data."""
    machine.put(*packages("gluino_*.deb"), *model.iterdir())
    machine.run("apt-get install -y --no-install-recommends ./gluino_*.deb")
    assert not (machine.folder / "usr/include/gluino").exists()
    machine.run("gluino demo --epochs 1 --folder demo")
    machine.run("gluino convert net -o net.onnx --shape data=1,3,8,8 && gluino verify net.onnx --input x.npy")
    for file in ("share/man/man1/gluino.1*", "share/bash-completion/completions/gluino", "share/zsh/site-functions/_gluino"):
        assert list((machine.folder / "usr").glob(file)), file
    machine.run("gluino run net -i x.npy -o y2.npy")
    np.testing.assert_allclose(np.load(machine.folder / "root/y2.npy"), np.load(model / "y.npy"), rtol=1e-4, atol=1e-5)
    assert "compiled" in machine.run("GLUINO_JIT=wait gluino explain net --shape data=1,3,8,8").stdout


def test_the_wheel(machine, model):
    machine.put(*packages("gluino-*.whl", "gluino_mxnet-*.whl"), *model.iterdir())
    machine.run("apt-get install -y --no-install-recommends python3-numpy python3-venv")
    for commands in guide("Wheels"):
        machine.run(commands)
    machine.run("venv/bin/gluino demo --epochs 1 --folder demo")
    machine.run("venv/bin/gluino convert net -o net.onnx --shape data=1,3,8,8 && venv/bin/gluino verify net.onnx --input x.npy")
    script = ("import numpy, mxnet as mx; net = mx.gluon.SymbolBlock.imports('net-symbol.json', ['data'], 'net-0000.params'); net.hybridize(); "
              "numpy.save('y2.npy', net(mx.nd.array(numpy.load('x.npy'))).asnumpy()); assert mx.onnx.import_model('net.onnx')")
    machine.run(f"venv/bin/python -c {shlex.quote(script)}")
    np.testing.assert_allclose(np.load(machine.folder / "root/y2.npy"), np.load(model / "y.npy"), rtol=1e-4, atol=1e-5)
    loaded = machine.run("venv/bin/python -c \"import gluino; print(open('/proc/self/maps').read())\"").stdout
    assert "/gluino/libs/libdnnl.so" in loaded  # carried, not the system's


@builds
def test_the_library_for_inference_alone(machine, model):
    """Built where there is no LLVM, no libjpeg and no libpng; a program that carries it gives the network's answer."""
    CACHE.mkdir(parents=True, exist_ok=True)
    put_checkout(machine.folder / "gluino")
    (commands,) = guide("A program that carries Gluino", "in a checkout on a clean machine")
    machine.run(commands, "/gluino", mount=[(CACHE, "/root/.cache/ccache")])
    assert not list((machine.folder / "usr").glob("include/*/j*peglib.h")) and not list((machine.folder / "usr").glob("lib/*/libLLVM*"))
    machine.put(ROOT / "bindings/c/example.c", *model.iterdir())
    machine.run("export PKG_CONFIG_PATH=/gluino/build/inference/installed/lib/pkgconfig; "
                "cc -std=c99 -O2 example.c -o carried $(pkg-config --cflags --libs gluino_inference)")
    answers = machine.run("./carried net-symbol.json").stdout.splitlines()
    assert len(answers) == 8 and len({line.split(":")[1] for line in answers}) == 1


@builds
def test_the_steps_of_the_dockerfile(base, tmp_path, model):
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    stages = []
    CACHE.mkdir(parents=True, exist_ok=True)
    where, environment, entry = "/", "", ""
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append(Machine(tmp_path / f"stage{len(stages)}"))
            subprocess.run(["cp", "-a", base, stages[-1].folder], check=True)
            where, environment = "/", ""
        elif word == "WORKDIR":
            where = rest
        elif word == "ENV":
            environment += f"export {rest}; "
        elif word == "COPY" and rest.startswith("--from"):
            source, target = rest.split()[1:]
            stages[-1].put(*stages[0].folder.glob(source.lstrip("/")), where=target)
        elif word == "COPY":
            put_checkout(stages[-1].folder / rest.split()[1].lstrip("/"))
        elif word == "RUN":
            stages[-1].run(environment + rest, where, mount=[(CACHE, "/root/.cache/ccache")])
        elif word == "ENTRYPOINT":
            entry = " ".join(re.findall(r'"(.*?)"', rest))
        else:
            assert not word or word.startswith("#"), f"a step that this test does not know: {line}"
    stages[-1].put(*model.iterdir(), where="/data")
    assert "Convolution" in stages[-1].run(f"{environment}{entry} inspect /data/net").stdout
    assert not (stages[-1].folder / "usr/bin/g++").exists()
