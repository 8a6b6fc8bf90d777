#!/usr/bin/python3
"""Puts into a wheel what its libraries need and a system may lack: tools/bundle_wheel.py WHEEL FOLDER

The libraries come from this system, with their packages' licences beside them, and go to gluino/libs, where those of the package find them.
What every Linux has (the C and C++ libraries) stays outside. Needs patchelf, and python3-wheel to pack the wheel again."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

EVERYWHERE = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so\.\d+")


def output_of(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def needed_by(library):
    """{name: where this system has it} of a library's needs, and of theirs."""
    found = {}
    for name, path in re.findall(r"^\s*(\S+) => (\S+)", output_of("ldd", library), re.M):
        if path == "not":
            sys.exit(f"{library} needs {name}, which is not there")
        found[name] = pathlib.Path(path)
    return found


def add_licence(path, folder):
    """The licences of the Debian package that a library comes from."""
    file = str(path.resolve())  # packages may still know it by its name from before /lib became /usr/lib
    owner = subprocess.run(["dpkg", "-S", file, file.removeprefix("/usr")], capture_output=True, text=True).stdout.split(":")[0]
    licence = pathlib.Path("/usr/share/doc") / owner / "copyright"
    if not owner or not licence.exists():
        sys.exit(f"{path} comes from no package whose licence is known")
    folder.mkdir(exist_ok=True)
    shutil.copyfile(licence, folder / owner)


def bundle(package):
    """Copies what the libraries of a folder need into its folder libs; returns the names."""
    own = sorted(package.glob("*.so*"))
    names = {library.name for library in own}
    libs = package / "libs"
    libs.mkdir()
    for library in own:
        for name, path in needed_by(library).items():
            if name in names or EVERYWHERE.fullmatch(name):
                continue
            names.add(name)
            shutil.copyfile(path.resolve(), libs / name)
            add_licence(path, libs / "licences")
            subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", libs / name], check=True)
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN:$ORIGIN/libs", library], check=True)
    return sorted(path.name for path in libs.glob("*.so*"))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    wheel, folder = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as work:
        output_of(sys.executable, "-m", "wheel", "unpack", "-d", work, wheel)
        (unpacked,) = pathlib.Path(work).iterdir()
        names = bundle(unpacked / "gluino")
        output_of(sys.executable, "-m", "wheel", "pack", "-d", folder, unpacked)
    print(f"{wheel.name} carries {len(names)} libraries: {' '.join(names)}")


if __name__ == "__main__":
    main()
