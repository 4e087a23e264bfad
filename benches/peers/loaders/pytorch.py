"""PyTorch's DataLoader. From text: worker processes with a part of the files each, which make whole batches, so that
one tensor crosses and not sixteen. From ids: a dataset of rows, read sixteen at a time."""

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from torchdata.stateful_dataloader import StatefulDataLoader

from harness import text
from harness.rows import Rows
from harness.work import packed


class Batches(IterableDataset):
    def __init__(self, work, engine):
        self.work, self.engine = work, engine

    def __iter__(self):
        worker, work = get_worker_info(), self.work
        files = work.files[worker.id :: worker.num_workers]
        texts = text.shuffled(text.documents(files), work.window, work.seed + worker.id)
        encode = lambda group: self.engine.encode_on(1, group)
        return map(torch.from_numpy, packed(map(encode, text.groups(texts)), work))


def online(work, engine, state=None):
    del state
    return DataLoader(Batches(work, engine), batch_size=None, num_workers=work.workers, prefetch_factor=4)


class TokenRows(Dataset):
    def __init__(self, work):
        self.rows = Rows(work)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, row):
        return self.rows[row]

    def __getitems__(self, rows):
        return self.rows.some(rows)


class Resumable(StatefulDataLoader):
    """torchdata's loader of the same interface, which can say where it is."""

    def state(self):
        return self.state_dict()


def shards(work, state=None):
    loader = Resumable(
        TokenRows(work),
        batch_size=work.batch_size,
        shuffle=True,
        num_workers=work.workers,
        prefetch_factor=4,
        collate_fn=torch.from_numpy,
        generator=torch.Generator().manual_seed(work.seed),
    )
    if state is not None:
        loader.load_state_dict(state)
    return loader
