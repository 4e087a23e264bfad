"""nanochat's way: Parquet files of documents that were shuffled before, read by row groups; batches of 128 documents,
encoded on threads, each with a token in front; rows cut from the one run of ids that this makes.

This is its older form, with arrays in place of lists. Its newer form fills each row with the documents that fit best, and
crops the shortest one where none fits: the ids behind the cut are lost, which would be other work. The state names the
row group that was read last, and a resume begins with the next one."""

import itertools
import os
import random

import numpy as np
import pyarrow
import pyarrow.parquet

from harness import text
from harness.work import packed

GROUP, ROW_GROUP = 128, 1024


def prepare(work):
    """As many Parquet files as there are of lines, with the same documents in a random order."""
    texts = list(text.documents(work.files))
    random.Random(work.seed).shuffle(texts)
    os.makedirs(work.parquet, exist_ok=True)
    part = -(-len(texts) // len(work.files))
    for number in range(len(work.files)):
        table = pyarrow.table({"text": texts[number * part : (number + 1) * part]})
        pyarrow.parquet.write_table(
            table,
            os.path.join(work.parquet, f"{number:05}.parquet"),
            row_group_size=ROW_GROUP,
            use_dictionary=False,
            write_statistics=False,
            compression="zstd",
            compression_level=3,
        )


class Loader:
    def __init__(self, work, engine, state):
        self.work, self.engine = work, engine
        self.read = state or (0, -1)  # a file and a row group of it, by their numbers

    def __iter__(self):
        work = self.work
        # The engine puts the token behind each document: with one before the first it stands in front of all of them,
        # and the last is that of the next epoch.
        begin = np.array([work.eos], dtype=np.int32)
        runs = (self.engine.encode_on(work.workers, texts) for texts in self.texts())
        return packed(itertools.chain([begin], runs), work)

    def texts(self):
        names, (begin, last) = sorted(os.listdir(self.work.parquet)), self.read
        for number in range(begin, len(names)):
            file = pyarrow.parquet.ParquetFile(os.path.join(self.work.parquet, names[number]))
            for row_group in range(last + 1, file.num_row_groups):
                self.read = number, row_group
                texts = file.read_row_group(row_group, columns=["text"]).column("text").to_pylist()
                yield from text.groups(texts, GROUP)
            last = -1

    def state(self):
        return self.read


def online(work, engine, state=None):
    return Loader(work, engine, state)
