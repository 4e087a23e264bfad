"""Batches for PyTorch, and for what is built on it: torchdata, Hugging Face's Trainer and Accelerate, Lightning, torchtitan.

    from torch.utils.dlpack import from_dlpack
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
from typing import Any, Literal

import torch
import torch.distributed
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.dlpack import from_dlpack

from ._loader import Loader, PathLike
from ._millstream import Batch, Cursor

__all__ = ["Dataset", "merge_state_dicts", "prefetch_to_device", "whole_batch"]

Format = Literal["dict", "tuple", "hf"]

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

    A loop begins at the start of the stream, or where `load_state_dict` says, and reads `pipeline.epochs`.
    `state_dict()` is the place after the last batch that was handed out. Use `batch_size=None` and `num_workers=0`: the
    threads work ahead without processes, and several processes would read the same rows.

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
        **arguments: Any,
    ) -> None:
        super().__init__()
        if format not in ("dict", "tuple", "hf"):
            raise ValueError(f'format must be "dict", "tuple" or "hf", not {format!r}')
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
        self._cursor: Cursor | None = None
        self._begins_at: Cursor | None = self._loader._start

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is not None:
            raise RuntimeError(
                f"this is worker {worker.id} of {worker.num_workers} of a DataLoader: each would read all rows again. "
                "Use num_workers=0: millstream reads, tokenizes and packs ahead on its own threads (pipeline.workers), "
                "without the GIL."
            )
        loader = self._loader._resumed(self._begins_at)
        world = _world(loader.config)
        if world is not None:
            loader = loader._of_rank(*world)
        # A later loop begins at the start, unless a state is loaded again.
        self._begins_at = self._loader._start
        return self._batches(loader)

    def _batches(self, loader: Loader) -> Iterator[Any]:
        for batch in loader:
            self._cursor = batch.cursor
            yield self._tensors(batch)

    def _tensors(self, batch: Batch) -> Any:
        if self._format == "hf":
            return _for_transformers(batch)
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

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__


def merge_state_dicts(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One state of those that all ranks saved after the same batch: any number of ranks can load it."""
    cursors = [Cursor.from_json(state["cursor"]) for state in states if state["cursor"] is not None]
    return {"cursor": Cursor.merge(cursors).to_json() if cursors else None}


def prefetch_to_device(batches: Iterable[Any], device: torch.device | str | int) -> Iterator[Any]:
    """The same batches with their tensors on `device`; each is copied while you use the one before.

    `batches` are tensors, or dicts, lists and tuples of them, or those of a `millstream.Loader`, which become dicts of
    `inputs` and `targets`. On CUDA they go through pinned memory, on a stream of their own. On the CPU nothing is copied.
    """
    device = torch.device(device)
    if device.type == "cpu":
        yield from map(_of_loader, batches)
        return
    if device.type != "cuda":
        yield from (_moved(_of_loader(batch), device) for batch in batches)
        return
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    before: tuple[Any, torch.cuda.Event] | None = None

    def sent(batch: Any) -> tuple[Any, torch.cuda.Event]:
        with torch.cuda.stream(side):
            moved = _moved(_of_loader(batch), device)
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record(side)
        return moved, done

    def received(moved: Any, done: torch.cuda.Event) -> Any:
        current = torch.cuda.current_stream(device)
        current.wait_event(done)
        _used_by(moved, current)
        return moved

    for batch in batches:
        now = sent(batch)
        if before is not None:
            yield received(*before)
        before = now
    if before is not None:
        yield received(*before)


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


def whole_batch(batches: list[Any]) -> Any:
    """The batch itself, as a collator: for a Trainer of transformers, with `per_device_train_batch_size=1`."""
    (batch,) = batches
    return batch


def _of_loader(batch: Any) -> Any:
    if isinstance(batch, Batch):
        return {"inputs": _tensor(batch.inputs), "targets": _tensor(batch.targets)}
    return batch


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        if device.type == "cuda":
            return value.contiguous().pin_memory().to(device, non_blocking=True)
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _moved(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(item, device) for item in value)
    return value


def _used_by(value: Any, stream: torch.cuda.Stream) -> None:
    """Keeps memory until what the stream does with it is done."""
    if isinstance(value, torch.Tensor):
        value.record_stream(stream)
    elif isinstance(value, Mapping):
        for item in value.values():
            _used_by(item, stream)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _used_by(item, stream)
