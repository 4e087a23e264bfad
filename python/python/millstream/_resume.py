"""Where a training run goes on, under trainers that read ahead, skip and restart loaders of their own."""

from __future__ import annotations

import sys
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .torch import Dataset


class Trail:
    """The states of a dataset after each batch that it handed out, up to the last one that was trained on.

    Trainers read ahead: the dataset's own state is that of a batch which was not yet trained on.
    """

    def __init__(self, state: dict[str, Any] | None) -> None:
        self._ahead: deque[dict[str, Any]] = deque()
        self._used = self._saved = state
        self._share = 1
        self._is_open = False
        # Whether the next loop goes on at `state`, whatever a loader loads or skips.
        self.is_placed = state is not None

    def begin(self, share: int) -> dict[str, Any] | None:
        """A loop begins, in which each process trains on one batch in `share`. Returns where the training left the one before,
        if that was left early: nobody trains on what it read ahead."""
        left = self._used if self._is_open and self._ahead else None
        if self._is_open:
            self._ahead.clear()
        self._share, self._is_open, self.is_placed = share, True, False
        return left

    def end(self) -> None:
        self._is_open = False

    def hand_out(self, state: dict[str, Any]) -> None:
        self._ahead.append(state)

    def use(self) -> None:
        """Each process has trained on one batch more. The last ones of a pass may be fewer than the processes."""
        for _ in range(min(self._share, len(self._ahead))):
            self._used = self._ahead.popleft()

    def commit(self) -> None:
        """What was used is part of the model now."""
        self._saved = self._used

    def state(self) -> dict[str, Any] | None:
        """The dataset's state after the last batch that is part of the model; None before the first."""
        return None if self._saved is None else plain(self._saved)

    @property
    def is_under_way(self) -> bool:
        return self._used is not None


def plain(state: dict[str, Any]) -> dict[str, Any]:
    """A state with its cursor as text."""
    cursor = state["cursor"]
    return {**state, "cursor": None if cursor is None else cursor.to_json()}


class Reader(NamedTuple):
    """What begins to read a dataset."""

    share: int = 1
    """How many batches it takes to give one to each process."""
    skipped: int = 0
    """How many batches it reads and drops first."""


def reader(dataset: Dataset, is_placed: bool) -> Reader:
    """What begins to read `dataset`. If a callback placed the dataset, nothing is skipped any more, and otherwise a resume
    that may not be exact is warned of."""
    loader = _loader_of_accelerate(dataset)
    if loader is not None:
        share, skipped = _share(loader), getattr(loader, "skip_batches", 0)
        if not skipped:
            return Reader(share)
        if is_placed:
            loader.skip_batches = 0
            return Reader(share)
        _warn(
            f"{skipped} batches are read again and skipped. That is exact only in the first pass over the data, and with as "
            "many processes as before. Trainer(..., callbacks=[millstream.transformers.ExactResume()]) goes on at once, exactly"
        )
        return Reader(share, skipped * share)
    if not is_placed and _lightning_loses_the_place(dataset):
        _warn(
            "Lightning resumes, but not at the next batch: it "
            "reads one ahead of a loader without a length, and a plain DataLoader saves no position. "
            "Trainer(..., callbacks=[millstream.lightning.ExactResume(dataset)]) goes on exactly"
        )
    return Reader()


def _warn(message: str) -> None:
    # Not at a line of the user's: the trainer calls it.
    warnings.warn(message, stacklevel=3)


def _loader_of_accelerate(dataset: Dataset) -> Any:
    """The loader of Accelerate that begins to read `dataset`, if one does."""
    module = sys.modules.get("accelerate.state")
    if module is None or not module.GradientState._shared_state:
        return None
    loader = module.GradientState().active_dataloader
    of = getattr(loader, "dataset", None)
    return loader if dataset in (of, getattr(of, "dataset", None)) else None


def _share(loader: Any) -> int:
    from accelerate.data_loader import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
        DataLoaderDispatcher,
        IterableDatasetShard,
    )

    if isinstance(loader.dataset, IterableDatasetShard):
        # Each process reads all batches.
        return int(loader.dataset.num_processes)
    # Process 0 reads for the others. `isinstance` believes an adapter, which says that it is the loader it wraps.
    if issubclass(type(loader), DataLoaderDispatcher) and not loader.split_batches and loader.submesh_tp is None:
        return int(loader.state.num_processes)
    return 1


def _lightning_loses_the_place(dataset: Dataset) -> bool:
    """Whether the loop of a Trainer of Lightning that resumes begins to read `dataset`, and goes on at another batch."""
    if "lightning.pytorch" not in sys.modules and "pytorch_lightning" not in sys.modules:
        return False
    # Nothing else leads from a dataset to the loop that reads it.
    frame = sys._getframe(1)
    while frame.f_code.co_name != "setup_data" or not frame.f_globals["__name__"].endswith(".loops.fit_loop"):
        if frame.f_back is None:
            return False
        frame = frame.f_back
    loop = frame.f_locals["self"]
    has_state = all(hasattr(loader, "load_state_dict") for loader in loop._combined_loader.flattened)
    return loop.restarting and not (has_state and dataset._length is not None)
