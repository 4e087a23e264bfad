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
    assert set(batch) == {"inputs", "labels"} and batch["labels"].dtype == torch.int64
    raw = next(iter(Dataset(config, fields=("inputs", "targets", "loss_mask"))))
    assert torch.equal(raw["inputs"], batch["inputs"])
    assert torch.equal(raw["inputs"][:, 1:], raw["targets"][:, :-1])
    assert torch.equal(batch["labels"], torch.where(raw["loss_mask"], raw["targets"], -100))
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
    # A loop that runs on does not move what was loaded.
    dataset = Dataset(config)
    batches = iter(dataset)
    next(batches)
    state = dataset.state_dict()
    next(batches)
    dataset.load_state_dict(state)
    next(batches)
    assert dataset.state_dict() == state and rows(dataset) == whole[1:]
    # Nor does one that was made before, and begins after: it is the loop that goes on.
    dataset = Dataset(config)
    batches = iter(dataset)
    dataset.load_state_dict(state)
    assert rows(batches) == whole[1:]
    # A look in the middle of a loop does not stop its place.
    for n, _ in enumerate(dataset):
        if n == 3:
            next(iter(dataset))
        if n == 6:
            break
    resumed = Dataset(config)
    resumed.load_state_dict(dataset.state_dict())
    assert rows(resumed) == whole[7:]
    # What is closed goes on where it was.
    dataset = Dataset(config)
    for n, _ in enumerate(dataset):
        if n == 3:
            dataset.loader.close()
    resumed = Dataset(config)
    resumed.load_state_dict(dataset.state_dict())
    assert n == 3 and rows(resumed) == whole[4:]
    assert dataset.loader.meters["batches"] >= 4
    # What a loader hands out to others does not matter.
    assert rows(Dataset(millstream.Loader(config, arrays=lambda _: None))) == whole


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
    # After the last batch the next epoch begins, whether the loop has seen the end or not.
    for is_over in (False, True):
        loader = stateful.StatefulDataLoader(Dataset(config), batch_size=None)
        batches = iter(loader)
        for _ in whole:
            next(batches)
        assert not is_over or next(batches, None) is None
        resumed = stateful.StatefulDataLoader(Dataset(config), batch_size=None)
        resumed.load_state_dict(loader.state_dict())
        assert rows(resumed) == whole and rows(resumed) == whole, is_over


@pytest.mark.parametrize("length", [5, 7, 10])
def test_loops_of_a_length_follow_each_other(config: dict[str, Any], length: int) -> None:
    whole = rows(Dataset(config))
    epochs = [whole[at : at + length] for at in range(0, len(whole), length)]
    dataset = Dataset(config, length=length)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None)
    assert len(loader) == len(dataset) == length
    assert [rows(loader) for _ in epochs] == epochs
    # The stream has ended, and begins again.
    assert rows(loader) == epochs[0]
    # From the middle of an epoch, another process reads the rest of it.
    for _ in zip(range(2), loader):
        pass
    resumed = pickle.loads(pickle.dumps(Dataset(config, length=length)))
    resumed.load_state_dict(dataset.state_dict())
    # Accelerate counts from 0 after a resume, others go on: both mean the loops that follow.
    for first in (0, 1):
        resumed.load_state_dict(dataset.state_dict())
        resumed.set_epoch(first)
        assert rows(resumed) == epochs[1][2:]
        resumed.set_epoch(first + 1)
        assert rows(resumed) == epochs[2]
    assert rows(resumed) == epochs[3]
    # An epoch can be told by its number.
    for number in (0, 2, 3, 1, len(epochs), len(epochs) + 2):
        resumed.set_epoch(number)
        assert rows(resumed) == epochs[number % len(epochs)], number
    # It begins there, although the last epoch was not read up to where its end is seen.
    resumed.set_epoch(len(epochs) - 1)
    assert [row for _, row in zip(range(len(epochs[-1])), resumed)] and resumed.state_dict()["has_ended"] is False
    resumed.set_epoch(len(epochs))
    assert rows(resumed) == epochs[0]
    # States are of the stream: another length, or none, goes on too.
    other = Dataset(config, length=2 * length)
    other.load_state_dict(dataset.state_dict())
    assert rows(other) == whole[length + 2 : 2 * length]
    other.set_epoch(1)
    assert rows(other) == whole[2 * length : 4 * length]
    # A loop that runs on after a state was loaded ends, and does not move it.
    batches = iter(other)
    next(batches)
    other.load_state_dict(dataset.state_dict())
    assert next(batches, None) is None and rows(other) == whole[length + 2 : 2 * length]
    # One after the other, nothing is read twice: also when the stream has begun again.
    called = []

    def called_with(text: str) -> str:
        called.append(text)
        return text

    fresh = Dataset(millstream.Loader(config).map(called_with), length=length)
    for number in range(2 * len(epochs)):
        fresh.set_epoch(number)
        assert rows(fresh) == epochs[number % len(epochs)], number
    assert len(called) == 2 * len(set(called))
    # A state is also taken in the middle of a loop.
    resumed.load_state_dict(dataset.state_dict())
    assert rows(resumed) == epochs[1][2:]
    # What is closed goes on where it was.
    dataset.loader.close()
    assert rows(dataset) == epochs[1][2:]
    with pytest.raises(TypeError, match="length=N"):
        len(Dataset(config))
    assert Dataset(config), "a stream without a length is true, as in `if dataset:`"
    with pytest.raises(ValueError, match="dtype must be int32 or int64"):
        Dataset(millstream.Loader(config), dtype="float32")
    with pytest.raises(ValueError, match="length must be at least 1, not 0"):
        Dataset(config, length=0)
    with pytest.raises(TypeError, match="float"):
        Dataset(config, length=10.5)
    for state in ({}, None, {"cursor": None}):
        with pytest.raises(ValueError, match="this is no state of a Dataset"):
            Dataset(config).load_state_dict(state)
        with pytest.raises(ValueError, match="this is no state of a Dataset"):
            millstream.torch.merge_state_dicts([state])
    with pytest.raises(ValueError, match="there is no state to merge"):
        millstream.torch.merge_state_dicts([])


def test_an_error_in_a_loop_of_a_length_loses_nothing(config: dict[str, Any]) -> None:
    whole = rows(Dataset(config))
    is_broken = [True]

    def breaks(text: str) -> str:
        if is_broken[0] and text.startswith("file 1, document 17:"):
            raise ValueError("not today")
        return text

    loader = millstream.Loader(config).map(breaks, name="nothing")
    plain = [batch.inputs.tolist() for batch in millstream.Loader(config).map(str, name="nothing")]
    assert plain == whole
    dataset, found = Dataset(loader, length=1000), []
    with pytest.raises(millstream.Error, match="not today"):
        for batch in dataset:
            found.append(batch["inputs"].tolist())
    is_broken[0] = False
    assert found + rows(dataset) == whole


def test_a_cursor_is_where_the_first_loop_begins(config: dict[str, Any]) -> None:
    whole = rows(Dataset(config))
    loader = millstream.Loader(config)
    for _ in zip(range(7), loader):
        pass
    for dataset in (Dataset(config, cursor=loader.cursor), Dataset(millstream.Loader(config, cursor=loader.cursor))):
        state = dataset.state_dict()
        assert rows(dataset) == whole[7:] and rows(dataset) == whole
        resumed = Dataset(config)
        resumed.load_state_dict(state)
        assert rows(resumed) == whole[7:]
    # A look at the iterator uses nothing up, and a copy goes on.
    resumed.load_state_dict(state)
    iter(resumed)
    batches = iter(resumed)
    assert [next(batches)["inputs"].tolist()] == whole[7:8]
    assert rows(pickle.loads(pickle.dumps(resumed))) == whole[8:] and rows(batches) == whole[8:]
    # A new loop begins at the start, and so does its state.
    dataset = Dataset(config)
    rows(dataset)
    batches = iter(dataset)
    assert dataset.state_dict()["cursor"] is None and rows(batches) == whole


def test_batches_are_what_torchtitan_expects(config: dict[str, Any]) -> None:
    ours = iter(Dataset(config, fields=("inputs", "targets", "loss_mask", "position_ids")))
    for (inputs, labels), theirs in zip(Dataset(config, format="torchtitan"), ours, strict=True):
        assert set(inputs) == {"input", "positions"}
        assert torch.equal(inputs["input"], theirs["inputs"])
        assert torch.equal(inputs["positions"], theirs["position_ids"])
        assert torch.equal(labels, torch.where(theirs["loss_mask"], theirs["targets"], -100))


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


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_prefetching_loops_again(config: dict[str, Any], device: str) -> None:
    prefetched = millstream.torch.prefetch_to_device(Dataset(config), device)
    count = len(list(prefetched))
    assert prefetched and count > 0 and len(list(prefetched)) == count
    with pytest.raises(TypeError, match="no length"):
        len(prefetched)
    # Each loop over a dataset with a length continues where the one before stopped.
    epochs = millstream.torch.prefetch_to_device(Dataset(config, length=3), device)
    assert len(epochs) == 3 and [len(list(epochs)) for _ in range(2)] == [3, 3]


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
    # With a length, Accelerate counts epochs from 0 again: the loops follow each other all the same.
    loader = accelerator.prepare(torch.utils.data.DataLoader(Dataset(config, length=10), batch_size=None))
    assert rows(loader) == whole[:10]
    assert [batch["inputs"].tolist() for _, batch in zip(range(2), loader)] == whole[10:12]
    resumed = accelerator.prepare(torch.utils.data.DataLoader(Dataset(config, length=10), batch_size=None))
    resumed.load_state_dict(loader.state_dict())
    assert [rows(resumed) for _ in range(3)] == [whole[12:20], whole[20:30], whole[30:40]]
