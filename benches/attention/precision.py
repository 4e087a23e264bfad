#!/usr/bin/env python3
"""How far the loss in bf16 is from that in f32: two runs of one config that differ in `train.precision` alone.

    python3 benches/attention/precision.py RUN_IN_F32 RUN_IN_BF16
"""

import json
import sys
from pathlib import Path


def losses(run):
    """The loss of each logged step, and each validation's."""
    lines = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
    steps = {line["step"]: line["loss"] for line in lines if "loss" in line}
    return steps, {line["step"]: line["validation_loss"] for line in lines if "validation_loss" in line}


def main():
    wide, narrow = map(losses, sys.argv[1:3])
    print("| step | f32 | bf16 | apart |")
    print("|---:|---:|---:|---:|")
    for name, f32, bf16 in zip(("", "validation, "), wide, narrow):
        for step in sorted(f32.keys() & bf16.keys()):
            if name or step % 50 == 0:
                print(f"| {name}{step} | {f32[step]:.4f} | {bf16[step]:.4f} | {bf16[step] / f32[step] - 1:+.2%} |")
    steps = sorted(wide[0].keys() & narrow[0].keys())
    apart = [narrow[0][step] / wide[0][step] - 1 for step in steps]
    means = [sum(of[0][step] for step in steps[-10:]) for of in (wide, narrow)]
    print(f"\nThe largest distance of any logged step is {max(map(abs, apart)):.2%}. The mean of the last ten logged steps")
    print(f"is {means[1] / means[0] - 1:+.2%} apart.")


if __name__ == "__main__":
    main()
