"""How cursors are pickled."""

from __future__ import annotations

import zlib

from ._millstream import Cursor


def unpickle(packed: bytes) -> Cursor:
    """The cursor that was pickled as compressed JSON."""
    return Cursor.from_json(zlib.decompress(packed).decode())
