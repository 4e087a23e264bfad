"""What the examples share: a small corpus, which is the same everywhere, its ids and rows, and how a report is shown.

The corpus is made of words that are drawn from a fixed seed: `FILES` files of JSON lines with a `text` each, of no
worth but for comparing. A byte is an id, and 256 ends a document, so that no tokenizer has to be installed. The
directory is that of the environment variable `MILLSTREAM_EXAMPLES`, or `target/verify/corpus`.
"""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
DIRECTORY = Path(os.environ.get("MILLSTREAM_EXAMPLES", ROOT / "target" / "verify" / "corpus"))

FILES = 8
DOCUMENTS = 400
"""In each file."""
SEED = 7
EOS = 256
SEQ_LEN = 128
BATCH = 8
"""Rows of a whole batch. The ranks of a world share them."""

IS_ORDER = "--order" in sys.argv
PLAN: dict[str, Any] = {"batches": 200, "points": 0 if IS_ORDER else 6, "workers": (2, 1, 3) if IS_ORDER else (2,)}
"""What is compared: so many batches after so many kills, all with two workers; with --order other numbers of workers.

A loader whose order depends on the number of workers can still resume exactly with the same number."""


def files() -> list[str]:
    """The files, which are made if they are not there."""
    paths = [DIRECTORY / f"{number}.jsonl" for number in range(FILES)]
    if not paths[-1].exists():
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        chance = random.Random(SEED)
        words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(2000)]
        for path in paths:
            texts = [" ".join(chance.choices(words, k=chance.randint(10, 150))) for _ in range(DOCUMENTS)]
            written = path.with_suffix(".new")
            written.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
            written.replace(path)
    return [str(path) for path in paths]


def texts() -> list[str]:
    """All documents, in order."""
    return [json.loads(line)["text"] for path in files() for line in open(path, encoding="utf-8")]


def ids_of(text: str) -> list[int]:
    """The ids of a document, with its end."""
    return [*text.encode(), EOS]


def packed(ids: list[int]) -> np.ndarray:
    """The ids of documents, joined and cut into rows `[rows, SEQ_LEN + 1]`. What does not fill a row is left out."""
    width = SEQ_LEN + 1
    return np.array(ids[: len(ids) // width * width], dtype=np.int32).reshape(-1, width)


def worlds(*numbers: int) -> tuple[int, ...]:
    """The numbers of ranks to compare. With --order there is one rank."""
    return (1,) if IS_ORDER else numbers


def show(report: Any) -> None:
    """Prints a report: its table, or with --json all of it."""
    print(json.dumps({**report.fields, "first": report.first_difference}) if "--json" in sys.argv else report)
    sys.exit(0 if report else 1)
