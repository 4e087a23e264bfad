"""Rows of a memory-mapped file of ids, as nanoGPT has it: u16, nothing else."""

import numpy as np


class Rows:
    """Overlapping rows of `seq_len + 1` ids, by number."""

    def __init__(self, work):
        ids = np.memmap(work.ids, dtype=np.uint16, mode="r")
        self.rows = np.lib.stride_tricks.sliding_window_view(ids, work.seq_len + 1)[:: work.seq_len]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, row):
        return self.rows[row].astype(np.int32)

    def some(self, numbers):
        """Several of them, as one array."""
        return self.rows[numbers].astype(np.int32)
