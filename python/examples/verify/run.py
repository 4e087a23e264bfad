#!/usr/bin/env python3
"""Proves six loaders, one after the other, with `millstream.verify`: the loader of each is one short file beside this.

    python3 python/examples/verify/run.py                         # builds millstream, which needs Rust
    python3 python/examples/verify/run.py --wheel millstream.whl  # takes a wheel instead
    python3 python/examples/verify/run.py --only grain,litdata --skip-install

It makes a virtual environment (some 6 GB, most of it PyTorch with CUDA, as PyPI has it) and a corpus in target/verify,
runs each example, prints a table, and writes it as benches/results/verify-peers.md: some ten minutes on two cores, after
the installation. It needs Linux, Python 3.11 on x86-64 for the pinned versions and, the first time, the network.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

sys.path += [str(ROOT / "benches"), str(ROOT / "benches" / "peers")]
from harness import machine  # noqa: E402
from script import one_of, say  # noqa: E402

DIRECTORY = ROOT / "target" / "verify"
RESULT = ROOT / "benches" / "results" / "verify-peers.md"


@dataclass(frozen=True)
class Peer:
    """An example, and what the documentation of its loader says."""

    name: str
    package: str
    script: str
    says: str
    """What its documentation says of the laws, in our words, with links."""
    claims: tuple[str, ...] = ("order", "resume", "world")
    """The laws that it says to hold."""
    arguments: tuple[str, ...] = ()
    folder: str | None = None
    """A folder of packages that goes first on PYTHONPATH."""


TORCHDATA = "https://pytorch.org/data/0.11"
DATASETS = "https://huggingface.co/docs/datasets/stream#save-a-dataset-checkpoint-and-resume-iteration"
GRAIN = "https://google-grain.readthedocs.io/en/latest"
MOSAIC = "https://docs.mosaicml.com/projects/streaming/en/stable/distributed_training"
LITDATA = "https://github.com/Lightning-AI/litData#pause-resume"

PEERS = {
    "millstream": Peer(
        "**Millstream**",
        "millstream",
        "millstream_loader.py",
        "Workers and ranks change no byte, and any number of ranks resumes "
        "([guide](../../docs/guide/resuming.md)).",
    ),
    "torchdata": Peer(
        "torchdata, `StatefulDataLoader`",
        "torchdata",
        "torchdata_loader.py",
        "It gathers the states of worker processes, not of ranks "
        f"([documentation]({TORCHDATA}/torchdata.stateful_dataloader.html)), and takes a state "
        "back only with as many workers. An iterable dataset shares its files among workers, whose "
        "batches come in turn, so their number changes the order.",
        claims=("resume",),
    ),
    "datasets": Peer(
        "Hugging Face datasets, shuffled",
        "datasets",
        "hf_datasets_loader.py",
        f"A resume is exact unless `shuffle` is used: what is in the buffer then is lost, and the buffer is filled anew "
        f"([documentation]({DATASETS})). Each worker reads its part of the files.",
        claims=(),
    ),
    "datasets-in-order": Peer(
        "Hugging Face datasets, in order",
        "datasets",
        "hf_datasets_loader.py",
        f"Without `shuffle` a resume is exact ([documentation]({DATASETS})).",
        claims=("resume",),
        arguments=("--in-order",),
    ),
    "grain": Peer(
        "Grain, packing",
        "grain",
        "grain_loader.py",
        "Packing behind `mp_prefetch` does not depend on the number of worker processes "
        f"([documentation]({GRAIN}/grain.dataset.html)). Packing keeps a state for each rank, so other numbers of ranks "
        "are left to `ElasticIterator`.",
        claims=("order", "resume"),
    ),
    "grain-elastic": Peer(
        "Grain, `ElasticIterator`",
        "grain",
        "grain_loader.py",
        "Any rank's state restores any number of ranks, without steps that pack or filter "
        f"([documentation]({GRAIN}/grain.experimental.html)).",
        arguments=("--elastic",),
    ),
    "mosaic": Peer(
        "MosaicML Streaming",
        "mosaicml-streaming",
        "mosaic_loader.py",
        "The order is the same with any number of ranks "
        f"([documentation]({MOSAIC}/elastic_determinism.html)) and of "
        "workers ([key features](https://docs.mosaicml.com/projects/streaming)), "
        f"and a resume is exact ([documentation]({MOSAIC}/fast_resumption.html)).",
        folder="mosaic",
    ),
    "litdata": Peer(
        "LitData",
        "litdata",
        "litdata_loader.py",
        f"A resume may have other workers and ranks, and repeats nothing ([README]({LITDATA})). It does not say that a "
        "run from the start has the same order then: chunks are dealt to ranks and workers. Runs from the start are "
        "compared with those of one process.",
        claims=("resume",),
    ),
}


def main() -> bool:
    asked, began = arguments(), time.monotonic()
    if not asked.skip_install:
        install(asked)
    # One by one, in the order of the table.
    rows = []
    for key, peer in PEERS.items():
        if key in asked.only:
            say(f"{key} …")
            rows.append((peer, version(asked, peer), proved(asked, peer, "--order"), proved(asked, peer)))
    text = markdown(rows, (time.monotonic() - began) / 60)
    print(text)
    if asked.out:
        asked.out.write_text(text, encoding="utf-8")
    own = [reports for peer, _, *reports in rows if peer.package == "millstream"]
    return not any(report["mismatches"] for reports in own for report in reports)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="millstream's wheel, instead of building it")
    parser.add_argument("--only", type=one_of(PEERS), default=list(PEERS), help=f"some of {', '.join(PEERS)}")
    parser.add_argument("--skip-install", action="store_true", help="take the environment as it is")
    parser.add_argument("--python", type=Path, help="the Python of another environment, which is taken as it is")
    parser.add_argument("--mosaic", type=Path, default=DIRECTORY / "mosaic", help="the folder of MosaicML Streaming")
    parser.add_argument("--out", type=Path, help=f"where the table goes; {RESULT.relative_to(ROOT)} without --only")
    asked = parser.parse_args()
    asked.skip_install = asked.skip_install or asked.python is not None
    asked.python = asked.python or DIRECTORY / "venv" / "bin" / "python"
    asked.out = asked.out or (RESULT if asked.only == list(PEERS) else None)
    return asked


def install(asked: argparse.Namespace) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(DIRECTORY / "venv")], check=True)
    pip = [str(asked.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    constraints = ROOT / "benches" / "peers" / "constraints.txt"
    subprocess.run([*pip, "-r", str(HERE / "requirements.txt"), "-c", str(constraints)], check=True)
    if asked.wheel is None:
        subprocess.run([*pip, "--no-deps", "--force-reinstall", str(ROOT / "python")], check=True)
    else:
        subprocess.run([*pip, "--no-deps", "--force-reinstall", str(asked.wheel)], check=True)
    if "mosaic" in asked.only:
        target = ["--no-deps", "--upgrade", "--target", str(asked.mosaic)]
        subprocess.run([*pip, *target, "-r", str(HERE / "requirements-mosaic.txt")], check=True)


def environment(asked: argparse.Namespace, peer: Peer) -> dict[str, str]:
    """The process's own, with the packages that the peer needs before others."""
    folder = asked.mosaic if peer.folder == "mosaic" else None
    quiet = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu"}
    return {**os.environ, **quiet, **({"PYTHONPATH": str(folder)} if folder else {})}


def version(asked: argparse.Namespace, peer: Peer) -> str:
    code = f"import importlib.metadata; print(importlib.metadata.version({peer.package!r}))"
    command = [str(asked.python), "-c", code]
    return subprocess.check_output(command, text=True, env=environment(asked, peer)).strip()


def proved(asked: argparse.Namespace, peer: Peer, *more: str) -> dict[str, Any]:
    """The report of an example."""
    command = [str(asked.python), str(HERE / peer.script), "--json", *peer.arguments, *more]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(asked, peer), check=False)
    # 1 says that there is a difference; the report is the last line.
    lines = done.stdout.splitlines()
    if done.returncode not in (0, 1) or not lines or not lines[-1].startswith("{"):
        sys.exit(f"{done.stderr}{peer.script} failed with exit code {done.returncode}")
    report: dict[str, Any] = json.loads(lines[-1])
    return report


def markdown(rows: list[tuple[Peer, str, dict[str, Any], dict[str, Any]]], minutes: float) -> str:
    """The table, what the documentation says, and each first difference."""
    batches = max(report["batches"] for _, _, *reports in rows for report in reports)
    out = [
        f"{machine.named()}; Python {platform.python_version()}; `python3 python/examples/verify/run.py`, "
        f"in {minutes:.0f} minutes; {batches} batches of 8 rows:",
        "",
        "| loader | version | order with other workers | exact resume after a kill | other world sizes |",
        "|---|---|---|---|---|",
    ]
    for peer, said, order, resume in rows:
        cells = [verdict(peer, order, "order"), verdict(peer, resume, "resume"), verdict(peer, resume, "world")]
        out.append(f"| {peer.name} | {said} | {' | '.join(cells)} |")
    out += ["", "What the documentation of each says:", ""]
    out += [f"- {peer.name}: {peer.says}" for peer, *_ in rows]
    firsts = [(peer, report["first"]) for peer, _, *reports in rows for report in reports if report["first"]]
    if firsts:
        out += ["", "The first difference of each:", "", *(f"- {peer.name}: {first}" for peer, first in firsts)]
    return "\n".join(out) + "\n"


def verdict(peer: Peer, report: dict[str, Any], law: str) -> str:
    """A cell: what was found, beside what is claimed."""
    checks = [check for check in report["checks"] if check["law"] == law]
    if not checks:
        return "not claimed"
    unequal = [check for check in checks if check["difference"]]
    if not unequal:
        return f"equal, {report['resume_points']} kills" if law == "resume" else "equal"
    if law == "resume":
        return "**differs**" if "resume" in peer.claims else "**differs**, as documented"
    found = "differs" if law == "order" else f"{len(checks) - len(unequal)} of {len(checks)} runs equal"
    return f"**{found}**" if law in peer.claims else f"{found}; not claimed"


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
