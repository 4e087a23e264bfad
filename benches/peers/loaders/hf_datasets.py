"""Hugging Face datasets, streaming: a shuffle buffer, a batched map that tokenizes and cuts rows, and torchdata's
StatefulDataLoader over it with worker processes, which datasets' own documentation resumes with.

The map has no state and sees no end, so it pads the last row of each of its batches: 0.3% of the ids."""

import datasets
import numpy as np
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from harness.work import padded, rows_of

GROUP = 256


class Loader(StatefulDataLoader):
    def state(self):
        return self.state_dict()


def online(work, engine, state=None):
    def rows(documents):
        ids = engine.encode_on(1, documents["text"])
        return {"ids": list(rows_of(padded(ids, work.seq_len, work.eos), work.seq_len))}

    def stack(rows):
        return torch.from_numpy(np.stack([row["ids"] for row in rows]))

    datasets.disable_progress_bars()
    stream = datasets.load_dataset("json", data_files=work.files, split="train", streaming=True)
    # Of one file at a time: with more, a state that is given back to worker processes is refused (an IndexError).
    stream = stream.shuffle(seed=work.seed, buffer_size=work.window, max_buffer_input_shards=1)
    stream = stream.map(rows, batched=True, batch_size=GROUP, remove_columns=["text"])
    loader = Loader(stream, batch_size=work.batch_size, num_workers=work.workers, prefetch_factor=4, collate_fn=stack)
    if state is not None:
        loader.load_state_dict(state)
    return loader
