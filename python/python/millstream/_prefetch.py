"""Batches that are on the device before the training step asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from ._millstream import Batch
from ._tensors import field


def prefetch_to_device(batches: Iterable[Any], device: torch.device | str | int) -> Prefetched:
    """The same batches with their tensors on `device`; each is copied while you use the one before.

    `batches` are tensors, or dicts, lists and tuples of them, or those of a `millstream.Loader`, which become dicts of
    `inputs` and `labels`. Each loop over the result is a new loop over `batches`, and its length is theirs. On CUDA they go
    through pinned memory, on a stream of their own, and one batch is read ahead: save the cursor of the batch you train on,
    not the dataset's state. On other devices they are copied when you ask for them; on the CPU, not at all.
    """
    return Prefetched(batches, torch.device(device))


class Prefetched:
    """What `prefetch_to_device` returns."""

    def __init__(self, batches: Iterable[Any], device: torch.device) -> None:
        self._batches = batches
        self._device = device

    def __iter__(self) -> Iterator[Any]:
        return _loop(self._batches, self._device)

    def __bool__(self) -> bool:
        # Without this Python would ask for the length, which a stream may not have.
        return True

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]


def _loop(batches: Iterable[Any], device: torch.device) -> Iterator[Any]:
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

    source = iter(batches)
    while True:
        try:
            now = sent(next(source))
        except StopIteration:
            break
        except Exception:
            # The batch before it is good.
            if before is not None:
                yield received(*before)
            raise
        if before is not None:
            yield received(*before)
        before = now
    if before is not None:
        yield received(*before)


def _of_loader(batch: Any) -> Any:
    if isinstance(batch, Batch):
        return {name: field(batch, name) for name in ("inputs", "labels")}
    return batch


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        if device.type == "cuda" and value.device.type == "cpu":
            pinned = torch.empty(value.shape, dtype=value.dtype, pin_memory=True).copy_(value)
            return pinned.to(device, non_blocking=True)
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _moved(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        moved = [_moved(item, device) for item in value]
        return type(value)(*moved) if hasattr(value, "_fields") else type(value)(moved)
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
