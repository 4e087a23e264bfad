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
from copy import copy
from operator import index
from typing import Any, Literal, get_args

import torch
from torch.utils.data import IterableDataset, get_worker_info

from ._loader import Loader, PathLike, dtype_name
from ._loops import Epochs, Loops, Position
from ._millstream import Batch, Cursor
from ._prefetch import prefetch_to_device
from ._resume import Reader, Trail, plain, reader
from ._tensors import FIELDS, IGNORED, field, tensor

__all__ = ["Dataset", "merge_state_dicts", "prefetch_to_device", "whole_batch"]

# What a state has.
_STATE = ["cursor", "has_ended", "epochs", "length"]

Format = Literal["dict", "tuple", "hf", "padding_free", "torchtitan"]


class Dataset(IterableDataset[Any]):
    """Whole batches as tensors, in an order that does not depend on how they are read.

    `config` and the further keyword arguments are those of `millstream.Loader`; or pass a `Loader` itself, one with
    stages for example.

    - `format="dict"`: a dict of the `fields`: names of `millstream.Batch`'s arrays (`inputs`, `targets`, `ids`,
      `loss_mask`, `segment_ids`, `position_ids`, `lengths`, `cu_seqlens`, `max_seqlen`), and `labels`: the targets, with
      -100 for padding, at the end of a document and for what is not learned from, which `cross_entropy` leaves out.
    - `format="tuple"`: the same as a tuple.
    - `format="hf"`: `input_ids`, `labels` and `position_ids` as models of transformers take them, `[rows, seq_len + 1]`.
      Such a model compares each place with the label of the next one, so that each row has `seq_len` targets. Labels are
      -100 for padding, at each document's first token and for what is not learned from.
    - `format="padding_free"`: the same ids without padding, `[1, ids]`, with where each document begins: `cu_seq_lens_q`,
      `cu_seq_lens_k`, `max_length_q`, `max_length_k` and `seq_idx`, as TRL's collator gives them with `padding_free=True`.
      Flash Attention then keeps documents apart.
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
        if length is not None and index(length) < 1:
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
        position = Position(loader._start, is_next=loader._start is not None)
        fresh = loader._resumed(None)
        # Replaced when a state is loaded: a loop that began before does not move the loops that follow.
        self._loops = Loops(fresh, position) if length is None else Epochs(fresh, position.counted(length), length)
        # Under an `ExactResume`: what was trained on.
        self._trail: Trail | None = None

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is not None:
            raise RuntimeError(
                f"this is worker {worker.id} of {worker.num_workers} of a DataLoader: each would read all rows again. "
                "Use num_workers=0: millstream reads, tokenizes and packs ahead on its own threads (pipeline.workers), "
                "without the GIL."
            )
        self._loops.start_over_if_due()
        # Begun by whoever takes the first batch: Accelerate makes iterators in processes that never do.
        return self._handed_out(reader(self, self._is_placed()))

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
        return self._loops.loader

    def _handed_out(self, reader: Reader) -> Iterator[Any]:
        """A loop's batches as tensors."""
        loops, trail, count = self._loops, self._trail, 0
        loops.begin()
        left = trail.begin(reader.share) if trail is not None else None
        if left is not None and isinstance(loops, Epochs):
            loops.go_to(Position(left["cursor"], epochs=left["epochs"]))
        for batch in loops.batches():
            count += 1
            if trail is not None and loops is self._loops and count > reader.skipped:
                trail.hand_out(self._state())
            yield self._tensors(batch)
            if isinstance(loops, Epochs) and loops is not self._loops:
                # An epoch ends where a state is loaded.
                break
        if trail is not None:
            trail.end()
        if loops.position.has_ended and count < reader.skipped:
            raise RuntimeError(
                f"the data ended after {count} of the {reader.skipped} batches to skip, so the run that saved the checkpoint "
                "was in a later pass, and where it was is not known. To begin at the start of the data, set "
                "TrainingArguments(ignore_data_skip=True); to resume exactly, train with "
                "callbacks=[millstream.transformers.ExactResume()] from the beginning."
            )

    def set_epoch(self, epoch: int) -> None:
        """With `length`, makes the next loop that of epoch number `epoch`, from 0. What comes before is read again, and not
        handed out. Without `length` it does nothing: one stream has all epochs.

        After a state was loaded, the next loop goes on there, whatever `epoch` is, and later numbers count on from it:
        Accelerate counts from 0 again after a resume. Under an `ExactResume` the loops follow each other, whatever `epoch` is.
        """
        if isinstance(self._loops, Epochs) and not (self._trail is not None and self._trail.is_under_way):
            self._loops.ask(epoch)

    def _tensors(self, batch: Batch) -> Any:
        if self._format == "hf":
            return _for_transformers(batch)
        if self._format == "padding_free":
            return _padding_free(batch)
        if self._format == "torchtitan":
            return _for_torchtitan(batch)
        tensors = {name: field(batch, name) for name in self._fields}
        return tensors if self._format == "dict" else tuple(tensors.values())

    def state_dict(self) -> dict[str, Any]:
        """Where to go on after the last batch that was handed out: plain, and a few kilobytes."""
        return plain(self._state())

    def _state(self) -> dict[str, Any]:
        """`state_dict` with the cursor itself, which costs nothing."""
        cursor, has_ended, epochs, _ = self._loops.position
        return {"cursor": cursor, "has_ended": has_ended, "epochs": epochs, "length": self._length}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop goes on where a `state_dict()` says; after the last batch of an epoch it is the next epoch. With
        several ranks, each loads its own, or all the same that `merge_state_dicts` made."""
        if self._is_placed():
            # A loader loads what it saved, which is ahead of the training.
            return
        _check(state)
        text = state["cursor"]
        cursor = None if text is None else Cursor.from_json(text)
        position = Position(cursor, state["has_ended"], state["epochs"], is_next=True)
        if self._length is not None and self._length != state["length"]:
            position = position.counted(self._length)
        self._loops = self._loops.at(position)

    def _follow(self, state: Mapping[str, Any] | None) -> Trail:
        """Keeps the states of what is handed out, for a callback that knows what was trained on. The next loop goes on at
        `state`, whatever the trainer's loaders load or skip."""
        self._trail = None
        if state is not None:
            self.load_state_dict(state)
        self._trail = Trail(None if state is None else self._state())
        return self._trail

    def _is_placed(self) -> bool:
        return self._trail is not None and self._trail.is_placed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loops": copy(self._loops), "_trail": None}


def _check(state: object) -> None:
    """Raises an error if this is not what `Dataset.state_dict` returns."""
    lacking = _STATE if not isinstance(state, Mapping) else [name for name in _STATE if name not in state]
    if lacking:
        raise ValueError(f"this is no state of a Dataset: it has no {', '.join(lacking)}; pass what state_dict() returned")


def merge_state_dicts(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One state of those that all ranks saved after the same batch. Any number of ranks that divides `pipeline.lanes` and
    `pipeline.batch_size` can load it."""
    of_ranks = list(states)
    if not of_ranks:
        raise ValueError("there is no state to merge; pass those that state_dict() returned on all ranks")
    for state in of_ranks:
        _check(state)
    cursors = [Cursor.from_json(state["cursor"]) for state in of_ranks if state["cursor"] is not None]
    return {**of_ranks[0], "cursor": Cursor.merge(cursors).to_json() if cursors else None}


def _for_transformers(batch: Batch) -> dict[str, torch.Tensor]:
    ids, of_targets = tensor(batch.ids), field(batch, "labels")
    labels = torch.full(ids.shape, IGNORED, dtype=torch.int64)
    # A label stands where its id does, one place behind its input.
    labels[:, 1 : of_targets.shape[1] + 1] = of_targets
    return {"input_ids": ids, "labels": labels, "position_ids": tensor(batch._positions)}


def _padding_free(batch: Batch) -> dict[str, Any]:
    rows = _for_transformers(batch)
    lengths = tensor(batch.lengths)
    is_filled = torch.arange(rows["labels"].shape[1]) < lengths[:, None]
    flat: dict[str, Any] = {name: values[is_filled][None] for name, values in rows.items()}
    begins = (flat["position_ids"][0] == 0).nonzero().flatten()
    ends = torch.cat([begins, lengths.sum()[None]]).to(torch.int32)
    sizes = ends.diff()
    flat["cu_seq_lens_q"] = flat["cu_seq_lens_k"] = ends
    flat["max_length_q"] = flat["max_length_k"] = int(sizes.max()) if len(begins) else 0
    flat["seq_idx"] = torch.repeat_interleave(torch.arange(len(begins), dtype=torch.int32), sizes)[None]
    return flat


def _for_torchtitan(batch: Batch) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    inputs = {"input": tensor(batch.inputs), "positions": tensor(batch.position_ids)}
    return inputs, field(batch, "labels")


def whole_batch(batches: list[Any]) -> Any:
    """The batch itself, as a collator: for a Trainer of transformers, with `per_device_train_batch_size=1` and
    `per_device_eval_batch_size=1`."""
    if len(batches) != 1:
        raise ValueError(
            f"expected one batch, got {len(batches)}: set per_device_train_batch_size=1 and "
            "per_device_eval_batch_size=1; pipeline.batch_size sets the rows"
        )
    return batches[0]
