"""One of several ranks: a program that test_torch.py starts with torchrun."""

from __future__ import annotations

import json
import os
import sys

import torch.distributed

import millstream
import millstream.torch


def main(config: str, out: str) -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    # The launcher's variables say the same; without them, torch.distributed is all there is.
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"):
        os.environ.pop(name, None)
    dataset = millstream.torch.Dataset(json.loads(config))
    first = next(iter(millstream.Loader(json.loads(config), arrays="torch")))
    assert first.inputs.equal(next(iter(dataset))["inputs"]), "a Loader is of the same rank"
    with open(f"{out}/{rank}.json", "w") as file:
        json.dump([batch["inputs"].tolist() for batch in dataset], file)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
