"""The proof names what a loader loses, repeats and changes, and finds nothing in a good one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import wait_until

OURS = """
    import json, sys, millstream

    def make_loader(run):
        return millstream.Loader(json.loads(sys.argv[1])).map(str.upper, name="upper")

    print(millstream.verify(make_loader, batches=20, points=2, worlds=(1, 2)))
"""

THEIRS = """
    import sys, millstream

    FAULT = sys.argv[1]

    class Numbers:
        def __init__(self, run):
            self.run, self.at, self.is_resumed = run, 0, False
        def state_dict(self):
            return {"at": self.at}
        def load_state_dict(self, state):
            if FAULT == "refuses":
                raise KeyError("no such state")
            self.at, self.is_resumed = state["at"], True
            self.at += {"loses": 1, "repeats": -1}.get(FAULT, 0)
        def __iter__(self):
            while self.at < 40:
                batch = [[self.at, row] for row in range(4)]
                if FAULT == "changes" and self.run.workers == 2 and self.at == 7:
                    batch[2] = [99, 99]
                self.at += 1
                yield batch

    print(millstream.verify(Numbers, batches=30, points=2, workers=(0, 2), seed=1))
"""


def verified(tmp_path: Path, code: str, *arguments: str) -> str:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_our_loader_is_exact(config: dict[str, Any], tmp_path: Path) -> None:
    said = verified(tmp_path, OURS, json.dumps(config))
    assert said.rstrip().endswith("no difference") and "world 2" in said and "killed after" in said


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("none", "no difference"),
        # A child that is killed at the very end has nothing behind it by which a lost row is told.
        ("loses", "lost|replaced"),
        ("repeats", "repeated"),
        ("changes", "replaced"),
        ("refuses", "refused"),
    ],
)
def test_faults_of_others_are_named(tmp_path: Path, fault: str, found: str) -> None:
    said = verified(tmp_path, THEIRS, fault)
    assert re.search(found, said) and ("no difference" in said) == (fault == "none"), said


def test_what_a_script_catches_is_a_failure_all_the_same(tmp_path: Path) -> None:
    code = THEIRS.replace("batch = [[self.at", "assert self.at < 12, 'bad record'; batch = [[self.at").replace(
        "    print(millstream", "    try: print(millstream"
    )
    said = verified(tmp_path, code + "    except Exception as error: print('caught', error)\n", "none")
    assert said.startswith("caught") and "bad record" in said, said


def test_batches_without_rows_prove_nothing(tmp_path: Path) -> None:
    code = THEIRS.replace("print(millstream.verify(", "millstream.verify(").replace("seed=1))", "seed=1, rows=lambda batch: [])")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    done = subprocess.run([sys.executable, str(script), "none"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and "VerifyError" in done.stderr and "without a row" in done.stderr, done.stderr


def test_one_script_proves_one_loader(tmp_path: Path) -> None:
    code = textwrap.dedent(THEIRS) + "millstream.verify(Numbers)\n"
    script = tmp_path / "script.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, str(script), "none"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and "no difference" in done.stdout and "write a script for each" in done.stderr


def test_a_kill_takes_what_the_loader_has_started(tmp_path: Path) -> None:
    started = "worker = subprocess.Popen(['sleep', '86397']); atexit.register(worker.kill)"
    code = THEIRS.replace("import sys, millstream", "import atexit, subprocess, sys, millstream").replace(
        "self.run, self.at", f"{started}; self.run, self.at"
    )
    assert "killed after" in verified(tmp_path, code, "none")

    def are_gone() -> bool:
        return not any(b"sleep\x0086397" in read(process) for process in Path("/proc").glob("[0-9]*/cmdline"))

    def read(file: Path) -> bytes:
        try:
            return file.read_bytes()
        except OSError:
            return b""

    wait_until(are_gone, "the end of all workers")


def test_the_program_runs_the_same_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(THEIRS))
    program = [sys.executable, "-m", "millstream", "verify", "--program", f"{sys.executable} {script} loses"]
    options = ["--batches", "30", "--points", "2", "--workers", "0,2"]
    done = subprocess.run([*program, *options], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and "DIFFERS" in done.stdout, done.stdout + done.stderr
