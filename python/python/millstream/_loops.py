"""Tracks how far a Dataset's loops have read. `Loops`: each loop reads the whole stream. `Epochs`: each reads `length`
batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ._loader import Loader
from ._millstream import Batch, Cursor, Stream
from ._ranks import dealt_by_accelerate


class Position(NamedTuple):
    """What was consumed."""

    cursor: Cursor | None = None
    has_ended: bool = False
    """Whether the stream's end was seen."""
    epochs: int = 0
    """How many epochs of a length are over."""
    is_next: bool = False
    """Whether the next loop begins here, because no loop has begun since this was given or loaded."""

    @property
    def batch(self) -> int:
        return 0 if self.cursor is None else self.cursor.batch

    def counted(self, length: int) -> Position:
        """The same place, with the epochs of a length before it."""
        return self._replace(epochs=self.batch // length)


class Loops:
    """Loops that each begin at the start of the stream, unless a position was given or loaded for the next one."""

    def __init__(self, loader: Loader, position: Position) -> None:
        # The one that was opened last: it has the meters, and is closed.
        self.loader = loader
        # Replaced as a whole, before each batch is handed out.
        self.position = position

    def at(self, position: Position) -> Loops:
        """The loops from a position that was loaded. A loop that is already running no longer moves the position."""
        return Loops(self.loader, position)

    def start_over_if_due(self) -> None:
        """Goes to the start, unless the next loop goes on."""
        if self.position.has_ended or not self.position.is_next:
            self.position = self.position._replace(cursor=None, has_ended=False)

    def begin(self) -> None:
        """Begins a loop, and says where."""
        self.start_over_if_due()
        self.position = self.position._replace(is_next=False)

    def batches(self) -> Iterator[Batch]:
        """The batches of the loop that has begun."""
        cursor = self.position.cursor
        stream = self._opened(cursor)
        batch = next(stream, None)
        if batch is None and cursor is not None and not stream.was_closed():
            # The state was saved after the last batch, before the end was seen.
            stream = self._opened(None)
            batch = next(stream, None)
        while batch is not None:
            self.position = Position(batch.cursor, epochs=self.position.epochs)
            yield batch
            batch = next(stream, None)
        if not stream.was_closed():
            self.position = self.position._replace(has_ended=True)

    def _opened(self, cursor: Cursor | None) -> Stream:
        self.loader = loader = self.loader._resumed(cursor)
        if dealt_by_accelerate() and not loader._names_rank():
            raise RuntimeError(
                "Accelerate runs in several processes. If it prepares your DataLoader, as Trainer does, it deals the "
                'batches out itself: set pipeline={"world": 1}, so that the dataset is the whole stream, and batch_size '
                'to the rows of one process. If it does not, set pipeline={"rank": ..., "world": ...}.'
            )
        return loader._open()

    def __getstate__(self) -> dict[str, Any]:
        # A copy goes on at the same place.
        position = self.position
        is_within = position.cursor is not None and not position.has_ended
        return {**self.__dict__, "position": position._replace(is_next=position.is_next or is_within)}


class Epochs(Loops):
    """Loops that follow each other, each up to the next multiple of `length` batches."""

    def __init__(self, loader: Loader, position: Position, length: int) -> None:
        super().__init__(loader, position)
        self.length = length
        # What is open at the position: the next epoch need not open it again.
        self._stream: Stream | None = None
        # The epoch of the stream that was asked for, until it begins.
        self._asked: int | None = None
        # The offset from the caller's epoch numbers to ours; the caller may count from 0 after a resume.
        self._shift = 0

    def at(self, position: Position) -> Loops:
        loops = Epochs(self.loader, position, self.length)
        if self._asked is not None:
            # Accelerate says the epoch before it loads the state.
            loops._shift = position.epochs - (self._asked - self._shift)
        # A loop that has begun ends with its batch, and reads nothing ahead until then.
        self._stream = None
        return loops

    def go_to(self, position: Position) -> None:
        self.position, self._stream = position, None

    def ask(self, epoch: int) -> None:
        """Makes the next loop number `epoch`. If it goes on at a position, that sets the offset from the caller's epoch
        numbers to ours instead; the caller may count from 0 after a resume."""
        if self.position.is_next:
            self._shift = self.position.epochs - epoch
        else:
            self._asked = epoch + self._shift

    def start_over_if_due(self) -> None:
        if self.position.has_ended:
            super().start_over_if_due()

    def batches(self) -> Iterator[Batch]:
        if self._stream is not None and self._stream.is_closed():
            self._stream = None
        if self._asked is not None:
            self._skip_to(self._asked)
            self._asked = None
        yield from self._rest()

    def _skip_to(self, epoch: int) -> None:
        """Goes to the beginning of an epoch, unless it begins here, by reading what comes before."""
        is_within = self.position.batch % self.length > 0
        if epoch < self.position.epochs or epoch == self.position.epochs and is_within:
            self.go_to(Position())
        while self.position.epochs < epoch:
            for _ in self._rest(epoch):
                pass
            self.start_over_if_due()

    def _rest(self, until: int | None = None) -> Iterator[Batch]:
        """Up to the next multiple of `length`, or to the stream's end; from the start if that is here already, unless it is
        the beginning of the epoch `until`."""
        batch = self._next()
        if self.position.has_ended:
            # The state was saved after the last batch, before the end was seen; or an epoch ended with the stream.
            self.position = Position(epochs=self.position.epochs + (self.position.batch % self.length > 0))
            if self.position.epochs == until:
                return
            batch = self._next()
        while batch is not None:
            is_last = batch.cursor.batch % self.length == 0
            self.position = Position(batch.cursor, epochs=self.position.epochs + is_last)
            yield batch
            if is_last:
                return
            batch = self._next()
        if self.position.has_ended:
            self.position = self.position._replace(epochs=self.position.epochs + 1)

    def _next(self) -> Batch | None:
        """The batch at the position. At the end of the stream, the position says so; after a `close` it does not."""
        stream = self._stream or self._opened(self.position.cursor)
        # After an error, a later loop opens it again, at the same batch.
        self._stream = None
        batch = next(stream, None)
        if batch is not None:
            self._stream = stream
        elif not stream.was_closed():
            self.position = self.position._replace(has_ended=True)
        return batch

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_stream": None}
