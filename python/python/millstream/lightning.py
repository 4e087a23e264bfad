"""Exact resume for the Trainer of Lightning.

    trainer = lightning.Trainer(..., callbacks=[millstream.lightning.ExactResume(dataset)])
    trainer.fit(model, DataLoader(dataset, batch_size=None), ckpt_path="last")
"""

from __future__ import annotations

from typing import Any

import torch.distributed
from lightning.pytorch import Callback

from ._resume import Trail
from .torch import Dataset, merge_state_dicts

__all__ = ["ExactResume"]


class ExactResume(Callback):  # type: ignore[misc, unused-ignore]
    """Resumes at exactly the next batch, at once, and with any number of processes that divides `pipeline.lanes` and
    `pipeline.batch_size`.

    Each checkpoint keeps the position after the last batch that was trained on. `dataset` is the one that your loader reads;
    the loader may be a plain `DataLoader`.
    """

    def __init__(self, dataset: Dataset) -> None:
        if not isinstance(dataset, Dataset):
            raise TypeError(f"ExactResume takes a millstream.torch.Dataset, not {type(dataset).__name__}")
        self._dataset = dataset
        self._trail = Trail(None)
        self._is_fitting = False

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._is_fitting = stage == "fit"
        if self._is_fitting:
            self._trail = self._dataset._follow(None)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if self._is_fitting:
            self._trail = self._dataset._follow(state_dict)

    def on_train_batch_end(self, *_: Any) -> None:
        self._trail.use()
        self._trail.commit()

    def state_dict(self) -> dict[str, Any]:
        """One position of those of all ranks: they save together."""
        states = [self._trail.state()]
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            states = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(states, self._trail.state())
        known = [state for state in states if state is not None]
        return merge_state_dicts(known) if len(known) > 1 else next(iter(known), {})
