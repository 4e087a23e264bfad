"""A tiny model trained by transformers.Trainer: a program that test_torch.py starts, kills and resumes."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import transformers
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

import millstream.torch
import millstream.transformers


class Told(TrainerCallback):  # type: ignore[misc]
    """Writes the loss of each step down, and kills the process after one of them."""

    def __init__(self, path: str, last: int) -> None:
        self.path, self.last = path, last

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "loss" in logs:
            with open(self.path, "a") as file:
                file.write(json.dumps([state.global_step, logs["loss"], logs["grad_norm"]]) + "\n")
        if state.global_step == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def main(config: str, out: str, losses: str, last: str) -> None:
    transformers.set_seed(1)
    sizes = {"vocab_size": 257, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=2, max_position_embeddings=128, attention_dropout=0.1))
    arguments = TrainingArguments(
        output_dir=out, max_steps=12, save_steps=4, logging_steps=1, per_device_train_batch_size=1, use_cpu=True,
        report_to=[], disable_tqdm=True, gradient_accumulation_steps=2,
    )
    trainer = Trainer(
        model=model, args=arguments, data_collator=millstream.torch.whole_batch,
        callbacks=[Told(losses, int(last)), millstream.transformers.ExactResume()],
        train_dataset=millstream.torch.Dataset(json.loads(config), format="hf"),
    )
    trainer.train(resume_from_checkpoint=os.path.isdir(os.path.join(out, "checkpoint-4")))


if __name__ == "__main__":
    main(*sys.argv[1:])
