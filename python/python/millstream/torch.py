"""Batches for PyTorch, and for what is built on it: torchdata, Hugging Face's Trainer and Accelerate, Lightning, torchtitan.

    from torch.utils.data import DataLoader

    dataset = millstream.torch.Dataset("config.toml")
    for batch in DataLoader(dataset, batch_size=None):
        loss = cross_entropy(model(batch["inputs"]).flatten(0, 1), batch["labels"].flatten())

The dataset makes whole batches, ahead of need, on threads of its own: `DataLoader` has nothing to collate and no workers
to start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

import torch
from torch.utils.data import IterableDataset, get_worker_info

from ._loader import Loader, PathLike, dtype_name
from ._millstream import Batch, Cursor, Stream
from ._prefetch import prefetch_to_device
from ._ranks import dealt_by_accelerate
from ._resume import Reader, Trail, plain, reader
from ._tensors import FIELDS, IGNORED, field, tensor

__all__ = ["Dataset", "merge_state_dicts", "prefetch_to_device", "whole_batch"]

Format = Literal["dict", "tuple", "hf", "torchtitan"]


class Dataset(IterableDataset[Any]):
    """Whole batches as tensors, in an order that does not depend on how they are read.

    `config` and the further keyword arguments are those of `millstream.Loader`; or pass a `Loader` itself, one with
    stages for example.

    - `format="dict"`: a dict of the `fields`: names of `millstream.Batch`'s arrays (`inputs`, `targets`, `ids`,
      `loss_mask`, `segment_ids`, `position_ids`, `lengths`, `cu_seqlens`, `max_seqlen`), and `labels`: the targets, with
      -100 for padding and at the end of a document, which `cross_entropy` leaves out.
    - `format="tuple"`: the same as a tuple.
    - `format="hf"`: `input_ids`, `labels` and `position_ids` as models of transformers take them, `[rows, seq_len + 1]`.
      Such a model compares each place with the label of the next one, so that each row has `seq_len` targets. Labels are
      -100 for padding and at each document's first token.
    - `format="torchtitan"`: `({"input": inputs, "positions": position_ids}, labels)`, `[rows, seq_len]`.

    A loop begins at the start of the stream, or where `load_state_dict` says, and reads `pipeline.epochs`. With
    `length=N` it stops at the next multiple of N batches, and the next loop continues there; `len(dataset)` is N, which
    Lightning and learning-rate schedules need. `state_dict()` is the position after the last batch handed out.

    Use `batch_size=None` and `num_workers=0`: the threads work ahead without processes, and several processes would read
    the same rows.

    Rank and world are found as for `millstream.Loader`.
    """

    def __init__(
        self,
        config: PathLike | Mapping[str, Any] | Loader | None = None,
        *,
        format: Format = "dict",
        fields: Iterable[str] = ("inputs", "labels"),
        dtype: object = "int64",
        length: int | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__()
        if format not in get_args(Format):
            raise ValueError(f"format must be one of {', '.join(get_args(Format))}, not {format!r}")
        if length is not None and length < 1:
            raise ValueError(f"length must be at least 1, not {length}")
        if isinstance(config, Loader):
            if arguments:
                raise TypeError(f"pass {', '.join(arguments)} to the Loader, not to Dataset")
            loader = config._copy(_dtype=dtype_name(dtype), _arrays=None, _convert=None)
        else:
            loader = Loader(config, dtype=dtype, **arguments)
        self._format = format
        self._fields = (fields,) if isinstance(fields, str) else tuple(fields)
        for name in self._fields:
            if name not in FIELDS:
                raise ValueError(f"unknown field {name!r}; choose from {', '.join(FIELDS)}")
        self._length = length
        self._loader = loader._resumed(None)
        # What was consumed: where the loop is, and where the next one begins if it goes on.
        self._cursor: Cursor | None = loader._start
        self._goes_on = self._cursor is not None
        self._has_ended = False
        # How many states were loaded: a loop that began before the last one does not move it.
        self._loads = 0
        # With a length: the open stream, how many epochs are over, the one that was asked for, and by how many epochs
        # numbers are off that are counted from where a state was loaded.
        self._running: Stream | None = None
        self._was_closed = False
        self._epochs = 0 if length is None else _batch_of(self._cursor) // length
        self._asked: int | None = None
        self._shift = 0
        # Under an `ExactResume`: what was trained on, and whether the next loop goes on where it says.
        self._trail: Trail | None = None
        self._is_placed = False

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is not None:
            raise RuntimeError(
                f"this is worker {worker.id} of {worker.num_workers} of a DataLoader: each would read all rows again. "
                "Use num_workers=0: millstream reads, tokenizes and packs ahead on its own threads (pipeline.workers), "
                "without the GIL."
            )
        self._start_over_if_due()
        # Begun by whoever takes the first batch: Accelerate makes iterators in processes that never do.
        return self._handed_out(reader(self, self._is_placed))

    def __bool__(self) -> bool:
        # Without this Python would ask for the length, which a stream may not have.
        return True

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("the stream has no length; set one with Dataset(..., length=N)")
        return self._length

    @property
    def loader(self) -> Loader:
        """The loader that the last loop has opened: its tokenizer, meters and verdict."""
        return self._loader

    def _opened(self, cursor: Cursor | None) -> Stream:
        self._loader = loader = self._loader._resumed(cursor)
        if dealt_by_accelerate() and not loader._names_rank():
            raise RuntimeError(
                "Accelerate runs in several processes. If it prepares your DataLoader, as Trainer does, it deals the "
                'batches out itself: set pipeline={"world": 1}, so that the dataset is the whole stream, and batch_size '
                'to the rows of one process. If it does not, set pipeline={"rank": ..., "world": ...}.'
            )
        return loader._open()

    def _start_over_if_due(self) -> None:
        """Goes to the start after the stream's end and, without a length, for each loop that does not go on."""
        if self._has_ended or self._length is None and not self._goes_on:
            self._cursor, self._has_ended = None, False

    def _handed_out(self, reader: Reader) -> Iterator[Any]:
        """A loop's batches as tensors."""
        loads, trail, count = self._loads, self._trail, 0
        self._start_over_if_due()
        self._goes_on = self._is_placed = False
        left = trail.begin(reader.share) if trail is not None else None
        if left is not None and self._length is not None:
            self._cursor, self._epochs, self._has_ended, self._running = left["cursor"], left["epochs"], False, None
        for batch in self._stream(loads) if self._length is None else self._epoch(loads, self._length):
            count += 1
            if trail is not None and loads == self._loads and count > reader.skipped:
                trail.hand_out(self._state())
            yield self._tensors(batch)
        if trail is not None:
            trail.end()
        if self._has_ended and count < reader.skipped:
            raise RuntimeError(
                f"the data ended after {count} of the {reader.skipped} batches to skip, so the run that saved the checkpoint "
                "was in a later pass, and where it was is not known. To begin at the start of the data, set "
                "TrainingArguments(ignore_data_skip=True); to resume exactly, train with "
                "callbacks=[millstream.transformers.ExactResume()] from the beginning."
            )

    def _stream(self, loads: int) -> Iterator[Batch]:
        """The batches from where the loop begins; `loads` states were loaded before it."""
        batches = self._opened(self._cursor)
        batch = next(batches, None)
        if batch is None and self._cursor is not None and not batches.was_closed():
            # The state was saved after the last batch, before the end was seen.
            batches = self._opened(None)
            batch = next(batches, None)
        while batch is not None:
            if loads == self._loads:
                self._cursor, self._has_ended = batch.cursor, False
            yield batch
            batch = next(batches, None)
        if loads == self._loads and not batches.was_closed():
            self._has_ended = True

    def _epoch(self, loads: int, length: int) -> Iterator[Batch]:
        """The rest of an epoch of `length` batches. The stream stays open for the next one."""
        if self._running is not None and self._running.is_closed():
            self._running = None
        self._skip(length)
        for batch in self._rest(length):
            yield batch
            if loads != self._loads:
                return

    def _skip(self, length: int) -> None:
        """Goes to the epoch that was asked for, if the next one is another: by reading what comes before."""
        epoch = self._asked
        if epoch is None:
            return
        is_between = _batch_of(self._cursor) % length == 0
        if epoch < self._epochs or epoch == self._epochs and not is_between:
            self._cursor, self._running, self._epochs = None, None, 0
        while self._epochs < epoch:
            for _ in self._rest(length, epoch):
                pass
            self._start_over_if_due()
        self._asked = None

    def _rest(self, length: int, until: int | None = None) -> Iterator[Batch]:
        """Up to the next multiple of `length`, or to the stream's end; from the start if that is here already, unless it is
        the beginning of the epoch `until`."""
        batch = self._next()
        if batch is None and not self._was_closed:
            # The state was saved after the last batch, before the end was seen; or an epoch ended with the stream.
            self._epochs += _batch_of(self._cursor) % length > 0
            self._cursor = None
            if self._epochs == until:
                return
            batch = self._next()
        while batch is not None:
            self._cursor = batch.cursor
            is_last = self._cursor.batch % length == 0
            self._epochs += is_last
            yield batch
            if is_last:
                return
            batch = self._next()
        if not self._was_closed:
            self._has_ended = True
            self._epochs += 1

    def _next(self) -> Batch | None:
        if self._running is None:
            self._running = self._opened(self._cursor)
        try:
            batch = next(self._running, None)
        except BaseException:
            # The stream is closed by now. A later loop opens it again, at the same batch.
            self._running = None
            raise
        if batch is None:
            self._was_closed = self._running.was_closed()
            self._running = None
        return batch

    def set_epoch(self, epoch: int) -> None:
        """With `length`, makes the next loop that of epoch number `epoch`, from 0. What comes before is read again, and not
        handed out. Without `length` it does nothing: one stream has all epochs.

        After a state was loaded, the next loop goes on there, whatever `epoch` is, and later numbers count on from it:
        Accelerate counts from 0 again after a resume. Under an `ExactResume` the loops follow each other, whatever `epoch` is.
        """
        if self._length is None or self._trail is not None and self._trail.is_under_way:
            return
        if self._goes_on:
            self._shift = self._epochs - epoch
        else:
            self._asked = epoch + self._shift

    def _tensors(self, batch: Batch) -> Any:
        if self._format == "hf":
            return _for_transformers(batch)
        if self._format == "torchtitan":
            return _for_torchtitan(batch)
        tensors = {name: field(batch, name) for name in self._fields}
        return tensors if self._format == "dict" else tuple(tensors.values())

    def state_dict(self) -> dict[str, Any]:
        """Where to go on after the last batch that was handed out: plain, and a few kilobytes."""
        return plain(self._state())

    def _state(self) -> dict[str, Any]:
        """`state_dict` with the cursor itself, which costs nothing."""
        return {"cursor": self._cursor, "has_ended": self._has_ended, "epochs": self._epochs, "length": self._length}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop goes on where a `state_dict()` says; after the last batch of an epoch it is the next epoch. With
        several ranks, each loads its own, or all the same that `merge_state_dicts` made."""
        if self._is_placed:
            # A loader loads what it saved, which is ahead of the training.
            return
        text = state["cursor"]
        self._cursor = None if text is None else Cursor.from_json(text)
        self._epochs = state["epochs"]
        if self._length is not None and self._length != state["length"]:
            self._epochs = _batch_of(self._cursor) // self._length
        # Accelerate says the epoch before it loads the state.
        self._shift = 0 if self._asked is None else self._epochs - (self._asked - self._shift)
        self._has_ended, self._goes_on = state["has_ended"], True
        self._running, self._asked = None, None
        self._loads += 1

    def _follow(self, state: Mapping[str, Any] | None) -> Trail:
        """Keeps the states of what is handed out, for a callback that knows what was trained on. The next loop goes on at
        `state`, whatever the trainer's loaders load or skip."""
        self._is_placed = False
        if state is not None:
            self.load_state_dict(state)
            self._is_placed = True
        self._trail = Trail(None if state is None else self._state())
        return self._trail

    def __getstate__(self) -> dict[str, Any]:
        # A copy goes on at the same place.
        is_within = self._cursor is not None and not self._has_ended
        return {**self.__dict__, "_running": None, "_trail": None, "_is_placed": False, "_goes_on": self._goes_on or is_within}


def merge_state_dicts(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One state of those that all ranks saved after the same batch. Any number of ranks that divides `pipeline.lanes` and
    `pipeline.batch_size` can load it."""
    of_ranks = list(states)
    cursors = [Cursor.from_json(state["cursor"]) for state in of_ranks if state["cursor"] is not None]
    return {**of_ranks[0], "cursor": Cursor.merge(cursors).to_json() if cursors else None}


def _for_transformers(batch: Batch) -> dict[str, torch.Tensor]:
    ids, of_targets = tensor(batch.ids), field(batch, "labels")
    labels = torch.full(ids.shape, IGNORED, dtype=torch.int64)
    # A label stands where its id does, one place behind its input.
    labels[:, 1 : of_targets.shape[1] + 1] = of_targets
    return {"input_ids": ids, "labels": labels, "position_ids": tensor(batch._positions)}


def _for_torchtitan(batch: Batch) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    inputs = {"input": tensor(batch.inputs), "positions": tensor(batch.position_ids)}
    return inputs, field(batch, "labels")


def _batch_of(cursor: Cursor | None) -> int:
    return 0 if cursor is None else cursor.batch


def whole_batch(batches: list[Any]) -> Any:
    """The batch itself, as a collator: for a Trainer of transformers, with `per_device_train_batch_size=1` and
    `per_device_eval_batch_size=1`."""
    if len(batches) != 1:
        raise ValueError(
            f"expected one batch, got {len(batches)}: set per_device_train_batch_size=1 and "
            "per_device_eval_batch_size=1; pipeline.batch_size sets the rows"
        )
    return batches[0]
