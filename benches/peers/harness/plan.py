"""Everything that a measurement needs to know, as a file: what lies where, and how long to look."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Plan:
    python: str  # of the virtual environment
    packages: dict  # folders that go first on PYTHONPATH, by engine or loader
    cache: str  # where libraries may keep what they like
    scratch: str
    work: str  # the work's file
    millstream: str
    online: str  # its config for the text
    shards: str  # and for the ids
    batches: int  # of an epoch
    seconds: float  # to look at a rate, at most
    wait_batches: int
    consume_ms: float

    @staticmethod
    def load(path):
        with open(path, encoding="utf-8") as file:
            return Plan(**json.load(file))

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file, indent=1)
