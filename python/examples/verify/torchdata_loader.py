"""torchdata's StatefulDataLoader, over an IterableDataset that reads, tokenizes and packs, with worker processes.

The dataset says and takes its own state, as the tutorial recommends for iterable datasets, and reads the files of its
worker and rank: https://pytorch.org/data/0.11/stateful_dataloader_tutorial.html
The loader saves the state of each worker with each batch (`snapshot_every_n_steps=1`), for as many workers as there
were, and for one rank: https://pytorch.org/data/0.11/torchdata.stateful_dataloader.html
"""

import json

import torch
from torch.utils.data import IterableDataset, get_worker_info
from torchdata.stateful_dataloader import StatefulDataLoader

import corpus
import millstream


class Rows(IterableDataset):
    """Rows of the documents of each world-th file. Each worker has its part of these."""

    def __init__(self, run):
        self.run = run
        self.file, self.line, self.held = 0, 0, []

    def __iter__(self):
        worker = get_worker_info()
        workers, number = (worker.num_workers, worker.id) if worker else (1, 0)
        files = corpus.files()[self.run.rank * workers + number :: self.run.world * workers]
        while self.file < len(files):
            with open(files[self.file], encoding="utf-8") as lines:
                for line in list(lines)[self.line :]:
                    self.line += 1
                    self.held += corpus.ids_of(json.loads(line)["text"])
                    while len(self.held) > corpus.SEQ_LEN:
                        row, self.held = self.held[: corpus.SEQ_LEN + 1], self.held[corpus.SEQ_LEN + 1 :]
                        yield torch.tensor(row)
            self.file, self.line = self.file + 1, 0

    def state_dict(self):
        return {"file": self.file, "line": self.line, "held": list(self.held)}

    def load_state_dict(self, state):
        self.file, self.line, self.held = state["file"], state["line"], state["held"]


def make_loader(run):
    return StatefulDataLoader(Rows(run), batch_size=corpus.BATCH // run.world, num_workers=run.workers)


if __name__ == "__main__":
    corpus.show(millstream.verify(make_loader, **corpus.PLAN))
