"""Grain: documents by number, shuffled over the whole epoch, tokenized in worker processes, then packed and batched.

The state is the iterator's, `get_state()` and `set_state()`:
https://google-grain.readthedocs.io/en/latest/tutorials/dataset_advanced_tutorial.html#checkpointing
Packing comes after `mp_prefetch`, so that the number of workers does not matter, as its documentation advises:
https://google-grain.readthedocs.io/en/latest/grain.dataset.html#grain.IterDataset.mp_prefetch

With `--elastic` it runs in an ElasticIterator instead, whose state any number of ranks can load. That takes only steps
that make one record of one, so each document is cut or filled up to a row. It is experimental:
https://google-grain.readthedocs.io/en/latest/grain.experimental.html
"""

import sys

import grain
import numpy as np

import corpus
import millstream

IS_ELASTIC = "--elastic" in sys.argv


def ids(text):
    return {"ids": np.array(corpus.ids_of(text), dtype=np.int32)}


def one_row(text):
    row = corpus.ids_of(text)[: corpus.SEQ_LEN + 1]
    return {"ids": np.array(row + [corpus.EOS] * (corpus.SEQ_LEN + 1 - len(row)), dtype=np.int32)}


def make_loader(run):
    documents = grain.MapDataset.source(corpus.texts()).shuffle(seed=corpus.SEED)
    workers = grain.MultiprocessingOptions(num_workers=run.workers)
    shard = grain.sharding.ShardOptions(shard_index=run.rank, shard_count=run.world)
    if IS_ELASTIC:
        rows = documents.map(one_row)
        return grain.experimental.ElasticIterator(rows, corpus.BATCH, shard, multiprocessing_options=workers)
    stream = documents[run.rank :: run.world].map(ids).to_iter_dataset().mp_prefetch(workers)
    rows = grain.experimental.ConcatThenSplitIterDataset(stream, length_struct={"ids": corpus.SEQ_LEN + 1})
    return rows.batch(corpus.BATCH // run.world, drop_remainder=True)


if __name__ == "__main__":
    plan = {**corpus.PLAN, "worlds": corpus.worlds(1, 2)} if IS_ELASTIC else corpus.PLAN
    corpus.show(millstream.verify(make_loader, **plan))
