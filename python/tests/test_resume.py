"""Trainers of others go on at exactly the next batch."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchdata")

import millstream.torch  # noqa: E402
import trainers  # noqa: E402
from millstream.torch import Dataset  # noqa: E402


@pytest.fixture
def config(config: dict[str, Any]) -> dict[str, Any]:
    """One pass over half of the corpus."""
    config["pipeline"] |= {"holdout": 0.5, "world": 1}
    return config


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    """A warning of ours is an error, unless a test expects it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*ExactResume.*")
        yield


def a_pass(config: dict[str, Any], field: str = "ids") -> list[str]:
    return [trainers.digest(batch[field]) for batch in Dataset(config, fields=(field,))]


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"gradient_accumulation_steps": 3},
    "evaluation": {"evaluates": True},
    "length": {"length": 11, "gradient_accumulation_steps": 4},
    "length and evaluation": {"length": 7, "evaluates": True},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_trainer_goes_on_exactly_in_any_pass(config: dict[str, Any], tmp_path: Path, case: dict[str, Any]) -> None:
    pytest.importorskip("transformers")
    data = a_pass(config)
    # Beyond the end of the data, where they begin again.
    steps = (len(data) + 25) // case.get("gradient_accumulation_steps", 1)
    arguments = {"max_steps": steps, "save_steps": 1, **case}
    whole, counts, _ = trainers.run_transformers(config, tmp_path, **arguments)
    assert whole == (data * 2)[: len(whole)] and len(whole) > len(data)
    for step in {1, 2, steps // 2, steps - 4, steps - 2, steps - 1}:
        resume = str(tmp_path / f"checkpoint-{step}")
        resumed, _, _ = trainers.run_transformers(config, tmp_path / "resumed", resume=resume, **arguments)
        assert resumed == whole[counts[step] :], step


def test_epochs_that_the_end_cuts_short_keep_their_order(config: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    data = a_pass(config)
    assert len(data) % 10 > 0
    # Short epochs are not those that the Trainer counts, so that steps may have other numbers of batches.
    arguments: dict[str, Any] = {"max_steps": 30, "save_steps": 1, "length": 10, "gradient_accumulation_steps": 4}
    whole, counts, _ = trainers.run_transformers(config, tmp_path, **arguments)
    assert whole == (data * 2)[: len(whole)] and counts[23] > len(data)
    for step in (21, 22, 23, 24):
        resume = str(tmp_path / f"checkpoint-{step}")
        resumed, _, _ = trainers.run_transformers(config, tmp_path / "resumed", resume=resume, **arguments)
        assert resumed == (data * 2)[counts[step] : counts[step] + len(resumed)] and len(resumed) > 8, step


def test_a_trainer_that_resumes_reads_nothing_again(config: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    config["pipeline"].pop("epochs")
    whole, _, _ = trainers.run_transformers(config, tmp_path, max_steps=100, save_steps=99)
    again = {"max_steps": 100, "resume": str(tmp_path / "checkpoint-99")}
    resumed, _, dataset = trainers.run_transformers(config, tmp_path, **again)
    assert resumed == whole[99:] and dataset.loader.meters["batches"] < 10


def test_a_trainer_without_the_callback_warns_and_refuses(config: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    data = a_pass(config)
    arguments: dict[str, Any] = {"max_steps": len(data) + 9, "save_steps": 1}
    whole, _, _ = trainers.run_transformers(config, tmp_path, is_exact=False, **arguments)
    resume = {step: str(tmp_path / f"checkpoint-{step}") for step in (5, len(data) + 4)}
    arguments["max_steps"] = 8
    with pytest.warns(UserWarning, match="5 batches are read again"):
        resumed, _, _ = trainers.run_transformers(config, tmp_path, is_exact=False, resume=resume[5], **arguments)
    assert resumed == whole[5:8]
    # The checkpoint has no position: the callback keeps those of the checkpoints that follow.
    with pytest.warns(UserWarning, match="5 batches are read again"):
        resumed, _, _ = trainers.run_transformers(config, tmp_path, resume=resume[5], **arguments)
    assert resumed == whole[5:8]
    resumed, _, _ = trainers.run_transformers(config, tmp_path, resume=str(tmp_path / "checkpoint-7"), **arguments)
    assert resumed == whole[7:8]
    arguments["max_steps"] = len(data) + 9
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match=f"ended after {len(data)} of the {len(data) + 4}"):
        trainers.run_transformers(config, tmp_path, is_exact=False, resume=resume[len(data) + 4], **arguments)


def test_a_trainer_of_another_dataset_is_refused(config: dict[str, Any], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from millstream.transformers import ExactResume

    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[], max_steps=1)
    trainer = transformers.Trainer(torch.nn.Linear(1, 1), arguments, train_dataset=[1], callbacks=[ExactResume()])
    with pytest.raises(TypeError, match="train_dataset, not list"):
        trainer.train()


LIGHTNING: dict[str, dict[str, Any]] = {
    "plain": {},
    "a stateful loader": {"loader": "StatefulDataLoader"},
    "accumulation": {"accumulate_grad_batches": 3},
    "validation": {"evaluates": True},
    "length": {"length": 10, "loader": "StatefulDataLoader"},
    "length and validation": {"length": 7, "evaluates": True},
}


@pytest.mark.parametrize("case", LIGHTNING.values(), ids=LIGHTNING)
def test_lightning_goes_on_exactly_in_any_pass(config: dict[str, Any], tmp_path: Path, case: dict[str, Any]) -> None:
    pytest.importorskip("lightning")
    data = a_pass(config, "inputs")
    each = case.get("accumulate_grad_batches", 1)
    steps = (len(data) + 12) // each
    whole = trainers.run_lightning(config, tmp_path, steps, **case)
    assert whole == (data * 2)[: len(whole)] and len(whole) > len(data)
    for step in {1, 2, steps // 2, len(data) // each, steps - 2, steps - 1}:
        resumed = trainers.run_lightning(config, tmp_path, steps, resume=tmp_path / f"step={step}.ckpt", **case)
        # At the end of a pass, Lightning steps with the batches that are left.
        trained = step * each if step * each < len(data) else len(data) + (step - -(-len(data) // each)) * each
        assert resumed == whole[trained:], step


@pytest.mark.parametrize("length", [None, 7])
@pytest.mark.parametrize("loader", ["DataLoader", "StatefulDataLoader"])
def test_lightning_begins_an_accumulation_again(
    config: dict[str, Any], tmp_path: Path, loader: str, length: int | None
) -> None:
    pytest.importorskip("lightning")
    case: dict[str, Any] = {"accumulate_grad_batches": 3, "loader": loader, "length": length}
    whole = trainers.run_lightning(config, tmp_path, 8, **case)
    # How many batches there were at each step: Lightning steps at the end of a length too.
    steps = [0, *(3 * step for step in range(1, 9))] if length is None else [0, 3, 6, 7, 10, 13, 14, 17, 20]
    assert whole == a_pass(config, "inputs")[: steps[-1]]
    # In the first accumulation, in the middle of one and after its last batch.
    for by_hand in (1, 3, 5, 8):
        assert trainers.run_lightning(config, tmp_path, 8, by_hand=by_hand, **case) == whole
        resumed = trainers.run_lightning(config, tmp_path, 8, resume=tmp_path / "by_hand.ckpt", **case)
        trained = max(batches for batches in steps if batches <= by_hand)
        assert resumed == whole[trained:], by_hand


@pytest.mark.parametrize("loader", ["DataLoader", "StatefulDataLoader"])
def test_lightning_without_the_callback_warns(config: dict[str, Any], tmp_path: Path, loader: str) -> None:
    pytest.importorskip("lightning")
    trainers.run_lightning(config, tmp_path, 5, is_exact=False, loader=loader)
    with pytest.warns(UserWarning, match="Lightning resumes, but not at the next batch"):
        trainers.run_lightning(config, tmp_path, 8, is_exact=False, loader=loader, resume=tmp_path / "step=5.ckpt")


# In the first epoch, in a later one, and between two.
@pytest.mark.parametrize(("length", "stop"), [(1000, 7), (5, 7), (5, 10)])
def test_a_stateful_loader_with_a_length_saves_the_place_itself(
    config: dict[str, Any], tmp_path: Path, length: int, stop: int
) -> None:
    pytest.importorskip("lightning")
    case: dict[str, Any] = {"is_exact": False, "loader": "StatefulDataLoader", "length": length}
    data = a_pass(config, "inputs")
    assert trainers.run_lightning(config, tmp_path / "whole", stop, **case) == data[:stop]
    for checkpoint in (f"step={stop}", "end"):
        resume = tmp_path / "whole" / f"{checkpoint}.ckpt"
        assert trainers.run_lightning(config, tmp_path, 20, resume=resume, **case) == data[stop:20], checkpoint


def test_lightning_warns_of_epochs_that_begin_again(config: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    data = a_pass(config, "inputs")
    with pytest.warns(UserWarning, match=r"set Dataset\(\.\.\., length=3\) instead"):
        seen = trainers.run_lightning(config, tmp_path / "limit", 6, limit_train_batches=3)
    assert seen == data[:3] * 2
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*length=.*")
        assert trainers.run_lightning(config, tmp_path / "length", 6, length=3) == data[:6]


def test_what_lightning_only_validates_stays_where_it_is(config: dict[str, Any]) -> None:
    pytest.importorskip("lightning")
    from millstream.lightning import ExactResume

    dataset, data = Dataset(config, fields=("ids",)), a_pass(config)
    callback = ExactResume(dataset)
    callback.setup(None, None, "validate")
    callback.load_state_dict({"cursor": None, "has_ended": True, "epochs": 3, "length": None})
    assert [trainers.digest(batch["ids"]) for batch in dataset] == data and dataset.state_dict()["epochs"] == 0
    with pytest.raises(TypeError, match="not list"):
        ExactResume([])  # type: ignore[arg-type]


def test_other_numbers_of_processes_go_on_exactly(config: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("lightning")
    data = a_pass(config)
    assert len(data) % 2 == 1, "the processes' last step has one batch for both"
    ranked = {**config, "pipeline": {key: value for key, value in config["pipeline"].items() if key != "world"}}
    # One process trains on the first five batches; two go on, one batch each.
    trainers.run_transformers(config, tmp_path / "one", max_steps=5, save_steps=5)
    one = trainers.run_lightning(config, tmp_path / "lightning one", 5)
    steps = len(data) // 2 + 4
    fresh = {"config": config, "max_steps": steps, "save_steps": 1}
    devices = {"config": ranked, "devices": 2, "strategy": "ddp"}
    go_on = {"max_steps": 9, "out": str(tmp_path / "one"), "resume": str(tmp_path / "one" / "checkpoint-5")}
    lightning_one = str(tmp_path / "lightning one")
    # Lightning first: where Accelerate has several processes, a dataset waits for it to deal batches out.
    jobs = [
        ("lightning", {**devices, "steps": len(data) + 4, "out": str(tmp_path / "lightning two")}),
        ("lightning", {**devices, "steps": 9, "out": lightning_one, "resume": f"{lightning_one}/step=5.ckpt"}),
        ("transformers", {**fresh, "out": str(tmp_path / "two")}),
        ("transformers", {**fresh, "out": str(tmp_path / "shard"), "dispatch": False}),
        ("transformers", {**fresh, **go_on}),
    ]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", trainers.__file__]
    subprocess.run([*command, json.dumps(jobs), str(tmp_path)], check=True, timeout=600)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    together = [[batch for pair in zip(*ranks) for batch in pair] for ranks in zip(first, second)]
    # Two processes, one batch each; in the last step of a pass, both have their part of one batch.
    first_pass = -(-len(data) // 2)
    for name, trained in (("two", together[2]), ("shard", together[3])):
        assert trained[: len(data) - 1] == data[:-1] and trained[2 * first_pass :] == data[: 2 * (steps - first_pass)], name
        for step in (3, first_pass - 1, first_pass, first_pass + 2):
            resume = {"resume": str(tmp_path / name / f"checkpoint-{step}"), "max_steps": step + 3}
            resumed, _, _ = trainers.run_transformers(config, tmp_path / "resumed", **resume)
            at = 2 * step if step < first_pass else len(data) + 2 * (step - first_pass)
            assert resumed == (data * 2)[at : at + 3], (name, step)
    assert together[4] == data[5:13]
    # With ranks of their own, each reads its rows of every batch.
    for rank, of_rank in enumerate((first, second)):
        rows = a_pass({**config, "pipeline": {**config["pipeline"], "rank": rank, "world": 2}}, "inputs")
        assert of_rank[0] == rows + rows[:4] and of_rank[1] == rows[5:9]
    whole = a_pass(config, "inputs")
    assert one == whole[:5]
    for step in (3, len(data), len(data) + 2):
        checkpoint = tmp_path / "lightning two" / f"step={step}.ckpt"
        resumed = trainers.run_lightning(config, tmp_path / "out", step + 3, resume=checkpoint)
        assert resumed == (whole * 2)[step : step + 3], step
