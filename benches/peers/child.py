"""One measurement of one loader, in a process of its own: `run.py` starts it. Prints one line of JSON.

The clock starts when the libraries are imported and the tokenizer is loaded, and the loader is about to be made.
"""

import argparse
import importlib
import itertools
import json
import os
import pickle
import sys
import time
import warnings

import numpy as np

from harness import engines
from harness.work import Tally, Work, digest

# After how many batches behind the place of a resume it is believed.
COMPARED = 8


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("task", choices=("prepare", "reference", "speed", "wait", "epoch", "resume"))
    arguments.add_argument("loader", nargs="?")
    arguments.add_argument("--work", required=True)
    arguments.add_argument("--engine", choices=engines.NAMES, help="from text; without one from shards")
    arguments.add_argument("--seconds", type=float, default=8.0, help="speed: at most so long")
    arguments.add_argument("--batches", type=int, default=200, help="wait: so many")
    arguments.add_argument("--consume-ms", type=float, default=20.0, help="wait: so long over each")
    arguments.add_argument("--state", help="epoch: where to leave the state at 60%%; resume: where it lies")
    asked = arguments.parse_args()
    warnings.filterwarnings("ignore")
    work = Work.load(asked.work)
    if asked.task == "reference":
        return reference(work)
    loader = importlib.import_module(f"loaders.{asked.loader}")
    if asked.task == "prepare":
        loader.prepare(work)
        return {}
    if asked.engine is None:
        return TASKS[asked.task](lambda state=None: loader.shards(work, state), work, asked)
    engine = engines.load(asked.engine, work)
    return TASKS[asked.task](lambda state=None: loader.online(work, engine, state), work, asked)


def reference(work):
    """What one epoch of the file of ids is, without any loader."""
    tally, step = Tally(work.eos), 1 << 22
    ids = np.memmap(work.ids, dtype=np.uint16, mode="r")
    for at in range(0, len(ids) - 1, step):
        part = ids[at : at + step + 1].astype(np.uint64)
        tally.add_pairs(part[:-1], part[1:])
    return tally.result()


def touch(batch):
    """Reads every id, as a copy to a device would; the sum wraps, as that of the Rust program does."""
    return int(batch.sum(dtype=batch.dtype))


def targets(batch):
    return batch.shape[0] * (batch.shape[1] - 1)


def first_of(make):
    """The loader's iterator, its first batch, and how long that took."""
    begun = time.perf_counter()
    loader = make()
    batches = iter(loader)
    batch = next(batches)
    touch(batch)
    return loader, batches, batch, time.perf_counter() - begun


def speed(make, work, asked):
    """Targets a second behind the first batch, for some seconds or to the end of the epoch."""
    _, batches, _, first = first_of(make)
    tokens, begun = 0, time.perf_counter()
    for batch in batches:
        touch(batch)
        tokens += targets(batch)
        if time.perf_counter() - begun > asked.seconds:
            break
    seconds = time.perf_counter() - begun
    return {"tokens_per_second": tokens / seconds, "first_batch_seconds": first, "seconds": seconds}


def wait(make, work, asked):
    """The share of the time behind the first batch that a consumer which takes its time waits."""
    _, batches, _, first = first_of(make)
    pause, waited, count, begun = asked.consume_ms / 1e3, 0.0, 0, time.perf_counter()
    for _ in range(asked.batches):
        time.sleep(pause)
        before = time.perf_counter()
        batch = next(batches, None)
        waited += time.perf_counter() - before
        if batch is None:
            break
        touch(batch)
        count += 1
    seconds = time.perf_counter() - begun
    return {"wait_share": waited / seconds, "first_batch_seconds": first, "batches": count}


def epoch(make, work, asked):
    """Everything once: what it was, and the state at 60% with digests of the batches that follow it."""
    at, tally, digests, state = work.batches * 6 // 10, Tally(work.eos), [], None
    loader = make()
    for number, batch in enumerate(loader, 1):
        tally.add(batch)
        if at < number <= at + COMPARED:
            digests.append(digest(batch))
        if number == at and hasattr(loader, "state"):
            state = loader.state()
    with open(asked.state, "wb") as file:
        pickle.dump({"at": at, "state": state, "digests": digests}, file)
    size = len(pickle.dumps(state)) if state is not None else None
    return {**tally.result(), "state_bytes": size, "at": at}


def resume(make, work, asked):
    """From making the loader to the batch behind 60%: by its state, or by reading the batches before it again. If other
    batches come, how many of those that were left."""
    with open(asked.state, "rb") as file:
        saved = pickle.load(file)
    replayed, begun = saved["state"] is None, time.perf_counter()
    batches = iter(make(saved["state"]))
    if replayed:
        for _ in range(saved["at"]):
            next(batches)
    following = list(itertools.islice(batches, 1))
    for batch in following:
        touch(batch)
    seconds = time.perf_counter() - begun
    following += itertools.islice(batches, COMPARED - 1)
    exact = list(map(digest, following)) == saved["digests"]
    found = {"resume_seconds": seconds, "exact": exact, "replayed": replayed}
    if not exact:
        delivered = len(following) + sum(1 for _ in batches)
        found["delivered"] = delivered / (work.batches - saved["at"])
    return found


TASKS = {"speed": speed, "wait": wait, "epoch": epoch, "resume": resume}

if __name__ == "__main__":
    print("\n" + json.dumps(main()), flush=True)
    # Workers of some loaders outlive a pipeline that is not read to its end; the parent ends them.
    sys.stderr.flush()
    os._exit(0)
