#!/usr/bin/env python3
"""Trains the same shapes with Millstream and with PyTorch, in turns, on the CPU or on a GPU.

    python3 benches/trainer/run.py                                   # three shapes, three rounds
    python3 benches/trainer/run.py --rounds 1 --name trainer-ways    # written to trainer-ways.md
    python3 benches/trainer/run.py --shapes 1.4M --rounds 1 --steps 8 --out /tmp/trainer
    python3 benches/trainer/run.py --device vulkan --shapes 124M --name trainer-gpu    # PyTorch on CUDA

Each trainer is a process of its own, and one runs at a time. A round runs all of them once for each shape; the figures
are the medians over the rounds. Needed: Linux, PyTorch (`--python` names another interpreter that has it), a C++
compiler for torch.compile, and the built program:

    cargo build --release --bin millstream

It writes trainer.md and trainer.json, or NAME.md and NAME.json with `--name NAME`. Keep the machine quiet: whatever else
runs takes from all, but not evenly.
"""

import argparse
import json
import os
import shlex
import sys
import tempfile

import figures
from shapes import ON_GPU, OPTIMIZER, OURS, PEERS, SHAPES, WARMUP

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from script import one_of, output_of, positive, save, say

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.join(ROOT, "target", "release", "millstream")
ROUNDS = 3

# One file is one document, in its own order, so the rows are those that the peers cut from its bytes.
CONFIG = """
[[source]]
kind = "text"
document = "file"
paths = [{corpus}]

[tokenizer]
kind = "bytes"

[pipeline]
lanes = 1
window = 1
workers = 1
memory = "64MiB"
"""


def main():
    asked = arguments()
    os.makedirs(asked.out, exist_ok=True)
    kept = {name: {} for name in asked.shapes}
    with tempfile.TemporaryDirectory(prefix="millstream-trainer-") as directory:
        bench = Bench(asked, directory)
        for number in range(asked.rounds):
            for name in asked.shapes:
                for trainer in asked.trainers:
                    say(f"round {number + 1}/{asked.rounds}, {name}, {trainer} …")
                    run = bench.run(trainer, name)
                    kept[name].setdefault(trainer, []).append(run)
                    say(f"    {figures.rate(run, bench.shape(name)):,.0f} tokens/s, loss {run['steps'][-1]['loss']:.3f}")
        document = {"run": bench.description(), "shapes": {name: bench.shape(name) for name in asked.shapes}, "runs": kept}
    save(os.path.join(asked.out, f"{asked.name}.json"), json.dumps(document, indent=1) + "\n")
    save(os.path.join(asked.out, f"{asked.name}.md"), figures.markdown(document))
    print(figures.markdown(document), end="")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=os.path.abspath, default=PROGRAM, help="target/release/millstream by default")
    parser.add_argument("--python", default=os.environ.get("TORCH_PYTHON", sys.executable), help="one that has PyTorch")
    parser.add_argument("--device", default="flex", help="what train.device is set to; PyTorch takes CUDA for all but flex")
    parser.add_argument("--shapes", type=one_of(SHAPES), default=list(SHAPES), help="such as 1.4M,27M")
    parser.add_argument("--trainers", type=one_of([OURS, *PEERS]), default=[OURS, *PEERS], help="their names, with commas")
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help=f"{ROUNDS} by default")
    parser.add_argument("--steps", type=positive, help="of each run; by default as many as the shape has")
    parser.add_argument("--out", type=os.path.abspath, default=os.path.join(ROOT, "benches", "results"))
    parser.add_argument("--name", default="trainer", help="of the two files that are written; trainer by default")
    asked = parser.parse_args()
    if not os.path.isfile(asked.program):
        parser.error(f"there is no program {asked.program}; build it with: cargo build --release --bin millstream")
    if asked.steps is not None and asked.steps <= WARMUP:
        parser.error(f"--steps must be more than {WARMUP}, the steps that are not counted")
    return asked


class Bench:
    """The trainers, and a corpus that all of them read."""

    def __init__(self, asked, directory):
        self.asked, self.directory = asked, directory
        self.corpus = os.path.join(directory, "corpus.txt")
        most = max(shape["rows"] * shape["length"] * shape["steps"] for shape in map(self.shape, asked.shapes))
        save(self.corpus, figures.text(ROOT, most + 1))
        self.config = os.path.join(directory, "config.toml")
        save(self.config, CONFIG.format(corpus=json.dumps(self.corpus)))
        self.gpu = None
        self.versions = {"Millstream": output_of([asked.program, "--version"]).strip()}

    def shape(self, name):
        shapes = SHAPES if self.asked.device == "flex" else ON_GPU
        return {**shapes[name], **({"steps": self.asked.steps} if self.asked.steps else {})}

    def run(self, trainer, name):
        return self.ours(self.shape(name)) if trainer == OURS else self.peer(trainer, self.shape(name))

    def ours(self, shape):
        with tempfile.TemporaryDirectory(dir=self.directory) as run:
            keys = {
                "model.layers": shape["layers"],
                "model.d_model": shape["width"],
                "model.heads": shape["heads"],
                "model.d_ff": shape["d_ff"],
                "model.vocab_size": shape["vocab"],
                "pipeline.seq_len": shape["length"],
                "pipeline.batch_size": shape["rows"],
                "train.out": json.dumps(run),
                "train.device": json.dumps(self.asked.device),
                "train.steps": shape["steps"],
                **{f"train.{key}": value for key, value in OPTIMIZER.items()},
                "train.schedule": "constant",
                "train.warmup": 0,
                "train.min_lr": 0,
                "train.log_every": 1,
                "train.validate_every": 0,
                "train.checkpoint_every": 0,
                "train.sample_tokens": 0,
            }
            sets = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
            said = output_of([self.asked.program, "train", self.config, *sets, "--json"])
        *steps, end = [json.loads(line) for line in said.splitlines()]
        targets = shape["rows"] * shape["length"]
        steps = [{"loss": step["loss"], "seconds": targets / step["tokens_per_second"]} for step in steps]
        return {"steps": steps, "peak_memory": end["peak_memory"], "predicted_memory": figures.predicted(end["predicted_memory"])}

    def peer(self, trainer, shape):
        precision, compiled = PEERS[trainer]
        device = "cpu" if self.asked.device == "flex" else "cuda"
        asked = {"shape": shape, "optimizer": OPTIMIZER, "precision": precision, "compiled": compiled}
        asked |= {"corpus": self.corpus, "device": device}
        run = json.loads(output_of([self.asked.python, os.path.join(HERE, "peer.py"), json.dumps(asked)]).splitlines()[-1])
        self.versions["PyTorch"] = run.pop("version")
        self.gpu = run.pop("gpu")
        return run

    def description(self):
        asked, command = self.asked, ["python3", "benches/trainer/run.py"]
        command += ["--device", asked.device] if asked.device != "flex" else []
        command += ["--shapes", ",".join(asked.shapes)] if asked.shapes != list(SHAPES) else []
        command += ["--trainers", ",".join(asked.trainers)] if asked.trainers != [OURS, *PEERS] else []
        command += ["--rounds", str(asked.rounds)] if asked.rounds != ROUNDS else []
        command += ["--steps", str(asked.steps)] if asked.steps else []
        command += ["--name", asked.name] if asked.name != "trainer" else []
        machine = f"{self.gpu}, {figures.machine()}" if self.gpu else figures.machine()
        return {"command": shlex.join(command), "versions": self.versions, "machine": machine, "rounds": asked.rounds}


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
