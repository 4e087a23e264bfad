#!/usr/bin/env python3
"""Counts the multiplications and additions that a training step really makes, and compares them with the predicted ones.

    python3 benches/trainer/operations.py

Valgrind runs the program for one step and for three, and counts how often each instruction runs. The difference is two
steps. Those of the products of matrices are fused multiply-adds, two operations for each lane. The count must be what
`millstream check` says of the step, plus what no convention counts: the attention's scores, which are computed again on
the way back. It takes half a minute, and needs Valgrind, objdump and the built program on x86-64:

    cargo build --release --bin millstream
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

from run import CONFIG, PROGRAM, ROOT, output_of, save
from figures import text

SHAPE = {"layers": 1, "d_model": 64, "heads": 2, "d_ff": 128, "vocab_size": 320}
LENGTH, ROWS = 64, 4
# The largest difference that is let pass: tiles at the edges of matrices may be computed whole.
CLOSE = 0.01
LANES = {"%xmm": 4, "%ymm": 8, "%zmm": 16}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=os.path.abspath, default=PROGRAM, help="target/release/millstream by default")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-operations-") as directory:
        corpus, config = os.path.join(directory, "corpus.txt"), os.path.join(directory, "config.toml")
        save(corpus, text(ROOT, 100_000))
        save(config, CONFIG.format(corpus=json.dumps(corpus)))
        checked = output_of([asked.program, "check", config, *settings(directory, 1), "--json"])
        predicted = json.loads(checked)["train"]["cost"]["flops_per_step"]
        runs = [executed(asked.program, config, directory, steps) for steps in (1, 3)]
    two = {address: count - runs[0].get(address, 0) for address, count in runs[1].items()}
    made = sum(two.get(address, 0) * lanes * 2 for address, lanes in multiply_adds(asked.program)) / 2
    # Rows of this length are one block of queries: none of its scores are left out.
    again = ROWS * SHAPE["layers"] * LENGTH * LENGTH * SHAPE["d_model"] * 2
    print(f"made {made / 1e6:.3f} M operations a step, {again / 1e6:.3f} M of them for scores that are computed again")
    off = (made - again) / predicted - 1
    print(f"predicted {predicted / 1e6:.3f} M: {off:+.2%} beside the rest")
    sys.exit(0 if abs(off) < CLOSE else "the prediction is not what is made")


def settings(directory, steps):
    keys = {f"model.{key}": value for key, value in SHAPE.items()}
    keys.update({"pipeline.seq_len": LENGTH, "pipeline.batch_size": ROWS, "train.steps": steps})
    keys.update({f"train.{key}": 0 for key in ("validate_every", "checkpoint_every", "sample_tokens", "warmup")})
    keys["train.out"] = json.dumps(os.path.join(directory, f"run-{steps}"))
    return [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]


def executed(program, config, directory, steps):
    """How often each instruction of the program ran, by its address."""
    counts = os.path.join(directory, f"counts-{steps}")
    valgrind = ["valgrind", "--tool=callgrind", "--dump-instr=yes", f"--callgrind-out-file={counts}"]
    output_of([*valgrind, program, "train", config, *settings(directory, steps)])
    with open(counts, encoding="utf-8") as file:
        return read(file, os.path.basename(program))


def read(lines, program):
    """Callgrind's format: an address, which may be relative to the one before, a line, and a count."""
    found, names, address, here, is_call = {}, {}, 0, False, False
    for line in lines:
        if named := re.match(r"c?ob=\((\d+)\)(?: (.*))?", line):
            number, name = named.groups()
            if name is not None:
                names[number] = os.path.basename(name)
            if line.startswith("ob="):
                here = names[number] == program
        elif line.startswith("calls="):
            is_call = True
        elif place := re.match(r"(0x[0-9a-f]+|[+-]\d+|\*) \S+ (\d+)", line):
            at, count = place.groups()
            address = int(at, 16) if at.startswith("0x") else address + (0 if at == "*" else int(at))
            # The line after a call counts what the called function did.
            if here and not is_call:
                found[address] = found.get(address, 0) + int(count)
            is_call = False
    return found


def multiply_adds(program):
    """The addresses of all fused multiply-adds of f32 vectors, and their lanes."""
    command = ["objdump", "-d", "--no-show-raw-insn", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listing:
        for line in listing.stdout:
            if found := re.match(r"\s*([0-9a-f]+):\s+vf(?:n?m)(?:add|sub)\d+ps\s.*(%[xyz]mm)", line):
                yield int(found[1], 16), LANES[found[2]]


if __name__ == "__main__":
    main()
