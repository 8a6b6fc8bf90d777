"""pip install . : builds the engine and the extension with CMake and puts both into the package.

With what Debian provides: pip install --no-build-isolation --break-system-packages . (or inside a virtual environment
made with --system-site-packages).
"""
import pathlib
import shutil
import subprocess
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent
VERSION = (ROOT / "VERSION").read_text().strip()


class CMakeBuild(build_ext):
    """Lets CMake make gluino/_core*.so, and the engine's library beside it."""

    def build_extension(self, ext):
        build = ROOT / "build" / "pip"
        target = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve().parent
        subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGLUINO_TESTS=OFF", "-DGLUINO_EXAMPLES=OFF",
                        f"-DPython3_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON"], check=True)
        subprocess.run(["cmake", "--build", build, "--target", "gluino_python", "gluino_python_stubs"], check=True)
        for folder in ("ndarray", "symbol"):
            (target / folder).mkdir(parents=True, exist_ok=True)
        for file in (build / "python" / "gluino").glob("_core*.so"):
            shutil.copy2(file, target)
        for stub in (build / "python" / "gluino").rglob("*.pyi"):
            shutil.copy2(stub, target / stub.relative_to(build / "python" / "gluino"))
        for name in ("libgluino.so.0", "libgluino_jit.so.0", "libgluino_onnx.so.0", "libgluino_serve.so.0"):
            library = build / "src" / name
            if library.exists():  # there is no libgluino_jit without LLVM, no libgluino_onnx without protobuf
                shutil.copy2(library.resolve(), target / name)
        shutil.copytree(ROOT / "data", target / "data", dirs_exist_ok=True)


setup(
    name="gluino",
    version=VERSION,
    description="Deep learning by hybrid programming, with MXNet's Python interface",
    packages=find_packages("python"),
    package_dir={"": "python"},
    package_data={"gluino": ["py.typed", "*.pyi", "**/*.pyi"]},
    python_requires=">=3.9",
    install_requires=["numpy"],
    extras_require={"mxnet": [f"gluino-mxnet=={VERSION}"]},
    entry_points={"console_scripts": ["gluino = gluino.__main__:main"]},
    ext_modules=[Extension("gluino._core", [])],
    cmdclass={"build_ext": CMakeBuild},
)
