"""SPDL: a pipeline on threads. It keeps no state of its own, so a resume passes over what was seen."""

import numpy as np
from spdl.pipeline import PipelineBuilder

from harness import text
from harness.rows import Rows
from harness.work import packed


class Loader:
    def __init__(self, pipeline, finish):
        self.pipeline, self.finish = pipeline, finish

    def __iter__(self):
        with self.pipeline.auto_stop():
            yield from self.finish(self.pipeline.get_iterator())


def pipeline(work, items, function, ahead):
    builder = PipelineBuilder().add_source(items)
    builder = builder.pipe(function, concurrency=work.workers, output_order="input")
    return builder.add_sink(ahead).build(num_threads=work.workers)


def online(work, engine, state=None):
    del state
    texts = text.shuffled(text.documents(work.files), work.window, work.seed)
    encoded = pipeline(work, text.groups(texts), lambda group: engine.encode_on(1, group), ahead=8)
    return Loader(encoded, lambda runs: packed(runs, work))


def shards(work, state=None):
    del state
    rows, order = Rows(work), np.random.default_rng(work.seed).permutation(work.rows)
    batches = (order[at : at + work.batch_size] for at in range(0, len(order), work.batch_size))
    return Loader(pipeline(work, batches, rows.some, ahead=8), iter)
