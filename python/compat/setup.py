"""The names mxnet and horovod for programs that import them: pip install gluino[mxnet]."""
import pathlib

from setuptools import setup

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()

setup(
    name="gluino-mxnet",
    version=VERSION,
    description="import mxnet and import horovod.mxnet find gluino",
    packages=["mxnet", "horovod", "horovod.mxnet"],
    python_requires=">=3.9",
    install_requires=[f"gluino=={VERSION}"],
    options={"build": {"build_base": str(ROOT / "build" / "alias")}},
)
