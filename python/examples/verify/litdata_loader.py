"""LitData: tokens in its chunks, StreamingDataset with StreamingDataLoader and worker processes.

Its README says how to resume, and that the numbers of workers and ranks may change at a resume, without repeated
samples: https://github.com/Lightning-AI/litData#pause-resume
"""

import json
import os

import torch
from litdata import StreamingDataLoader, StreamingDataset, TokensLoader, optimize

import corpus
import millstream

CHUNKS = corpus.DIRECTORY / "litdata"


def tokens(path):
    for line in open(path, encoding="utf-8"):
        yield torch.tensor(corpus.ids_of(json.loads(line)["text"]))


def prepare():
    """Writes the tokens, some 60 rows a chunk."""
    optimize(
        fn=tokens,
        inputs=corpus.files(),
        output_dir=str(CHUNKS),
        chunk_size=60 * (corpus.SEQ_LEN + 1),
        item_loader=TokensLoader(),
        num_workers=1,
    )


def make_loader(run):
    os.environ.update(WORLD_SIZE=str(run.world), GLOBAL_RANK=str(run.rank))
    rows = TokensLoader(block_size=corpus.SEQ_LEN + 1)
    dataset = StreamingDataset(str(CHUNKS), item_loader=rows, shuffle=True, drop_last=True, seed=corpus.SEED)
    return StreamingDataLoader(dataset, batch_size=corpus.BATCH // run.world, num_workers=run.workers)


if __name__ == "__main__":
    if not (CHUNKS / "index.json").exists():
        prepare()
    corpus.show(millstream.verify(make_loader, **corpus.PLAN, worlds=corpus.worlds(1, 2)))
