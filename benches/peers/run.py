#!/usr/bin/env python3
"""Millstream beside other loaders: the same work, one after the other, on this machine. README.md says what is equal.

    python3 benches/peers/run.py             # everything, some 35 minutes on two cores
    python3 benches/peers/run.py --quick     # every loader once, on little text, with one tokenizer

It makes a virtual environment and the corpus in target/peers, measures, prints the tables, and writes them as
benches/results/peers.md and peers.json. It needs Linux, Python 3.11 and, the first time, the network.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time

from harness import environment, inputs, machine, report
from harness.names import COMPLETE, ENGINES, LABELS, ONLINE, OWN_TURNS, SHARDS

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from script import one_of, save, say

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

# Megabytes of text: of the whole run, and of a quick one.
USUAL = (256, 16)


def main():
    asked, begun = arguments(), time.time()
    if asked.millstream is None:
        subprocess.run(["cargo", "build", "--release", "--bin", "millstream"], check=True, cwd=ROOT)
        asked.millstream = os.path.join(ROOT, "target", "release", "millstream")
    os.makedirs(asked.directory, exist_ok=True)
    if not asked.skip_install:
        environment.make(asked.directory)
        environment.install(asked.directory, asked.wheel or os.path.join(ROOT, "python"))
    python, packages = environment.python_of(asked.directory), environment.packages(asked.directory)
    plan, reference = inputs.make(asked, python, packages, [python, os.path.join(HERE, "child.py")])
    say(f"one epoch: {reference['documents']} documents, {reference['tokens']} tokens")

    results = measure(asked, plan, reference)
    document = {"run": description(asked, begun), "reference": reference, "results": results}
    text = report.markdown(document)
    if asked.out:
        os.makedirs(asked.out, exist_ok=True)
        save(os.path.join(asked.out, "peers.json"), json.dumps(document, indent=1))
        save(os.path.join(asked.out, "peers.md"), text)
    print(text)
    return all(row["same_work"] for row in results if row["loader"].startswith("millstream"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="16 MB, tiktoken only, short looks; writes no files")
    parser.add_argument("--only", type=one_of(LABELS), help="these loaders beside Millstream, such as plain,grain")
    parser.add_argument("--engines", type=one_of(ENGINES), help="these tokenizers, such as released,tiktoken")
    parser.add_argument("--skip-install", action="store_true", help="take the virtual environment as it is")
    parser.add_argument("--millstream", type=os.path.abspath, help="the program, instead of building it")
    parser.add_argument("--wheel", type=os.path.abspath, help="the Python package as a wheel, instead of building it")
    parser.add_argument("--glob", default="~/.cargo/registry/src/*/*/src/**/*.rs", help="the files the corpus is made of")
    parser.add_argument("--megabytes", type=int, help="of text; 256, or 16 if --quick")
    parser.add_argument("--document", type=int, default=2048, help="the longest document, in bytes")
    parser.add_argument("--directory", type=os.path.abspath, default=os.path.join(ROOT, "target", "peers"))
    parser.add_argument("--out", type=os.path.abspath, help="where the tables go; benches/results, or nowhere if --quick")
    parser.add_argument("--wrap", type=shlex.split, default=[], help="a command to start each loader's measurements by")
    asked = parser.parse_args()
    asked.megabytes = asked.megabytes or USUAL[asked.quick]
    asked.engines = asked.engines or usual_engines(asked)
    asked.seconds, asked.wait_batches = (2.0, 50) if asked.quick else (6.0, 150)
    if asked.out is None and not asked.quick:
        asked.out = os.path.join(ROOT, "benches", "results")
    return asked


def usual_engines(asked):
    return ["tiktoken"] if asked.quick else list(ENGINES)


def measure(asked, plan, reference):
    """All loaders in turn, with Millstream at the start, in the middle and at the end."""
    peers = [*COMPLETE, *(("online", loader, engine) for engine in asked.engines for loader in ONLINE)]
    peers += [("shards", loader, None) for loader in SHARDS]
    peers = [peer for peer in peers if asked.only is None or peer[1] in asked.only]
    own = list(OWN_TURNS)
    middle = len(peers) // 2
    turns = own + peers[:middle] + own + peers[middle:] + own
    results, owned = [], {turn: [] for turn in own}
    for number, (kind, loader, engine) in enumerate(turns, 1):
        command = [*asked.wrap, sys.executable, os.path.join(HERE, "measure.py"), plan, loader, *filter(None, [engine])]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        found = {"kind": kind, "loader": loader, "engine": engine, **json.loads(said.splitlines()[-1])}
        found["same_work"] = report.judge(found, reference)
        say(f"{number}/{len(turns)} {json.dumps(found)}")
        if (kind, loader, engine) in owned:
            owned[kind, loader, engine].append(found)
        else:
            results.append(found)
    return [report.median(turns) for turns in owned.values()] + results


def description(asked, begun):
    command = ["python3", "benches/peers/run.py"] + (["--quick"] if asked.quick else [])
    command += ["--engines", ",".join(asked.engines)] if asked.engines != usual_engines(asked) else []
    command += ["--only", ",".join(asked.only)] if asked.only else []
    command += ["--megabytes", str(asked.megabytes)] if asked.megabytes != USUAL[asked.quick] else []
    return {
        "command": shlex.join(command),
        "machine": machine.named(),
        "corpus": f"{asked.megabytes} MB of source code in documents of {asked.document} bytes and less",
        "minutes": (time.time() - begun) / 60,
        "python": platform.python_version(),
        "tokenizers": asked.engines,
    }


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
