"""Batches for PyTorch, and for what is built on it: torchdata, Hugging Face's Trainer and Accelerate, Lightning, torchtitan.

    from torch.utils.data import DataLoader

    dataset = millstream.torch.Dataset("config.toml")
    for batch in DataLoader(dataset, batch_size=None):
        loss = cross_entropy(model(batch["inputs"]), batch["targets"])

The dataset makes whole batches, ahead of need, on threads of its own: `DataLoader` has nothing to collate and no workers
to start.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, get_args

import torch
import torch.distributed
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.dlpack import from_dlpack

from ._loader import Loader, PathLike
from ._millstream import Batch, Cursor
from ._prefetch import prefetch_to_device

__all__ = ["Dataset", "merge_state_dicts", "prefetch_to_device", "whole_batch"]

Format = Literal["dict", "tuple", "hf", "torchtitan"]

IGNORED = -100
"""The label of what is not to be learned, as transformers and `cross_entropy` have it."""


class Dataset(IterableDataset[Any]):
    """Whole batches as tensors, in an order that does not depend on how they are read.

    `config` and the further keyword arguments are those of `millstream.Loader`; or pass a `Loader` itself, one with
    stages for example.

    - `format="dict"`: a dict of the `fields`, which are names of `millstream.Batch`'s arrays.
    - `format="tuple"`: the same as a tuple.
    - `format="hf"`: `input_ids`, `labels` and `position_ids` as models of transformers take them, `[rows, seq_len + 1]`.
      Such a model compares each place with the label of the next one, so that each row has `seq_len` targets. Labels are
      -100 for padding and at each document's first token.
    - `format="torchtitan"`: `({"input": inputs, "positions": position_ids}, labels)`, `[rows, seq_len]`. Labels are the
      targets, and -100 for padding and at the end of a document.

    A loop begins at the start of the stream, or where `load_state_dict` says, and reads `pipeline.epochs`. With
    `length=N` it reads N batches instead, and the next loop goes on behind them: `len(dataset)` is N, as Lightning and
    schedules of the learning rate ask for. `state_dict()` is the place after the last batch that was handed out.

    Use `batch_size=None` and `num_workers=0`: the threads work ahead without processes, and several processes would read
    the same rows.

    Rank and world are those of `torch.distributed` if it is initialised, or else those of the launcher's variables; the
    config's `pipeline.rank` and `pipeline.world` are over both.
    """

    def __init__(
        self,
        config: PathLike | Mapping[str, Any] | Loader | None = None,
        *,
        format: Format = "dict",
        fields: Iterable[str] = ("inputs", "targets"),
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
            self._loader = config._copy(_dtype=str(dtype).rsplit(".", 1)[-1])
            if arguments:
                raise TypeError(f"the loader is made already; give it {', '.join(arguments)} itself")
        else:
            self._loader = Loader(config, dtype=dtype, **arguments)
        self._format = format
        self._fields = tuple(fields)
        unknown = [field for field in self._fields if not hasattr(Batch, field)]
        if unknown:
            raise ValueError(f"a batch has no {unknown[0]!r}; see millstream.Batch")
        self._length = length
        self._cursor: Cursor | None = None
        self._begins_at: Cursor | None = self._loader._start
        self._is_loaded = False
        self._running: Iterator[Batch] | None = None

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is not None:
            raise RuntimeError(
                f"this is worker {worker.id} of {worker.num_workers} of a DataLoader: each would read all rows again. "
                "Use num_workers=0: millstream reads, tokenizes and packs ahead on its own threads (pipeline.workers), "
                "without the GIL."
            )
        self._is_loaded = False
        if self._length is not None:
            return self._epoch(self._length)
        begins_at = self._begins_at
        # A later loop begins at the start, unless a state is loaded again.
        self._begins_at = self._loader._start
        return self._batches(self._opened(begins_at))

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("the stream has no length; Dataset(..., length=N) makes loops of N batches")
        return self._length

    def _opened(self, cursor: Cursor | None) -> Iterator[Batch]:
        loader = self._loader._resumed(cursor)
        world = _world(loader.config)
        return iter(loader if world is None else loader._of_rank(*world))

    def _batches(self, batches: Iterator[Batch]) -> Iterator[Any]:
        for batch in batches:
            self._cursor = batch.cursor
            yield self._tensors(batch)

    def _epoch(self, length: int) -> Iterator[Any]:
        """The rest of the epoch of `length` batches. The stream stays open for the next one."""
        begin = _batch_of(self._loader._start)
        if self._running is None:
            self._running = self._opened(self._begins_at)
        at = _batch_of(self._begins_at) - begin
        for _ in range(length - at % length):
            batch = next(self._running, None)
            if batch is None:
                # The stream has ended, and begins again in the next loop.
                self._running, self._begins_at = None, self._loader._start
                return
            self._cursor = self._begins_at = batch.cursor
            yield self._tensors(batch)

    def set_epoch(self, epoch: int) -> None:
        """With `length`, makes the next loop that of epoch number `epoch`, from 0, unless a state was loaded for it. What
        comes before is read again, and not handed out. Without `length` it does nothing: one stream has all epochs."""
        if self._length is None or self._is_loaded:
            return
        begin = _batch_of(self._loader._start)
        if _batch_of(self._begins_at) - begin != epoch * self._length:
            self._begins_at, self._running = self._loader._start, self._opened(self._loader._start)
            for batch in islice(self._running, epoch * self._length):
                self._begins_at = batch.cursor

    def _tensors(self, batch: Batch) -> Any:
        if self._format == "hf":
            return _for_transformers(batch)
        if self._format == "torchtitan":
            return _for_torchtitan(batch)
        tensors = {field: _tensor(getattr(batch, field)) for field in self._fields}
        return tensors if self._format == "dict" else tuple(tensors.values())

    def state_dict(self) -> dict[str, Any]:
        """Where to go on after the last batch that was handed out: plain, and a few kilobytes."""
        return {"cursor": None if self._cursor is None else self._cursor.to_json()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop goes on where a `state_dict()` says. With several ranks, each loads its own, or all the same
        that `merge_state_dicts` made."""
        text = state["cursor"]
        self._begins_at = self._cursor = None if text is None else Cursor.from_json(text)
        self._running, self._is_loaded = None, True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_running": None}


def merge_state_dicts(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One state of those that all ranks saved after the same batch: any number of ranks can load it."""
    cursors = [Cursor.from_json(state["cursor"]) for state in states if state["cursor"] is not None]
    return {"cursor": Cursor.merge(cursors).to_json() if cursors else None}


def _world(config: Mapping[str, Any]) -> tuple[int, int] | None:
    pipeline = config["pipeline"]
    if pipeline.get("rank") is not None or pipeline.get("world") is not None:
        return None
    accelerate = sys.modules.get("accelerate.state")
    dealt_by = 1 if accelerate is None else accelerate.PartialState._shared_state.get("num_processes", 1)
    if dealt_by > 1:
        raise RuntimeError(
            "Accelerate runs in several processes. If it prepares your DataLoader, as Trainer does, it deals the batches "
            'out itself: set pipeline={"world": 1}, so that the dataset is the whole stream, and batch_size to the rows of '
            'one process. If it does not, set pipeline={"rank": ..., "world": ...}.'
        )
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return None


def _tensor(array: Any) -> Any:
    if isinstance(array, (int, torch.Tensor)):
        return array
    return from_dlpack(array)


def _for_transformers(batch: Batch) -> dict[str, torch.Tensor]:
    ids = _tensor(batch.ids)
    labels = torch.full_like(ids, IGNORED)
    mask, targets = _tensor(batch.loss_mask), _tensor(batch.targets)
    # A label stands where its id does, one place behind its input.
    labels[:, 1 : targets.shape[1] + 1] = torch.where(mask, targets, IGNORED)
    return {"input_ids": ids, "labels": labels, "position_ids": _tensor(batch._positions)}


def _for_torchtitan(batch: Batch) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    labels = torch.where(_tensor(batch.loss_mask), _tensor(batch.targets), IGNORED)
    return {"input": _tensor(batch.inputs), "positions": _tensor(batch.position_ids)}, labels


def _batch_of(cursor: Cursor | None) -> int:
    return 0 if cursor is None else cursor.batch


def whole_batch(batches: list[Any]) -> Any:
    """The batch itself, as a collator: for a Trainer of transformers, with `per_device_train_batch_size=1`."""
    (batch,) = batches
    return batch
