"""gigatoken, the fastest tokenizer that Python has, in a loop of its own: lines drawn from a window in groups, parsed and
encoded on two threads, each with its tokenizer, and rows that are views of the ids.

It goes through groups so that neither Python's lock nor calls of numpy for each document hold it back."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import orjson

GROUP = 256


def lines(files):
    for path in files:
        with open(path, "rb") as file:
            yield from file


def drawn(items, window, seed):
    """Groups out of a window of items: a group's places are drawn at once, and the next items fill them."""
    draw, items = np.random.default_rng(seed), iter(items)
    held = list(islice(items, window))
    while coming := list(islice(items, min(GROUP, window))):
        places = draw.choice(len(held), len(coming), replace=False).tolist()
        yield [held[place] for place in places]
        for place, item in zip(places, coming):
            held[place] = item
    draw.shuffle(held)
    for at in range(0, len(held), GROUP):
        yield held[at : at + GROUP]


def ahead(function, items, threads):
    """The results for all items in their order, with a few under way."""
    with ThreadPoolExecutor(threads) as pool:
        under_way = deque()
        for item in items:
            under_way.append(pool.submit(function, item))
            if len(under_way) > threads + 1:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def batches(groups, work):
    """Batches of rows of the groups' ids, joined. They are views."""
    held, width = np.empty(0, dtype=np.int32), work.seq_len + 1
    for ids in groups:
        held = np.concatenate((held, ids))
        if len(held) < width:
            continue
        rows = np.lib.stride_tricks.sliding_window_view(held, width)[:: work.seq_len]
        whole = len(rows) // work.batch_size * work.batch_size
        for at in range(0, whole, work.batch_size):
            yield rows[at : at + work.batch_size]
        held = held[whole * work.seq_len :]
    if len(held) > 1:
        held = np.pad(held, (0, -(len(held) - 1) % work.seq_len), constant_values=work.eos)
        yield np.lib.stride_tricks.sliding_window_view(held, width)[:: work.seq_len]


def online(work, engine, state=None):
    del state

    def encode(group):
        return engine.encode([orjson.loads(line)["text"] for line in group])

    groups = drawn(lines(work.files), work.window, work.seed)
    return batches(ahead(encode, groups, work.workers), work)
