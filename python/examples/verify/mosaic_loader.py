"""MosaicML Streaming: rows in its shards, StreamingDataset with StreamingDataLoader and worker processes.

Both are needed for a resume, as its documentation says:
https://docs.mosaicml.com/projects/streaming/en/stable/distributed_training/fast_resumption.html
Other numbers of ranks need the same `num_canonical_nodes`, and a whole batch of the same size:
https://docs.mosaicml.com/projects/streaming/en/stable/distributed_training/elastic_determinism.html
"""

import os

import numpy as np
import torch
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

import corpus
import millstream

SHARDS = corpus.DIRECTORY / "mds"


def prepare():
    """Writes the rows, some 60 a shard."""
    ids = [number for text in corpus.texts() for number in corpus.ids_of(text)]
    with MDSWriter(
        out=str(SHARDS), columns={"ids": f"ndarray:uint16:{corpus.SEQ_LEN + 1}"}, size_limit=1 << 14
    ) as out:
        for row in corpus.packed(ids):
            out.write({"ids": np.ascontiguousarray(row, dtype=np.uint16)})


def stack(rows):
    return torch.from_numpy(np.stack([row["ids"] for row in rows]).astype(np.int64))


def join(run):
    """What a launcher sets. The ranks meet at a port that follows from their parent."""
    ranks = {"RANK": run.rank, "LOCAL_RANK": run.rank, "WORLD_SIZE": run.world, "LOCAL_WORLD_SIZE": run.world}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 20000 + os.getppid() % 20000}
    os.environ.update({name: str(value) for name, value in {**ranks, **meeting}.items()})
    if run.world > 1:
        torch.distributed.init_process_group("gloo")


def make_loader(run):
    join(run)
    clean_stale_shared_memory()
    size = corpus.BATCH // run.world
    dataset = StreamingDataset(
        local=str(SHARDS), shuffle=True, shuffle_seed=corpus.SEED, batch_size=size, num_canonical_nodes=2
    )
    return StreamingDataLoader(dataset, batch_size=size, num_workers=run.workers, collate_fn=stack)


if __name__ == "__main__":
    if not SHARDS.exists():
        prepare()
    corpus.show(millstream.verify(make_loader, **corpus.PLAN, worlds=corpus.worlds(1, 2)))
