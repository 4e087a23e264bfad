"""Exact resume for the Trainer of transformers.

    trainer = Trainer(..., callbacks=[millstream.transformers.ExactResume()])
    trainer.train(resume_from_checkpoint=True)
"""

from __future__ import annotations

from typing import Any

import torch.distributed
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from ._resume import Trail
from .torch import Dataset

__all__ = ["ExactResume"]


class ExactResume(TrainerCallback, ExportableState):  # type: ignore[misc, unused-ignore]
    """Resumes at exactly the next batch, at once, and with any number of processes.

    Each checkpoint keeps, in its `trainer_state.json`, the position after the last batch that the optimizer has seen. The
    `train_dataset` must be a `millstream.torch.Dataset`.
    """

    def __init__(self) -> None:
        self._trail = Trail(None)

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_: Any) -> None:
        dataset = _dataset(train_dataloader)
        if args.world_size > 1 and dataset.loader.config["pipeline"].get("world") not in (None, 1):
            raise ValueError(
                'ExactResume needs a dataset that is the whole stream: set pipeline={"world": 1}, and let Accelerate deal '
                "the batches out, as it does unless you override get_train_dataloader"
            )
        name = type(self).__name__
        position = state.stateful_callbacks.get(name, {}).get("attributes", {}).get("position")
        self._trail = dataset._follow(_of_process_0(position) if state.global_step > 0 else None)
        # A checkpoint of a run without this callback has no such key, and the Trainer expects it.
        state.stateful_callbacks[name] = self.state()

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trail.use()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # Before the end of the step, at which other callbacks may save. Gradients are not saved: batches count once the
        # optimizer has used them.
        self._trail.use()
        self._trail.commit()

    def state(self) -> dict[str, Any]:
        return {"args": {}, "attributes": {"position": self._trail.state()}}


def _dataset(loader: Any) -> Dataset:
    dataset = getattr(loader, "dataset", None)
    # Accelerate wraps it if each process reads all batches.
    dataset = getattr(dataset, "dataset", dataset)
    if not isinstance(dataset, Dataset):
        raise TypeError(f"ExactResume needs a millstream.torch.Dataset as train_dataset, not {type(dataset).__name__}")
    return dataset


def _of_process_0(position: Any) -> Any:
    """That of the process which reads: others may have their checkpoints on other disks."""
    positions = [position]
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.broadcast_object_list(positions, src=0)
    return positions[0]
