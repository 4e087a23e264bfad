"""The batches of a loader for `async for`."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Future

from ._millstream import Batch, Opening, Stream

LONGEST_END = 2.0
"""How long Python's end waits for a loader that is being opened, in seconds."""

_openings: dict[threading.Thread, Opening] = {}


class Awaited:
    """The batches of a stream. Cancelling a wait loses nothing: opening goes on, and the batch stays where it is."""

    def __init__(self, open: Callable[[Opening], Stream]) -> None:
        self._open = open
        self._opening = Opening()
        self._is_open: Future[None] | None = None
        # Not in the future, which asyncio's keep: a stream has to end when nobody wants it any more.
        self._opened: list[Stream] = []
        self._turn = asyncio.Lock()

    def __aiter__(self) -> Awaited:
        return self

    async def __anext__(self) -> Batch:
        loop = asyncio.get_running_loop()
        # One task at a time: another could take the batch that this one was told of.
        async with self._turn:
            if not self._opened:
                if self._is_open is None or self._is_open.done():
                    self._opening, self._is_open = Opening(), Future()
                    _begin(self._open, self._opening, self._opened, self._is_open)
                await asyncio.wrap_future(self._is_open)
            [stream] = self._opened
            is_ready = loop.create_future()

            def tell() -> None:
                if not is_ready.done():
                    is_ready.set_result(None)

            stream.when_ready(lambda: loop.call_soon_threadsafe(tell))
            await is_ready
            try:
                return next(stream)
            except StopIteration:
                raise StopAsyncIteration from None

    def __del__(self) -> None:
        self._opening.end()


def _begin(open: Callable[[Opening], Stream], opening: Opening, opened: list[Stream], is_open: Future[None]) -> None:
    """Opens a stream on a thread of its own. asyncio's executor would not do: its end waits for what it runs."""
    is_open.set_running_or_notify_cancel()

    def work() -> None:
        try:
            opened.append(open(opening))
            is_open.set_result(None)
        except BaseException as error:
            is_open.set_exception(error)
        _openings.pop(thread)

    thread = threading.Thread(target=work, name="millstream-opening", daemon=True)
    _openings[thread] = opening
    thread.start()


@atexit.register
def _give_up() -> None:
    """Ends all that is being opened. It was registered after the loader's `close_all`, so Python calls it before."""
    pending = list(_openings.items())
    for _, opening in pending:
        opening.end()
    for thread, _ in pending:
        thread.join(LONGEST_END)
