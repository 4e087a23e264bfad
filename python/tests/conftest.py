"""What the tests share: a corpus on disk, and how to wait."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

DEADLINE = 60.0

# No test reaches the network. Set before anything of Hugging Face is imported.
os.environ["HF_HUB_OFFLINE"] = "1"

# What is not installed is not tested, unless it is named here.
for package in os.environ.get("MILLSTREAM_REQUIRE_PACKAGES", "").split():
    importlib.import_module(package)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two files of JSON lines, 400 documents each, all different."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for file in range(2):
        lines = (json.dumps({"text": f"file {file}, document {n}: " + f"word{n % 17} " * (n % 23)}) for n in range(400))
        (folder / f"{file}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def day(monkeypatch: pytest.MonkeyPatch) -> str:
    """Today for transformers: some templates write the date."""

    class Today(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Today:
            return cls(2026, 11, 28)

    monkeypatch.setattr("transformers.utils.chat_template_utils.datetime", Today)
    return "2026-11-28"


@pytest.fixture
def config(corpus: Path) -> dict[str, Any]:
    """One epoch of the corpus, as bytes, in small rows."""
    return {
        "source": [{"kind": "jsonl", "paths": [str(corpus / "*.jsonl")], "field": "text"}],
        "tokenizer": {"kind": "bytes", "eos": "<|endoftext|>"},
        "pipeline": {"seq_len": 64, "batch_size": 8, "lanes": 4, "window": 64, "epochs": 1},
    }


def threads() -> int:
    """The number of this process's threads."""
    return len(os.listdir("/proc/self/task"))


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Waits for what must come, however busy the machine is."""
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end, f"{what} did not come in {DEADLINE} s"
        time.sleep(0.01)
