"""Exact resume for the Trainer of Lightning.

    trainer = lightning.Trainer(..., callbacks=[millstream.lightning.ExactResume(dataset)])
    trainer.fit(model, DataLoader(dataset, batch_size=None), ckpt_path="last")
"""

from __future__ import annotations

import warnings
from typing import Any

import torch.distributed
from lightning.pytorch import Callback

from ._resume import Trail
from .torch import Dataset, merge_state_dicts

__all__ = ["ExactResume"]


class ExactResume(Callback):  # type: ignore[misc, unused-ignore]
    """Resumes at exactly the next batch, at once, and with any number of processes that divides `pipeline.lanes` and
    `pipeline.batch_size`.

    Each checkpoint keeps the position after the last batch that the optimizer has seen. One within an accumulation has no
    gradients, so the accumulation begins again. `dataset` is the one that your loader reads; the loader may be a plain
    `DataLoader`.
    """

    def __init__(self, dataset: Dataset) -> None:
        if not isinstance(dataset, Dataset):
            raise TypeError(f"ExactResume takes a millstream.torch.Dataset, not {type(dataset).__name__}")
        self._dataset = dataset
        self._trail = Trail(None)
        # Where the training begins.
        self._start: dict[str, Any] | None = None
        self._is_fitting = False
        # How many optimizer steps there were before the batch, and how many batches wait for the next one.
        self._steps = self._waiting = 0

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._is_fitting = stage == "fit"
        if self._is_fitting:
            self._warn_of_repeats(trainer)
            self._start, self._waiting = self._dataset.state_dict(), 0
            self._trail = self._dataset._follow(None)

    def _warn_of_repeats(self, trainer: Any) -> None:
        limit = trainer.limit_train_batches
        # Whoever overfits wants the same batches again.
        repeats = isinstance(limit, int) and trainer.max_epochs != 1 and not trainer.overfit_batches
        if repeats and self._dataset._length is None:
            warnings.warn(
                f"with limit_train_batches={limit}, each epoch begins at the start of the data, because the dataset has no "
                f"length; to go on through the data, set Dataset(..., length={limit}) instead",
                stacklevel=2,
            )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if self._is_fitting:
            self._trail = self._dataset._follow(state_dict)

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        self._steps = trainer.global_step

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self._trail.use()
        self._waiting += 1
        # In manual optimization, optimizers may be used that Lightning does not count.
        is_uncounted = not pl_module.automatic_optimization and trainer.global_step == 0
        if trainer.global_step > self._steps or is_uncounted:
            self._trail.commit()
            self._waiting = 0

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Lets Lightning count the batches again whose gradients are lost."""
        batches = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        for counts in (batches["total"], batches["current"]):
            if 0 < self._waiting <= counts["processed"]:
                counts.update(dict.fromkeys(counts, counts["processed"] - self._waiting))

    def state_dict(self) -> dict[str, Any]:
        """One position of those of all ranks: they save together."""
        state = self._trail.state() or self._start
        states = [state]
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            states = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(states, state)
        known = [state for state in states if state is not None]
        return merge_state_dicts(known) if len(known) > 1 else next(iter(known), {})
