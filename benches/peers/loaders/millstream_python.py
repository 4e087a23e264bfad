"""Millstream's wheel, by the configs that its program reads. Its state is the cursor of the last batch, as JSON."""

import millstream
import numpy as np


class Loader:
    def __init__(self, config, state):
        cursor = None if state is None else millstream.Cursor.from_json(state)
        self.loader = millstream.Loader(config, cursor=cursor)

    def __iter__(self):
        for batch in self.loader:
            yield np.asarray(batch.ids)

    def state(self):
        return self.loader.cursor.to_json()


def online(work, engine=None, state=None):
    del engine
    return Loader(work.online, state)


def shards(work, state=None):
    return Loader(work.shards, state)
