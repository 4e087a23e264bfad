"""The child's side of `verify`, for any loader in Python: it reads batches as ordered, and logs each of them.

Orders and log are files of JSON. A log has one line for each batch: its number, a digest and a name for each row, and
the loader's state after it. The log is thus also the checkpoint, and a kill at any moment costs at most an incomplete
line.

In memory: one batch. torch and numpy are used if the loader has imported them, and never imported.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._loader import Loader
from ._millstream import Cursor
from ._verify_rows import digest_of, rows_of, words_of

__all__ = ["Run", "serve"]

@dataclass(frozen=True)
class Run:
    """How a loader is to run: what `make_loader` gets."""

    workers: int
    """The number of worker processes or threads. 0 is the process itself, as in a `DataLoader`."""
    rank: int
    """Which rank of the world this process is, from 0."""
    world: int
    """How many ranks share the rows. The whole batch should have as many rows in every world."""


def serve(
    orders: str | os.PathLike[str],
    make_loader: Callable[[Run], Any],
    *,
    rows: Callable[[Any], Iterable[Any]] | None = None,
    merge: Callable[[list[Any]], Any] | None = None,
) -> None:
    """Does what the file `orders` says, and returns when it is done.

    - `make_loader(run)` returns what can be iterated and has `state_dict()` and `load_state_dict(state)`, or the
      `get_state()` and `set_state(state)` of Grain: itself, or the iterator of it, or the dataset of a `DataLoader`
      without workers. A `millstream.Loader` has its cursor instead.
    - `rows(batch)`: the rows of a batch. By default `rows_of`.
    - `merge(states)`: one state of those that all ranks saved after the same batch, called if the world has changed.
      By default the state of rank 0. If the world is the same, each rank gets its own.

    An exception between loading a state and the first batch after it counts as a refusal of the state. It is written
    to the log's path with the extension `.refused`. Any other exception is raised.
    """
    path = Path(orders)
    told = json.loads(path.read_text(encoding="utf-8"))
    if told["config"] is not None:
        raise SystemExit("a loader in Python has a config of its own: give verify the program alone")
    end_with_parent()
    of_loader, log, step = told["loader"], Path(told["log"]), told["step"]
    run = Run(workers=of_loader["workers"], rank=of_loader["rank"], world=of_loader["world"])
    pause, split = step["secs"] + step["nanos"] / 1e9, rows or rows_of
    number, until = of_loader["from"], told["until"]
    if number >= until:
        return
    place = _place(make_loader(run), run)
    states = [place.parsed(text) for text in of_loader["states"]]
    try:
        if states:
            place.load(_chosen(states, run, merge or place.merge))
        batches = place.batches()
        batch = next(batches, _END)
    except Exception as error:
        if not states:
            raise
        traceback.print_exc()
        log.with_suffix(".refused").write_text(_reason(error), encoding="utf-8")
        return
    with Log(log) as file:
        while batch is not _END:
            named = [(digest_of(row), words_of(row)) for row in split(batch)]
            file.push(number, named, place.text())
            number += 1
            if pause:
                time.sleep(pause)
            if number >= until:
                return
            batch = next(batches, _END)


_END = object()
"""What stands for a batch after the last one."""


def end_with_parent() -> None:
    """Ends the process with its parent, which never writes to this standard input: it closes when the parent ends."""

    def watch() -> None:
        # Not by sys.stdin: a process that is forked now would wait for its lock.
        try:
            while os.read(0, 64):
                pass
        except OSError:
            pass
        # A loader's worker processes may outlive it; the parent gave it a process group of its own.
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, name="verify-parent", daemon=True).start()


class Log:
    """Appends batches to a log. What was handed to the system outlives the process, so nothing is synced."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o644)

    def push(self, number: int, rows: Sequence[tuple[str, str]], state: str) -> None:
        """Appends a batch in a single write, unless the system takes less."""
        line = json.dumps({"batch": number, "rows": rows, "state": state}).encode() + b"\n"
        while line:
            line = line[os.write(self._file, line) :]

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


class _Place:
    """Where a loader is: by a pair of methods that says it and takes it."""

    def __init__(self, loader: Any, holder: Any, batches: Iterator[Any] | None, names: tuple[str, str]) -> None:
        self._loader, self._batches = loader, batches
        self._save, self.load = (getattr(holder, name) for name in names)

    def batches(self) -> Iterator[Any]:
        if self._batches is None:
            self._batches = iter(self._loader)
        return self._batches

    def text(self) -> str:
        return text_of(self._save())

    def parsed(self, text: str) -> Any:
        return state_of(text)

    def merge(self, states: list[Any]) -> Any:
        return states[0]


class _PlaceOfLoader(_Place):
    """Where a `millstream.Loader` is: by its cursor."""

    def __init__(self, loader: Loader, run: Run) -> None:
        loader = loader._with_workers(max(run.workers, 1))
        self._made = loader if loader._names_rank() else loader._of_rank(run.rank, run.world)

    def load(self, cursor: Cursor) -> None:
        self._made = self._made._resumed(cursor)

    def batches(self) -> Iterator[Any]:
        return iter(self._made)

    def text(self) -> str:
        cursor = self._made.cursor
        assert cursor is not None, "there was a batch"
        return cursor.to_json()

    def parsed(self, text: str) -> Cursor:
        return Cursor.from_json(text)

    def merge(self, states: list[Any]) -> Cursor:
        return Cursor.merge(states)


PAIRS = (("state_dict", "load_state_dict"), ("get_state", "set_state"))
"""What loaders call saying and taking their state."""


def _place(loader: Any, run: Run) -> _Place:
    if isinstance(loader, Loader):
        return _PlaceOfLoader(loader, run)
    for holder in (loader, _dataset_of(loader)):
        for names in PAIRS:
            if _has(holder, names):
                return _Place(loader, holder, None, names)
    batches = iter(loader)
    for names in PAIRS:
        if _has(batches, names):
            return _Place(loader, batches, batches, names)
    raise TypeError(
        f"a {type(loader).__name__} has no state_dict() and load_state_dict(), so there is nothing to resume it from; "
        "let make_loader return a loader that has both"
    )


def _has(holder: object, names: tuple[str, str]) -> bool:
    return all(callable(getattr(holder, name, None)) for name in names)


def _dataset_of(loader: object) -> object:
    """The dataset, where its state is that of the last batch: a loader without workers reads nothing ahead."""
    return getattr(loader, "dataset", None) if getattr(loader, "num_workers", None) == 0 else None


def _chosen(states: list[Any], run: Run, merge: Callable[[list[Any]], Any]) -> Any:
    return states[run.rank] if len(states) == run.world else merge(states)


def _reason(error: Exception) -> str:
    """An exception in a line. Those of worker processes quote a traceback, whose last line says what it was."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return f"{type(error).__name__}: {lines[0]}" + (f" … {lines[-1]}" if len(lines) > 1 else "")


# States as text.


def text_of(state: object) -> str:
    """A state as text: JSON if it is made of plain dicts, lists, texts and numbers, or else pickled, as base64."""
    return json.dumps(state) if _is_plain(state) else base64.b64encode(pickle.dumps(state)).decode()


def state_of(text: str) -> Any:
    """The state of which `text_of` made this. A pickle begins with the byte 0x80, so its base64 does with a g, and no
    JSON does."""
    return pickle.loads(base64.b64decode(text)) if text.startswith("g") else json.loads(text)


def _is_plain(value: object) -> bool:
    """Whether JSON gives the same value back. Tuples become lists, and numpy's numbers Python's, so they are not."""
    kind = type(value)
    if isinstance(value, dict) and kind is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    if isinstance(value, list) and kind is list:
        return all(map(_is_plain, value))
    return value is None or kind in (str, int, float, bool)
