"""Reading, shuffling and grouping documents, for loaders that bring nothing of their own for it."""

import itertools
import random

import orjson

# Some 128 KiB of documents of 2 KiB: enough to be worth a call, few enough for the first batch to come soon.
GROUP = 64


def documents(files):
    """The texts of files of JSON lines."""
    for path in files:
        with open(path, "rb") as file:
            for line in file:
                yield orjson.loads(line)["text"]


def shuffled(texts, window, seed):
    """A buffer of `window` texts; a random one leaves as another comes."""
    draw, texts = random.Random(seed), iter(texts)
    held = list(itertools.islice(texts, window))
    for text in texts:
        place = int(draw.random() * window)
        yield held[place]
        held[place] = text
    draw.shuffle(held)
    yield from held


def groups(texts, size=GROUP):
    """Lists of `size` texts; the last one is shorter."""
    texts = iter(texts)
    while group := list(itertools.islice(texts, size)):
        yield group
