"""One Python loop: read, shuffle, encode on two threads, pack. Nothing runs ahead."""

from functools import partial

from harness import text
from harness.work import packed


def online(work, engine, state=None):
    del state
    texts = text.shuffled(text.documents(work.files), work.window, work.seed)
    return packed(map(partial(engine.encode_on, work.workers), text.groups(texts)), work)
