#!/usr/bin/env python3
"""How far the loss in bf16 is from that in f32: two runs of one config that differ in `train.precision` alone.

    python3 benches/attention/precision.py RUN_IN_F32 RUN_IN_BF16
    python3 benches/attention/precision.py RUN OTHER_RUN f32 "one core"    # any two runs, and what the columns are called
"""

import json
import sys
import textwrap
from pathlib import Path

# Logged steps that are further apart are named.
NEAR = 0.01


def losses(run):
    """The loss of each logged step, and each validation's."""
    lines = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
    steps = {line["step"]: line["loss"] for line in lines if "loss" in line}
    return steps, {line["step"]: line["validation_loss"] for line in lines if "validation_loss" in line}


def main():
    wide, narrow = map(losses, sys.argv[1:3])
    names = sys.argv[3:5] or ["f32", "bf16"]
    print(f"| step | {names[0]} | {names[1]} | apart |")
    print("|---:|---:|---:|---:|")
    for name, f32, bf16 in zip(("", "validation, "), wide, narrow):
        for step in sorted(f32.keys() & bf16.keys()):
            if name or step % 50 == 0:
                print(f"| {name}{step} | {f32[step]:.4f} | {bf16[step]:.4f} | {bf16[step] / f32[step] - 1:+.2%} |")
    steps = sorted(wide[0].keys() & narrow[0].keys())
    apart = {step: narrow[0][step] / wide[0][step] - 1 for step in steps}
    far = [f"step {step} by {apart[step]:+.2%}" for step in steps if abs(apart[step]) > NEAR]
    means = [sum(of[0][step] for step in steps[-10:]) for of in (wide, narrow)]
    said = (
        f"{len(far)} of {len(steps)} logged steps are more than {NEAR:.0%} apart{': ' if far else ''}{', '.join(far)}. "
        f"The largest distance of any logged step is {max(map(abs, apart.values())):.2%}. The mean of the last ten logged "
        f"steps is {means[1] / means[0] - 1:+.2%} apart."
    )
    print(f"\n{textwrap.fill(said, 118)}")


if __name__ == "__main__":
    main()
