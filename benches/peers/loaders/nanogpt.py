"""nanoGPT's loop: rows of a memory-mapped file, cut out one by one as int64 and stacked. Its own draws rows with
replacement at any place; here each comes once an epoch, so that the work is that of the others."""

import numpy as np

from loaders.memmap import Loop


class Stacked(Loop):
    def gathered(self, chosen):
        return np.stack([self.rows.rows[row].astype(np.int64) for row in chosen])


def shards(work, state=None):
    return Stacked(work, state or 0)
