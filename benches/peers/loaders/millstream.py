"""What Millstream's own batches are, read from `millstream inspect`: only to be checked as those of the others are."""

import subprocess

import numpy as np
import orjson


def inspected(program, config):
    command = [program, "inspect", config, "--json", "--batches", str(1 << 40)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            yield np.array(orjson.loads(line)["ids"], dtype=np.int32)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")


def online(work, engine=None, state=None):
    del engine, state
    return inspected(work.millstream, work.online)


def shards(work, state=None):
    del state
    return inspected(work.millstream, work.shards)
