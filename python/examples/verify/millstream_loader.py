"""Millstream: texts in files, tokenized, shuffled and packed on threads. Its state is its cursor."""

import corpus
import millstream


def make_loader(run):
    return millstream.Loader(
        seed=corpus.SEED,
        source=[{"kind": "jsonl", "paths": corpus.files(), "field": "text"}],
        tokenizer={"kind": "bytes", "eos": "<|endoftext|>"},
        pipeline={
            "seq_len": corpus.SEQ_LEN,
            "batch_size": corpus.BATCH,
            "workers": run.workers,
            "rank": run.rank,
            "world": run.world,
            "epochs": 1,
        },
    )


if __name__ == "__main__":
    corpus.show(millstream.verify(make_loader, **corpus.PLAN, worlds=corpus.worlds(1, 2, 4)))
