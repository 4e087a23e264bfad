#!/usr/bin/env python3
"""How fast products of matrices are on this CPU: PyTorch's in f32 and in bf16, and Millstream's in f32.

    python3 benches/trainer/products.py --python /path/to/one/with/torch/bin/python

It says what the trainers of `run.py` can reach at most. All of them take all cores, in turns, three times; the best
counts. Needed: PyTorch (`--python` names another interpreter that has it), and the built program:

    cargo build --release --bin millstream
"""

import argparse
import json
import os
import sys
import time

from run import PROGRAM, ROOT, output_of

SIZES = (768, 1536, 3072)
TURNS = 3
SECONDS = 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=os.path.abspath, default=PROGRAM, help="target/release/millstream by default")
    parser.add_argument("--python", default=os.environ.get("TORCH_PYTHON", sys.executable), help="one that has PyTorch")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.in_this_process:
        return print(json.dumps(of_pytorch()))
    best = {}
    for _ in range(TURNS):
        for name, rate in {**of_millstream(asked.program), **called(asked.python, os.path.abspath(__file__), "--in-this-process")}.items():
            best[name] = max(best.get(name, 0), rate)
    for name, rate in best.items():
        print(f"{name:16} {rate / 1e9:6.1f} GFLOP/s")


def of_millstream(program):
    measured = called(program, "bench", "device", os.path.join(ROOT, "configs", "quickstart.toml"), "--json")
    return {"Millstream f32": measured["flops_per_second"]}


def of_pytorch():
    import torch

    return {f"PyTorch {name}": max(rate(torch, kind, size) for size in SIZES) for name, kind in (("f32", torch.float32), ("bf16", torch.bfloat16))}


def rate(torch, kind, size):
    """The operations per second of the shortest product."""
    left, right = (torch.rand(size, size).to(kind) for _ in range(2))
    left @ right
    times, began = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - began < SECONDS:
        start = time.perf_counter()
        left @ right
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times)


def called(*command):
    """The last line of JSON that a process prints."""
    return json.loads(output_of(command).splitlines()[-1])


if __name__ == "__main__":
    main()
