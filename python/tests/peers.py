"""What the comparisons with other trainers share: a tokenizer, records, and the rows that a trainer would get."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import millstream

ROOT = Path(__file__).resolve().parents[2]
START, END = "<|begin_of_text|>", "<|im_end|>"
# Tokens that are not special, as in the tokenizers of Qwen3.
ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]

Record = dict[str, Any]
Row = tuple[list[int], list[int]]
"""The ids and the labels of a document."""


def read(path: str) -> list[Record]:
    """The records of one of the repository's files of JSON lines."""
    return [json.loads(line) for line in (ROOT / path).read_bytes().splitlines()]


def write(path: Path, records: Iterable[Record]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def train_tokenizer(path: Path, special: Iterable[str]) -> None:
    """Learns a byte-level tokenizer from the repository's conversations."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokens = [AddedToken(token, special=True) for token in sorted({START, END, *special})]
    tokens += [AddedToken(token, special=False) for token in ADDED]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1200, special_tokens=tokens, initial_alphabet=alphabet, show_progress=False)
    texts = [(ROOT / path).read_text(encoding="utf-8") for path in ("configs/chat.jsonl", "tests/data/chats.jsonl")]
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(path))


def config(path: Path, tokenizer: Path, task: str | None = "chat", **chat: Any) -> dict[str, Any]:
    """One document a row, in the order of the file."""
    source = {"kind": "jsonl", "paths": [str(path)], **({"task": task, "chat": chat} if task else {"field": "text"})}
    pipeline = {"lanes": 1, "window": 1, "shuffle_splits": False, "epochs": 1}
    return {
        "source": [source],
        "tokenizer": {"path": str(tokenizer), "eos": END},
        "pipeline": {**pipeline, "pack": "pad", "seq_len": 8191, "batch_size": 4},
    }


def rows(config: dict[str, Any]) -> list[Row]:
    """The ids and labels of all rows, without what fills them up."""
    from millstream.torch import Dataset

    found: list[Row] = []
    for batch, tensors in zip(millstream.Loader(config), Dataset(config, format="hf"), strict=True):
        for length, ids, labels in zip(np.asarray(batch.lengths).tolist(), tensors["input_ids"], tensors["labels"]):
            assert (labels[length:] == -100).all()
            found.append((ids[:length].tolist(), labels[:length].tolist()))
    return found


def learned(row: Row) -> list[bool]:
    return [label != -100 for label in row[1]]


def runs(encoder: Any, one: Row, other: Row) -> set[str]:
    """The texts that are learned from in one row, and not in the other."""
    flags = "".join(str(int(a and not b)) for a, b in zip(learned(one), learned(other), strict=True))
    return {encoder.decode(one[0][run.start() : run.end()]) for run in re.finditer("1+", flags)}


def shown(tokenizer: Any, row: Row) -> str:
    """The text of a row, with brackets around what is learned from."""
    text, was = "", False
    for id, label in zip(*row, strict=True):
        text += ("⟦" if label != -100 else "⟧") * (was != (label != -100)) + tokenizer.decode([id])
        was = label != -100
    return text + "⟧" * was
