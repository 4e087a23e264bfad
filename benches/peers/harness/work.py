"""The work that all loaders do, and how it is told whether they did the same."""

import hashlib
import json
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Work:
    """The same for all loaders. Lengths are in ids, sizes in documents or rows."""

    files: list  # of JSON lines, {"text": ...}
    tokenizer: str  # tokenizer.json
    eos: int  # stands after each document
    ids: str  # a file of u16: all documents in order, padded with eos to whole rows that overlap by one id
    rows: int  # in that file
    mds: str  # the rows as MosaicML's shards
    litdata: str  # the rows as LitData's chunks
    parquet: str  # the documents as Parquet
    millstream: str  # the program
    online: str  # its config for the text
    shards: str  # and for the ids
    window: int
    seq_len: int
    batch_size: int
    workers: int
    seed: int

    @staticmethod
    def load(path):
        with open(path, encoding="utf-8") as file:
            return Work(**json.load(file))

    @property
    def batches(self):
        """In an epoch."""
        return -(-self.rows // self.batch_size)


def rows_of(ids, seq_len):
    """All whole rows of a run of ids: `[rows, seq_len + 1]`, each beginning with the last id of the one before."""
    windows = np.lib.stride_tricks.sliding_window_view(ids, seq_len + 1)[::seq_len]
    return np.ascontiguousarray(windows)


def padded(ids, seq_len, eos):
    """The ids, and as many eos as make the last row whole."""
    return np.pad(ids, (0, -(len(ids) - 1) % seq_len), constant_values=eos)


def packed(groups, work):
    """Batches of the ids of groups of documents, joined. The last one has fewer rows."""
    step = work.batch_size * work.seq_len
    held, count = [], 0
    for ids in groups:
        held.append(ids)
        count += len(ids)
        if count <= step:
            continue
        joined, at = np.concatenate(held), 0
        while len(joined) - at > step:
            yield rows_of(joined[at : at + step + 1], work.seq_len)
            at += step
        held, count = [joined[at:]], len(joined) - at
    if count > 1:
        yield rows_of(padded(np.concatenate(held), work.seq_len, work.eos), work.seq_len)


class Tally:
    """Counts and a checksum that do not depend on the order of documents, but on that of the ids in each.

    A row's pairs of neighbours are an input and its target, and rows overlap by one id, so that every pair of
    neighbours of the packed stream stands in exactly one row. Pairs behind an eos are of two documents, or padding, and
    are left out. What is left is each document's ids and its end, once.
    """

    def __init__(self, eos):
        self.eos, self.documents, self.tokens, self.sum = eos, 0, 0, 0

    def add(self, batch):
        batch = np.asarray(batch).astype(np.uint64)
        self.add_pairs(batch[:, :-1].ravel(), batch[:, 1:].ravel())

    def add_pairs(self, first, second):
        inside = first != self.eos
        first, second = first[inside], second[inside]
        mixed = (first << np.uint64(32) | second) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
        self.tokens += len(first)
        self.documents += int(np.count_nonzero(second == self.eos))
        self.sum = (self.sum + int(mixed.sum())) % 2**64

    def result(self):
        return {"documents": self.documents, "tokens": self.tokens, "checksum": f"{self.sum:016x}"}


def digest(batch):
    """Of the ids of one batch, in their order."""
    return hashlib.blake2b(np.ascontiguousarray(batch, dtype=np.int32).tobytes(), digest_size=8).hexdigest()
