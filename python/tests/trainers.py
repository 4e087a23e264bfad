"""The trainers of transformers and Lightning on a tiny model that notes which batches it is trained on: for
test_resume.py, which calls these functions, or starts this program with torchrun to call them in several ranks."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from millstream.torch import Dataset, whole_batch


def digest(ids: Any) -> str:
    return hashlib.sha256(ids.numpy().tobytes()).hexdigest()


def run_transformers(
    config: Any,
    out: Path,
    *,
    is_exact: bool = True,
    length: int | None = None,
    resume: Any = None,
    dispatch: bool = True,
    evaluates: bool = False,
    **arguments: Any,
) -> tuple[list[str], dict[int, int], Dataset]:
    """The batches that were trained on, how many of them there were at each step, and the dataset."""
    import transformers

    from millstream.transformers import ExactResume

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))
            self.seen: list[str] = []

        def forward(self, input_ids: Any, labels: Any, position_ids: Any) -> Any:
            if self.training:
                self.seen.append(digest(input_ids))
            return {"loss": self.weight * labels.float().mean()}

    class Counts(transformers.TrainerCallback):  # type: ignore[misc, name-defined, unused-ignore]
        counts: dict[int, int] = {}

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.counts[state.global_step] = len(model.seen)

    model, counts = Model(), Counts()
    counts.counts = {}
    dataset = Dataset(config, format="hf", length=length)
    if evaluates:
        arguments |= {"eval_strategy": "steps", "eval_steps": 2}
    trainer = transformers.Trainer(
        model,
        transformers.TrainingArguments(
            output_dir=str(out),
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            per_device_train_batch_size=1,
            per_device_eval_batch_size=1,
            accelerator_config={"dispatch_batches": dispatch},
            **arguments,
        ),
        train_dataset=dataset,
        eval_dataset=Dataset(config, format="hf", held_out=True) if evaluates else None,
        data_collator=whole_batch,
        callbacks=[counts, *([ExactResume()] if is_exact else [])],
    )
    trainer.train(resume_from_checkpoint=resume)
    return model.seen, counts.counts, dataset


def run_lightning(
    config: Any,
    out: Path,
    steps: int,
    *,
    is_exact: bool = True,
    length: int | None = None,
    resume: Any = None,
    loader: str = "DataLoader",
    evaluates: bool = False,
    every: int = 1,
    by_hand: int | None = None,
    **arguments: Any,
) -> list[str]:
    """The batches that were trained on. Checkpoints are named after the step, one that is saved by hand after so many
    batches is `by_hand.ckpt`, and the last one is `end.ckpt`."""
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint
    from torch.utils.data import DataLoader
    from torchdata.stateful_dataloader import StatefulDataLoader

    from millstream.lightning import ExactResume

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))
            self.seen: list[str] = []

        def training_step(self, batch: Any, _: int) -> Any:
            self.seen.append(digest(batch["inputs"]))
            return self.weight * batch["labels"].float().mean()

        def on_train_batch_end(self, *_: Any) -> None:
            if len(self.seen) == by_hand:
                self.trainer.save_checkpoint(out / "by_hand.ckpt")

        def validation_step(self, batch: Any, _: int) -> None:
            pass

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-3)

    model, dataset = Model(), Dataset(config, length=length)
    loaders = [{"DataLoader": DataLoader, "StatefulDataLoader": StatefulDataLoader}[loader](dataset, batch_size=None)]
    if evaluates:
        loaders.append(DataLoader(Dataset(config, held_out=True), batch_size=None))
        arguments |= {"val_check_interval": 2, "check_val_every_n_epoch": None}
    saves = ModelCheckpoint(out, "{step}", every_n_train_steps=every, save_top_k=-1)
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(
        max_steps=steps,
        max_epochs=-1,
        accelerator="cpu",
        callbacks=[saves, *([ExactResume(dataset)] if is_exact else [])],
        default_root_dir=out,
        **quiet,
        **arguments,
    )
    trainer.fit(model, *loaders, ckpt_path=resume)
    trainer.save_checkpoint(out / "end.ckpt")
    return model.seen


def main(jobs: str, out: str) -> None:
    """Runs jobs one after the other, and writes down what this rank was trained on in each."""
    seen = []
    for trainer, arguments in json.loads(jobs):
        arguments["out"] = Path(arguments["out"])
        seen.append(run_lightning(**arguments) if trainer == "lightning" else run_transformers(**arguments)[0])
    Path(out, f"{os.environ['RANK']}.json").write_text(json.dumps(seen))
    # Its threads must not be there any more when Python ends.
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
