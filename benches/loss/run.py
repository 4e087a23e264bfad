#!/usr/bin/env python3
"""What the order of batches does to a trainer's loss: one corpus, one model, several ways to order the text.

    python3 benches/loss/run.py                          # five ways, three seeds, 400 steps each
    python3 benches/loss/run.py --steps 20 --seeds 1 --out /tmp/loss

It learns one tokenizer, trains configs/quickstart.toml once for each way and seed, and writes mixing-loss.md and
mixing-loss.json. Each finished run is kept in mixing-loss.json: start it again after an interruption and it goes on
where it stopped. Delete that file to measure everything again. It needs Python 3.11 and the built program:

    cargo build --release --bin millstream
"""

import argparse
import hashlib
import json
import os
import shlex
import statistics
import sys
import tempfile
import time

import figures

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from script import output_of, positive, save, say

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "target", "release", "millstream")
CONFIG = os.path.join(ROOT, "configs", "quickstart.toml")
SEEDS, STEPS = (1, 2, 3), 400

# What each way sets in `[pipeline]`.
WAYS = {
    "defaults": {},
    "1 lane, window 64": {"lanes": 1, "window": 64},
    "1 lane, window 2048": {"lanes": 1, "window": 2048},
    "16 lanes, window 64": {"lanes": 16, "window": 64},
    "16 lanes, window 2048": {"lanes": 16, "window": 2048},
}

# What all ways share. Validation reads the same documents in each: a fixed sample of the hold-out. The memory is enough
# for 16 windows of 2048 documents; it never changes a batch.
SHARED = {
    "pipeline.memory": '"1GiB"',
    "train.validation_batches": 64,
    "train.log_every": 1,
    "train.sample_tokens": 0,
}


def main():
    asked = arguments()
    os.makedirs(asked.out, exist_ok=True)
    table, kept = (os.path.join(asked.out, f"mixing-loss.{end}") for end in ("md", "json"))
    runs = load(kept).get("runs", {})
    with tempfile.TemporaryDirectory(prefix="millstream-loss-") as directory:
        bench = Bench(asked, directory)
        looks = bench.look()
        train(bench, looks, runs, kept)
    used = {look["run"]: runs[look["run"]] for look in looks}
    document = {"run": bench.description(), "ways": figures.summary(looks, used), "looks": looks, "runs": used}
    save(kept, json.dumps(document, indent=1) + "\n")
    save(table, figures.markdown(document))
    print(figures.markdown(document), end="")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=os.path.abspath, default=PROGRAM, help="target/release/millstream by default")
    parser.add_argument("--seeds", type=numbers, default=list(SEEDS), help="such as 1,2,3, the default")
    parser.add_argument("--steps", type=positive, default=STEPS, help="of each run; 400 by default")
    parser.add_argument("--out", type=os.path.abspath, default=os.path.join(ROOT, "benches", "results"))
    asked = parser.parse_args()
    if not os.path.isfile(asked.program):
        parser.error(f"there is no program {asked.program}; build it with: cargo build --release --bin millstream")
    return asked


def numbers(text):
    return sorted({int(part) for part in text.split(",")})


def train(bench, looks, runs, kept):
    """Makes the runs that are not in `runs` yet, and keeps each of them as soon as it is finished."""
    need = {}
    for look in looks:
        need.setdefault(look["run"], look)
    todo = [name for name in need if name not in runs]
    say(f"{len(looks)} ways and seeds make {len(need)} different orders; {len(todo)} are still to be trained on")
    for number, name in enumerate(todo, 1):
        say(f"{number}/{len(todo)} {need[name]['way']}, seed {need[name]['seed']} …")
        found = runs[name] = bench.train(need[name])
        save(kept, json.dumps({"runs": runs}, indent=1) + "\n")
        each = statistics.mean(runs[name]["seconds"] for name in need if name in runs)
        left = (len(todo) - number) * each / 60
        say(f"    validation loss {found['validation_loss']:.3f} in {found['seconds']:.0f} s; {left:.0f} minutes left")


class Bench:
    """The program, and a copy of the config without `lanes` and `window` in a directory of its own."""

    def __init__(self, asked, directory):
        self.asked, self.directory = asked, directory
        self.version = self.call("--version").strip()
        with open(CONFIG, encoding="utf-8") as file:
            text = figures.without(file.read(), "lanes", "window")
        # The config may name a tokenizer's file or how to learn one, not both.
        learning, self.config = self.path("learning.toml"), self.path("config.toml")
        save(learning, text)
        save(self.config, figures.without(text, "train"))
        with open(asked.program, "rb") as file:
            self.digest = digest(file.read(), text.encode(), json.dumps(SHARED).encode())
        self.tokenizer = self.path("tokenizer.json")
        say("learning the tokenizer")
        self.call("tokenizer", "train", learning, "-o", self.tokenizer)

    def look(self):
        """For each way and seed: how many documents a batch holds, and which run it takes.

        Ways whose batches are the same for a seed share a run: its name is a digest of them.
        """
        say("looking at the batches")
        looks = []
        for way in WAYS:
            for seed in self.asked.seeds:
                shown = self.call("inspect", *self.setting(way, seed), "--json", "-n", str(self.asked.steps))
                run = digest(self.digest.encode(), shown.encode())
                looks.append({"way": way, "seed": seed, "documents": figures.documents(shown), "run": run})
        return looks

    def train(self, look):
        begun = time.time()
        with tempfile.TemporaryDirectory(dir=self.directory) as run:
            said = self.call("train", *self.setting(look["way"], look["seed"], run), "--json")
        return {**figures.of_run(said), "seconds": time.time() - begun}

    def setting(self, way, seed, run=None):
        """The config, and what is set in it."""
        steps = self.asked.steps
        keys = {**SHARED, "seed": seed, "tokenizer.path": json.dumps(self.tokenizer)}
        keys.update({f"pipeline.{key}": value for key, value in WAYS[way].items()})
        keys.update({f"train.{key}": steps for key in ("steps", "validate_every", "checkpoint_every")})
        keys["train.out"] = json.dumps(run or self.path("none"))
        return [self.config, *(part for key, value in keys.items() for part in ("--set", f"{key}={value}"))]

    def call(self, *arguments):
        """What the program prints. If it fails, its errors end the script."""
        return output_of([self.asked.program, *arguments])

    def path(self, name):
        return os.path.join(self.directory, name)

    def description(self):
        command = ["python3", "benches/loss/run.py"]
        command += ["--seeds", ",".join(map(str, self.asked.seeds))] if self.asked.seeds != list(SEEDS) else []
        command += ["--steps", str(self.asked.steps)] if self.asked.steps != STEPS else []
        last = min(figures.LAST, self.asked.steps)
        return {
            "command": shlex.join(command),
            "version": self.version,
            "seeds": self.asked.seeds,
            "steps": self.asked.steps,
            "last": last,
        }


def digest(*parts):
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()[:32]


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; start it again to go on, the finished runs are kept")
