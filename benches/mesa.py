#!/usr/bin/env python3
"""Trains the same steps on a GPU device and on the CPU, and compares them. It fails if they differ by too much.

    cargo build --release --features wgpu --bin millstream
    python3 benches/mesa.py                       # any device that wgpu finds; Mesa's software device if asked for:
    CUBECL_WGPU_DEFAULT_DEVICE=Cpu python3 benches/mesa.py --keep mesa

It needs Python 3.11, the built program and a Vulkan driver. Debian's `mesa-vulkan-drivers` has one that needs no GPU.
burn tunes as little as it can: it picks kernels by their speed, and other kernels round differently. What it picks is kept
for the next run. `--keep NAME` writes the table to benches/results/NAME.md.
"""

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from script import save, say

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "target", "release", "millstream")
RESULTS = os.path.join(ROOT, "benches", "results")
STEPS = 20

# How far a step's loss may be from the CPU's, in parts of it. Both add the same f32 numbers in different orders.
ALLOWED = 1e-5
# The same in bf16, which has three significant digits.
ALLOWED_BF16 = 1e-2

# The spans of a step.
SPANS = {
    "step": "all of it",
    "upload": "sending the batch",
    "gradients": "queueing forward and backward, and the upload",
    "optimizer": "queueing the optimizer",
    "flush": "handing the end of the queue to the device",
    "results": "waiting for the loss of the step before",
}

# How long a span that must not wait may take, in parts of the step.
ALLOWED_WAIT = 1e-2

# Lines are short documents: a row of 64 tokens holds several.
CONFIG = """
seed = 42

[[source]]
kind = "text"
paths = ["{source}/**/*.rs"]

[tokenizer]
train = {{ vocab_size = 512, sample = "1MiB" }}
eos = "<|endoftext|>"

[pipeline]
seq_len = 64
batch_size = 4
holdout = 0.05
workers = 1
memory = "32MiB"

[model]
layers = 2
d_model = 64
heads = 2
d_ff = 128

[train]
lr = 3e-3
warmup = 5
log_every = 1
validate_every = 20
validation_batches = 4
checkpoint_every = 10
sample_tokens = 0
"""

# What each case sets beside that.
CASES = {
    "as it is": {},
    "three batches a step": {"train.accumulate": 3},
    "masked documents": {"train.mask_documents": "true"},
    "GELU, head not tied": {"model.activation": '"gelu"', "model.tied": "false"},
}

# Where the Vulkan loader and Mesa's OpenGL find no driver.
NO_DRIVER = {
    "VK_DRIVER_FILES": "/nonexistent",
    "VK_ICD_FILENAMES": "/nonexistent",
    "__EGL_VENDOR_LIBRARY_FILENAMES": "/nonexistent",
}

# cubecl writes a line for each kernel that it launches.
COUNTED = """
[profiling.logger]
level = "minimal"
file = "kernels.log"
append = false
"""


def main():
    asked = arguments()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="millstream-mesa-") as directory:
        bench = Bench(asked, directory)
        bench.without_a_driver()
        rows = [bench.compared(name, keys) for name, keys in CASES.items()]
        rows += bench.in_bf16()
        rows += bench.resumed()
        rows += bench.generated()
        waits = bench.waits()
        report = markdown(asked, bench, rows, waits, bench.launches(), time.monotonic() - began)
    print(report, end="")
    if asked.keep:
        save(os.path.join(RESULTS, f"{asked.keep}.md"), report)
    if not all(row["good"] for row in rows):
        sys.exit("the device and the CPU differ")
    if any(waits[name] > ALLOWED_WAIT * waits["step"] for name in bench.without_wait()):
        sys.exit("the trainer waits for an upload or a loss")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=os.path.abspath, default=PROGRAM, help="target/release/millstream by default")
    parser.add_argument("--device", default="wgpu", help="what train.device is set to; wgpu by default")
    parser.add_argument("--keep", metavar="NAME", help="write the table to benches/results/NAME.md")
    asked = parser.parse_args()
    if not os.path.isfile(asked.program):
        parser.error(f"there is no {asked.program}: cargo build --release --features wgpu --bin millstream")
    return asked


class Bench:
    """The program, one tokenizer for all runs, and a directory for them."""

    def __init__(self, asked, directory):
        self.asked, self.directory, self.runs = asked, directory, {}
        self.version = self.call("--version").strip()
        learning, self.config = self.path("learning.toml"), self.path("config.toml")
        text = CONFIG.format(source=os.path.join(ROOT, "src"))
        save(learning, text)
        tokenizer = self.path("tokenizer.json")
        save(self.config, re.sub(r"(?m)^train = .*$", f"path = {json.dumps(tokenizer)}", text))
        self.call("tokenizer", "train", learning, "-o", tokenizer)
        checked = json.loads(self.call("check", *self.setting(asked.device, "none", {}), "--json"))
        self.gpu = checked["train"]["device_name"]

    def compared(self, name, keys, precision="f32", allowed=ALLOWED):
        """A row of the table: a case on the device and on the CPU, step by step."""
        say(f"{name} …")
        gpu = self.train(self.asked.device, name, {**keys, "train.precision": f'"{precision}"'})
        cpu = self.train("flex", name, keys)
        pairs = [(step["loss"], other["loss"]) for step, other in zip(gpu["steps"], cpu["steps"], strict=True)]
        pairs.append((gpu["end"]["validation_loss"], cpu["end"]["validation_loss"]))
        return row(name, pairs, allowed)

    def in_bf16(self):
        """bf16 on the device beside f32 on the CPU, if the device has it."""
        name = "bf16 beside f32"
        try:
            self.call("check", *self.setting(self.asked.device, name, {"train.precision": '"bf16"'}))
        except Failed as failed:
            said = failed.said.rsplit(": ", 1)[-1]
            return [{"name": name, "said": said, "good": "cannot compute in bf16" in said}]
        return [self.compared(name, {}, "bf16", ALLOWED_BF16)]

    def resumed(self):
        """The second half of the first case, once more from the checkpoint in its middle. A GPU adds up the embedding's
        gradient in an order that varies, so its last bits may differ.
        """
        say("resuming …")
        name, half = next(iter(CASES)), STEPS // 2
        whole = self.runs[self.asked.device, name]["steps"]
        run = self.out(self.asked.device, name)
        again = of_run(self.call("train", "--resume", run, "--at", str(half), "--json"))["steps"]
        pairs = [(step["loss"], other["loss"]) for step, other in zip(again, whole[half:], strict=True)]
        return [row("resumed beside not interrupted", pairs, ALLOWED)]

    def generated(self):
        """What both models write, without chance."""
        say("generating …")
        name = next(iter(CASES))
        texts = [
            self.call("generate", self.out(device, name), "pub fn ", "--tokens", "24", "--temperature", "0")
            for device in (self.asked.device, "flex")
        ]
        same = texts[0] == texts[1]
        return [{"name": "24 tokens of text", "said": "the same" if same else f"{texts}", "good": same}]

    def waits(self):
        """What the trainer's thread spends its time on in the first case: the medians of the trace's spans, in ms."""
        with open(self.trace(self.asked.device, next(iter(CASES))), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        steps = sorted(event["ts"] for event in events if event["name"] == "step")
        # Before the middle the driver compiles kernels; after the last step is the validation.
        times = {name: [] for name in SPANS}
        for event in events:
            if event["name"] in SPANS and steps[STEPS // 2] <= event["ts"] <= steps[-1]:
                times[event["name"]].append(event["dur"] / 1e3)
        return {name: statistics.median(times[name]) for name in SPANS}

    def without_wait(self):
        """The spans that must not wait. Mesa's software device takes a step up only when the one before is done, so its
        loss is there when it is read, unless it was asked for too late. A GPU may well be at it still.
        """
        return ("upload", "results") if "llvmpipe" in self.gpu else ("upload",)

    def launches(self):
        """How many kernels the device is sent for one step, and how many of them are a layer's."""
        say("counting kernels …")
        of_step = self.launched(2)
        return of_step, self.launched(3) - of_step

    def launched(self, layers):
        """How many kernels a step of so many layers launches: the difference of two runs of different lengths."""
        counts = []
        for steps in (2, 4):
            name = f"counted-{layers}-{steps}"
            directory = self.path(name)
            os.mkdir(directory)
            save(os.path.join(directory, "cubecl.toml"), COUNTED)
            keys = {"train.validate_every": 0, "model.layers": layers}
            self.train(self.asked.device, name, keys, steps, cwd=directory)
            with open(os.path.join(directory, "kernels.log"), encoding="utf-8") as file:
                counts.append(sum("Executing" in line for line in file))
        return (counts[1] - counts[0]) // 2

    def without_a_driver(self):
        """Where there is no driver, one sentence says so before anything is made."""
        say("without a driver …")
        name = "no driver"
        for command in ("check", "train"):
            try:
                self.call(command, *self.setting(self.asked.device, name, {}), env=NO_DRIVER)
            except Failed as failed:
                if failed.said.count("\n") > 0 or "was found on this machine" not in failed.said:
                    sys.exit(f"without a driver, `{command}` says:\n{failed.said}")
            else:
                sys.exit(f"without a driver, `{command}` does not fail")
        if os.path.exists(self.out(self.asked.device, name)):
            sys.exit("without a driver, a run directory was made")

    def train(self, device, name, keys, steps=STEPS, **others):
        setting = self.setting(device, name, keys, steps)
        said = self.call("train", *setting, "--trace", self.trace(device, name), "--json", **others)
        self.runs[device, name] = run = of_run(said)
        return run

    def setting(self, device, name, keys, steps=STEPS):
        """The config, and what is set in it."""
        keys = {"train.device": f'"{device}"', "train.steps": steps, "train.out": json.dumps(self.out(device, name)), **keys}
        return [self.config, *(part for key, value in keys.items() for part in ("--set", f"{key}={value}"))]

    def call(self, *arguments, env=None, cwd=None):
        """What the program prints; `Failed` if it fails."""
        command = [self.asked.program, *arguments]
        environment = {"CUBECL_AUTOTUNE_LEVEL": "minimal", **os.environ, **(env or {})}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd or self.directory)
        if ended.returncode != 0:
            raise Failed(command, ended)
        return ended.stdout

    def out(self, device, name):
        return self.path(f"{device} {name}")

    def trace(self, device, name):
        return self.path(f"{device} {name}.json")

    def path(self, name):
        return os.path.join(self.directory, name)


class Failed(Exception):
    """The program failed; `said` is what it said."""

    def __init__(self, command, ended):
        self.said = ended.stderr.strip()
        super().__init__(f"{self.said}\n{shlex.join(command)} failed with exit code {ended.returncode}")


def of_run(said):
    """The steps of a run and its end, from what `train --json` prints."""
    *lines, end = [json.loads(line) for line in said.splitlines()]
    return {"steps": [line for line in lines if "loss" in line], "end": end}


def row(name, pairs, allowed):
    """The largest difference of some pairs of losses, in parts of the second."""
    difference = max(abs(one - other) / abs(other) for one, other in pairs)
    last = pairs[-1]
    return {"name": name, "last": last, "difference": difference, "allowed": allowed, "good": difference <= allowed}


def markdown(asked, bench, rows, waits, launches, seconds):
    parts = [
        f"`python3 benches/mesa.py`, {bench.version}, `train.device = \"{asked.device}\"`, which is {bench.gpu}: {STEPS} "
        "steps of a model of 2 layers and width 64, four rows of 64 tokens a batch, beside the same on `flex`. "
        f"It took {seconds:.0f} s.",
        "The difference is the largest of any step's loss and the validation loss, in parts of the loss on the CPU.",
    ]
    lines = ["| case | last loss | on the CPU | difference | allowed |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        if "said" in row:
            cells = [row["name"], row["said"], "", "", ""]
        else:
            cells = [row["name"], *(f"{loss:.6f}" for loss in row["last"]), f"{row['difference']:.1e}", f"{row['allowed']:g}"]
        lines.append("| " + " | ".join(cells) + " |")
    parts.append("\n".join(lines))
    parts.append(
        f"One step launches {launches[0]} kernels, {launches[1]} of them for each layer. The trainer's thread spends its time so (the medians of the spans in a "
        f"trace of the last {STEPS // 2} steps of the first case):"
    )
    lines = ["| span | what it is | ms |", "|---|---|---:|"]
    lines += [f"| `{name}` | {what} | {waits[name]:.2f} |" for name, what in SPANS.items()]
    parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(str(failed))
