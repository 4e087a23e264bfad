"""Hugging Face datasets, streaming: a shuffle buffer, and a batched map that tokenizes and packs, in torchdata's
StatefulDataLoader, as its documentation resumes it:
https://huggingface.co/docs/datasets/stream#save-a-dataset-checkpoint-and-resume-iteration

That page says that a resume is exact but for `shuffle`: what is in the buffer is lost, and the buffer is filled with new
data. With `--in-order` there is no shuffle.
"""

import sys

import datasets
import numpy as np
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

import corpus
import millstream


def rows_of(documents):
    """Packs a group of documents. The map has no state, so a group's last ids, which fill no row, are left out."""
    ids = [number for text in documents["text"] for number in corpus.ids_of(text)]
    return {"ids": list(corpus.packed(ids))}


def stack(rows):
    return torch.from_numpy(np.stack([row["ids"] for row in rows]))


def make_loader(run):
    datasets.disable_progress_bars()
    stream = datasets.load_dataset("json", data_files=corpus.files(), split="train", streaming=True)
    if "--in-order" not in sys.argv:
        # One file at a time: with more, worker processes refuse the state that is given back (an IndexError).
        stream = stream.shuffle(seed=corpus.SEED, buffer_size=64, max_buffer_input_shards=1)
    stream = stream.map(rows_of, batched=True, batch_size=16, remove_columns=["text"])
    return StatefulDataLoader(
        stream, batch_size=corpus.BATCH // run.world, num_workers=run.workers, collate_fn=stack
    )


if __name__ == "__main__":
    corpus.show(millstream.verify(make_loader, **corpus.PLAN))
