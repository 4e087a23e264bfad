"""What the benches' scripts share: how they read arguments, run programs, say what they do, and save what they found.

A script in a folder beside this file finds it after

    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""

import argparse
import os
import shlex
import subprocess
import sys


def one_of(known):
    """An argument that is one of these names, or several with commas."""

    def read(text):
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names

    return read


def positive(text):
    """An argument that counts something."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return int(text)


def output_of(command):
    """What a process prints. If it fails, its errors end the script."""
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"{ended.stderr}{shlex.join(command)} failed with exit code {ended.returncode}")
    return ended.stdout


def save(path, text):
    """Writes the file whole or not at all."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def say(text):
    """Says what goes on, beside what is printed."""
    print(text, file=sys.stderr, flush=True)
