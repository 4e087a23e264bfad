"""torchdata's nodes, on threads. A resume reads and shuffles the text again up to its place, without tokenizing it."""

import numpy as np
from torch.utils.data import RandomSampler
import torch
from torchdata import nodes

from harness import text
from harness.rows import Rows
from harness.work import padded, rows_of


class Pack(nodes.BaseNode):
    """Joins runs of ids and cuts them into batches; what is held is its state."""

    def __init__(self, source, work):
        super().__init__()
        self.source, self.work = source, work

    def reset(self, initial_state=None):
        super().reset(initial_state)
        state = initial_state or {}
        self.source.reset(state.get("source"))
        self.held = state.get("held", np.empty(0, dtype=np.int32))

    def next(self):
        step, seq_len = self.work.batch_size * self.work.seq_len, self.work.seq_len
        runs, count = [self.held], len(self.held)
        while count <= step:
            try:
                runs.append(next(self.source))
            except StopIteration:
                break
            count += len(runs[-1])
        joined = np.concatenate(runs) if len(runs) > 1 else self.held
        if len(joined) < 2:
            raise StopIteration
        if count <= step:
            joined = padded(joined, seq_len, self.work.eos)
        self.held = joined[step:]
        return rows_of(joined[: step + 1], seq_len)

    def get_state(self):
        return {"source": self.source.state_dict(), "held": self.held.copy()}


class Texts:
    """The shuffled documents, anew each time."""

    def __init__(self, work):
        self.work = work

    def __iter__(self):
        return text.shuffled(text.documents(self.work.files), self.work.window, self.work.seed)


class Loader(nodes.Loader):
    def state(self):
        return self.state_dict()


def loader(node, state):
    made = Loader(node, restart_on_stop_iteration=False)
    if state is not None:
        made.load_state_dict(state)
    return made


def online(work, engine, state=None):
    node = nodes.Batcher(nodes.IterableWrapper(Texts(work)), text.GROUP, drop_last=False)
    node = nodes.ParallelMapper(node, lambda group: engine.encode_on(1, group), num_workers=work.workers)
    return loader(nodes.Prefetcher(Pack(node, work), prefetch_factor=4), state)


def shards(work, state=None):
    rows = Rows(work)
    sampler = RandomSampler(range(len(rows)), generator=torch.Generator().manual_seed(work.seed))
    node = nodes.Batcher(nodes.SamplerWrapper(sampler), work.batch_size, drop_last=False)
    node = nodes.ParallelMapper(node, rows.some, num_workers=work.workers)
    return loader(nodes.Prefetcher(node, prefetch_factor=4), state)
