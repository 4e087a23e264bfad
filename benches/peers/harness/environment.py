"""The virtual environment, and the folders of packages that cannot live in it."""

import hashlib
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Folders that go first on PYTHONPATH, for the engine or the loader of that name.
FOLDERS = ("pre", "mosaic")


def make(directory):
    """Installs what the files of requirements say, unless just that is there; needs the network only then."""
    stamp, wanted = os.path.join(directory, "installed"), digest()
    if os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == wanted:
        return
    python = python_of(directory)
    subprocess.run([sys.executable, "-m", "venv", os.path.join(directory, "venv")], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", path("requirements.txt"), "-c", path("constraints.txt")], check=True)
    for folder in FOLDERS:
        target = ["--no-deps", "--upgrade", "--target", os.path.join(directory, folder)]
        subprocess.run([*pip, *target, "-r", path(f"requirements-{folder}.txt")], check=True)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(wanted)


def install(directory, package):
    """Installs Millstream's Python package: a wheel, or the folder that cargo and maturin build it from."""
    pip = [python_of(directory), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    path = os.pathsep.join((os.path.join(directory, "venv", "bin"), os.environ["PATH"]))
    options = ["--no-deps", "--no-build-isolation", "--force-reinstall"]
    subprocess.run([*pip, *options, package], check=True, env={**os.environ, "PATH": path})


def python_of(directory):
    return os.path.join(directory, "venv", "bin", "python")


def packages(directory):
    return {folder: os.path.join(directory, folder) for folder in FOLDERS}


def path(name):
    return os.path.join(HERE, name)


def digest():
    files = ["requirements.txt", "constraints.txt", *(f"requirements-{folder}.txt" for folder in FOLDERS)]
    text = b"".join(open(path(name), "rb").read() for name in files)
    return hashlib.blake2b(text, digest_size=16).hexdigest()
