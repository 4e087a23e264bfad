"""Batches in PyTorch, torchdata, transformers and Accelerate."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import millstream.torch  # noqa: E402
from millstream.torch import Dataset  # noqa: E402

HERE = Path(__file__).parent


def rows(batches: Any) -> list[Any]:
    return [batch["inputs"].tolist() for batch in batches]


def test_a_data_loader_takes_it_unchanged(config: dict[str, Any]) -> None:
    whole = [batch.inputs.tolist() for batch in millstream.Loader(config)]
    dataset = Dataset(config)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None)
    batch = next(iter(loader))
    assert batch["inputs"].dtype == torch.int64 and batch["inputs"].shape == (8, 64)
    assert torch.equal(batch["inputs"][:, 1:], batch["targets"][:, :-1])
    # Each loop begins at the start, as with any dataset.
    assert rows(loader) == rows(loader) == whole
    pair = next(iter(Dataset(config, format="tuple", fields=("ids", "loss_mask", "max_seqlen"))))
    assert pair[0].shape == (8, 65) and pair[1].dtype == torch.bool and isinstance(pair[2], int)


def test_the_state_is_what_was_consumed(config: dict[str, Any]) -> None:
    whole = rows(Dataset(config))
    dataset = Dataset(config)
    for n, batch in enumerate(torch.utils.data.DataLoader(dataset, batch_size=None)):
        state = pickle.loads(pickle.dumps(dataset.state_dict()))
        if n % 9 == 4:
            resumed = Dataset(config)
            resumed.load_state_dict(state)
            assert resumed.state_dict() == state
            assert rows(resumed) == whole[n + 1 :]
            # It was the state of one loop.
            assert rows(resumed) == whole


def test_torchdatas_loader_saves_and_loads_it(config: dict[str, Any]) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    whole = rows(Dataset(config))
    for at in (1, 7, len(whole) - 1):
        loader = stateful.StatefulDataLoader(Dataset(config), batch_size=None)
        batches = iter(loader)
        for _ in range(at):
            next(batches)
        state = loader.state_dict()
        resumed = stateful.StatefulDataLoader(Dataset(config), batch_size=None)
        resumed.load_state_dict(state)
        assert rows(resumed) == whole[at:], at


def test_workers_are_refused(config: dict[str, Any]) -> None:
    loader = torch.utils.data.DataLoader(Dataset(config), batch_size=None, num_workers=2)
    with pytest.raises(RuntimeError, match="Use num_workers=0"):
        next(iter(loader))


def test_labels_are_what_transformers_expect(config: dict[str, Any]) -> None:
    ours = iter(Dataset(config, fields=("inputs", "targets", "loss_mask", "position_ids")))
    for batch, theirs in zip(Dataset(config, format="hf"), ours, strict=True):
        assert set(batch) == {"input_ids", "labels", "position_ids"}
        assert torch.equal(batch["input_ids"][:, :-1], theirs["inputs"])
        assert torch.equal(batch["labels"][:, 1:], torch.where(theirs["loss_mask"], theirs["targets"], -100))
        assert (batch["labels"][:, 0] == -100).all()
        assert torch.equal(batch["position_ids"][:, :-1], theirs["position_ids"])
        # The first id of a document is never a label.
        assert (batch["labels"][batch["position_ids"] == 0] == -100).all()


def test_prefetching_to_the_cpu_changes_nothing(config: dict[str, Any]) -> None:
    whole = rows(Dataset(config))
    assert rows(millstream.torch.prefetch_to_device(Dataset(config), "cpu")) == whole
    assert rows(millstream.torch.prefetch_to_device(millstream.Loader(config, dtype="int64"), "cpu")) == whole
    moved = list(millstream.torch.prefetch_to_device(Dataset(config), "meta"))
    assert len(moved) == len(whole) and moved[0]["inputs"].device.type == "meta"


def test_two_ranks_read_the_rows_of_one_process(config: dict[str, Any], tmp_path: Path) -> None:
    whole = rows(Dataset(config))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run([*command, str(HERE / "ranks.py"), json.dumps(config), str(tmp_path)], check=True, timeout=600)
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    together = [[*first, *second] for first, second in zip(*ranks, strict=True)]
    assert [sorted(batch) for batch in together] == [sorted(batch) for batch in whole]


def test_states_of_ranks_make_one(config: dict[str, Any]) -> None:
    whole = rows(Dataset(config))
    ranks = [Dataset(config, pipeline={"rank": rank, "world": 2}) for rank in range(2)]
    for dataset in ranks:
        for _ in zip(range(6), dataset):
            pass
    resumed = Dataset(config)
    resumed.load_state_dict(millstream.torch.merge_state_dicts(dataset.state_dict() for dataset in ranks))
    assert rows(resumed) == whole[6:]


def test_a_trainer_that_was_killed_goes_on_exactly(config: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    config["pipeline"].pop("epochs")

    def train(name: str, last: int) -> int:
        program = [sys.executable, str(HERE / "trainer.py"), json.dumps(config), str(tmp_path / name)]
        log = (tmp_path / f"{name}.log").open("a")
        process = subprocess.run([*program, str(tmp_path / f"{name}.losses"), str(last)], stderr=log, stdout=log, timeout=600)
        return process.returncode

    def losses(name: str) -> list[Any]:
        return [json.loads(line) for line in (tmp_path / f"{name}.losses").read_text().splitlines()]

    assert train("whole", 0) == 0, (tmp_path / "whole.log").read_text()
    assert train("killed", 6) == -signal.SIGKILL, (tmp_path / "killed.log").read_text()
    assert train("killed", 0) == 0, (tmp_path / "killed.log").read_text()
    whole, killed = losses("whole"), losses("killed")
    assert [step for step, *_ in whole] == list(range(1, 13))
    # Up to the kill, and again from the checkpoint before it.
    assert killed == whole[:6] + whole[4:]


def test_accelerate_saves_and_loads_it(config: dict[str, Any]) -> None:
    accelerate = pytest.importorskip("accelerate")
    pytest.importorskip("torchdata")
    whole = rows(Dataset(config))
    settings = accelerate.DataLoaderConfiguration(use_stateful_dataloader=True)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=settings)
    loader = accelerator.prepare(torch.utils.data.DataLoader(Dataset(config), batch_size=None))
    batches = iter(loader)
    assert [next(batches)["inputs"].tolist() for _ in range(5)] == whole[:5]
    # Accelerate reads one batch ahead; its state is of the batch that it handed out.
    state = loader.state_dict()
    resumed = accelerator.prepare(torch.utils.data.DataLoader(Dataset(config), batch_size=None))
    resumed.load_state_dict(state)
    assert rows(resumed) == whole[5:]
