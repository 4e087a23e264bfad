"""LitData, over rows that were written to its chunks as tokens, with its own loader on worker processes."""

import numpy as np
import torch
from litdata import StreamingDataLoader, StreamingDataset, TokensLoader
from litdata.streaming.writer import BinaryWriter

from harness.rows import Rows


def prepare(work):
    width = work.seq_len + 1
    loader = TokensLoader(block_size=width)
    out = BinaryWriter(work.litdata, chunk_size=width * (1 << 14), item_loader=loader)
    for number, row in enumerate(Rows(work).rows):
        out.add_item(number, torch.from_numpy(row.astype(np.int32)))
    out.done()
    out.merge()


class Loader(StreamingDataLoader):
    def state(self):
        return self.state_dict()


def shards(work, state=None):
    dataset = StreamingDataset(
        work.litdata, item_loader=TokensLoader(block_size=work.seq_len + 1), shuffle=True, seed=work.seed
    )
    loader = Loader(dataset, batch_size=work.batch_size, num_workers=work.workers, prefetch_factor=4)
    if state is not None:
        loader.load_state_dict(state)
    return loader
