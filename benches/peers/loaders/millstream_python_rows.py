"""Millstream's wheel on finished rows."""

from .millstream_python import Loader


def shards(work, state=None):
    return Loader(work.stored_rows, state)
