"""MosaicML Streaming, over rows that were written to its shards, with its own loader on worker processes."""

import numpy as np
import torch
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

from harness.rows import Rows


def prepare(work):
    with MDSWriter(out=work.mds, columns={"ids": f"ndarray:uint16:{work.seq_len + 1}"}) as out:
        for row in Rows(work).rows:
            out.write({"ids": np.ascontiguousarray(row)})


class Loader(StreamingDataLoader):
    def state(self):
        return self.state_dict()


def stack(rows):
    return torch.from_numpy(np.stack([row["ids"] for row in rows]).astype(np.int32))


def shards(work, state=None):
    clean_stale_shared_memory()
    dataset = StreamingDataset(
        local=work.mds, shuffle=True, shuffle_seed=work.seed, batch_size=work.batch_size, num_canonical_nodes=1
    )
    loader = Loader(
        dataset, batch_size=work.batch_size, num_workers=work.workers, prefetch_factor=4, collate_fn=stack
    )
    if state is not None:
        loader.load_state_dict(state)
    return loader
