"""Rows of a memory-mapped file, gathered by one call of numpy a batch, each once an epoch in a random order."""

import numpy as np

from harness.rows import Rows


class Loop:
    def __init__(self, work, at):
        self.rows, self.size, self.at = Rows(work), work.batch_size, at
        self.order = np.random.default_rng(work.seed).permutation(work.rows)

    def __iter__(self):
        while self.at < len(self.order):
            chosen = self.order[self.at : self.at + self.size]
            self.at += len(chosen)
            yield self.gathered(chosen)

    def gathered(self, chosen):
        return self.rows.some(chosen)

    def state(self):
        return self.at


def shards(work, state=None):
    return Loop(work, state or 0)
