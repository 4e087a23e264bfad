#!/usr/bin/env python3
"""What the length of a row costs: tokens a second and peak memory of `millstream train`, of one program or of two.

    python3 benches/attention/run.py --new target/release/millstream [--old PATH] [--lengths 256,1024,4096]

Every run trains the same small model on as many tokens a step, in rows of another length. With `--old`, the two
programs take turns, each pair one after the other, and the ratio is the median of the pairs: the machine drifts.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

CONFIG = """
seed = 1
[[source]]
kind = "text"
paths = ["{text}"]
document = "line"
[tokenizer]
train = {{ vocab_size = 1024, sample = "1MiB" }}
eos = "<|endoftext|>"
[pipeline]
seq_len = {length}
batch_size = {rows}
[model]
layers = {layers}
d_model = {width}
heads = {heads}
d_ff = {d_ff}
[train]
out = "{out}"
steps = {steps}
log_every = 1
validate_every = 1000000
checkpoint_every = 1000000
warmup = 1
{more}
"""


def train(program, folder, text, length, options):
    """One run: median tokens a second of its steps but the first two, and its peak memory in MiB."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        config = Path(out) / "config.toml"
        rows = max(1, options.tokens // length)
        config.write_text(CONFIG.format(
            text=text, length=length, rows=rows, out=Path(out) / "run", steps=options.steps, layers=options.layers,
            width=options.width, heads=options.heads, d_ff=3 * options.width, more=options.more))
        log = Path(out) / "log"
        with log.open("w") as to:
            process = subprocess.Popen([program, "train", str(config)], stdout=to, stderr=to)
            _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            raise SystemExit(log.read_text())
        lines = (Path(out) / "run" / "metrics.jsonl").read_text().splitlines()
        rates = [step["tokens_per_second"] for step in map(json.loads, lines) if "loss" in step]
        return statistics.median(rates[2:]), usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--new", required=True)
    parser.add_argument("--old")
    parser.add_argument("--lengths", default="256,1024,4096")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=4096, help="tokens a step")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--more", default="", help="more lines of [train]")
    options = parser.parse_args()
    options.more = options.more.replace(";", "\n")
    names = ["old", "new"] if options.old else ["new"]
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        sources = Path(__file__).resolve().parents[2]
        parts = [path.read_text() for top in ("src", "tests", "docs") for path in sorted((sources / top).rglob("*.*"))
                 if path.suffix in (".rs", ".md")]
        text.write_text("\n".join(parts))
        header = [f"{name} {what}" for name in names for what in ("tokens/s", "peak MiB")]
        print("| length | rows |", " | ".join(header), "| speed | memory |" if options.old else "|")
        print("|" + "---:|" * (2 + len(header) + 2 * bool(options.old)))
        for length in map(int, options.lengths.split(",")):
            runs = {name: [] for name in names}
            for _ in range(options.pairs):
                for name in names:
                    runs[name].append(train(getattr(options, name), folder, text, length, options))
            row = [f"{statistics.median(values):,.0f}" for name in names for values in zip(*runs[name])]
            if options.old:
                pairs = list(zip(runs["new"], runs["old"]))
                row += [f"{statistics.median(new[i] / old[i] for new, old in pairs):.2f}" for i in (0, 1)]
            print(f"| {length:,} | {max(1, options.tokens // length)} |", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
