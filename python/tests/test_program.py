"""The program in the package: the same as the Rust program, but for the trainer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import millstream


def program(*arguments: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "millstream", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_it_goes_on_from_a_cursor_of_python(config: dict[str, Any], tmp_path: Path) -> None:
    file, cursor = tmp_path / "config.json", tmp_path / "cursor.json"
    file.write_text(json.dumps(config))
    loader = millstream.Loader(file)
    for _ in zip(range(10), loader):
        pass
    assert loader.cursor is not None
    loader.cursor.save(cursor)
    said = program("digest", str(file), "--batches", "5", "--each", "--from", str(cursor))
    assert [line.split()[1] for line in said.splitlines()[:5]] == [b.digest for _, b in zip(range(5), loader)]
    program("digest", str(file), "--batches", "12", "--cursor-at", "7", str(cursor))
    resumed = millstream.Loader(file, cursor=millstream.Cursor.load(cursor))
    assert next(iter(resumed)).number == 7


def test_its_children_are_python_too(config: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    said = program("verify", str(file), "--batches", "12", "--points", "2", "--workers", "1,2", "--world", "1,2")
    assert "\nno difference\n" in said


def test_training_is_not_in_it(tmp_path: Path) -> None:
    said = program("--help")
    assert "\n  verify " in said
    for command in ("train", "report", "generate", "model", "when"):
        assert f"\n  {command} " not in said
        assert f"`{command}` is in the Rust program only" in program(command, "runs/run", code=2)
    assert "`train` is in the Rust program only" in program("--json", "train", "x.toml", code=2)
    assert "cannot read the config" in program("check", str(tmp_path / "none.toml"), code=1)


def test_a_python_without_the_gil_is_refused_with_a_reason() -> None:
    code = "import sysconfig; sysconfig.get_config_var = lambda name: 1; import millstream"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "ImportError: millstream does not support free-threaded Python" in done.stderr
