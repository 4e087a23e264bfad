"""The corpus, the tokenizer and the shards, made once for a size and kept."""

import array
import glob
import json
import os
import shutil
import subprocess
import sys

from . import children, corpus
from .names import PREPARED
from .plan import Plan

EOS = "<|endoftext|>"
SEQ_LEN, BATCH_SIZE, WINDOW, WORKERS, SEED, VOCABULARY = 1024, 16, 10_000, 2, 42, 16_384
LANES = 16

CONFIG = """\
seed = {seed}

[[source]]
{source}

[tokenizer]
{tokenizer}
eos = "{eos}"

[pipeline]
epochs = 1
lanes = {lanes}
window = {window}
seq_len = {seq_len}
batch_size = {batch_size}
workers = {workers}
"""


def make(asked, python, packages, child):
    """A plan, and what every loader's one epoch must be. What was made before by the same numbers is taken as it is."""
    home = os.path.join(asked.directory, f"{asked.megabytes}MB")
    texts = os.path.join(home, "corpus")
    plan = Plan(
        python=python,
        packages=packages,
        cache=os.path.join(asked.directory, "cache"),
        scratch=home,
        work=os.path.join(home, "work.json"),
        millstream=asked.millstream,
        online=os.path.join(home, "online.toml"),
        shards=os.path.join(home, "shards.toml"),
        batches=0,
        seconds=asked.seconds,
        wait_batches=asked.wait_batches,
        consume_ms=20.0,
    )
    made = os.path.join(home, "made")
    signature = f"{asked.glob} {asked.megabytes} {asked.document} {' '.join(PREPARED)}"
    if not os.path.exists(made) or open(made, encoding="utf-8").read() != signature:
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(texts)
        corpus.make(asked.glob, texts, asked.megabytes * 1_000_000, asked.document)
        tokens(plan, home, texts)
    work = describe(plan, home, texts)
    with open(plan.work, "w", encoding="utf-8") as file:
        json.dump(work, file, indent=1)
    if not os.path.exists(made):
        for loader in PREPARED:
            try:
                children.run([*child, "prepare", loader, "--work", plan.work], folder(packages, loader))
            except children.Failed as failed:
                print(f"{loader}: its files cannot be made: {failed}", file=sys.stderr)
        with open(made, "w", encoding="utf-8") as file:
            file.write(signature)
    reference, _ = children.run([*child, "reference", "--work", plan.work])
    plan = Plan(**{**plan.__dict__, "batches": -(-work["rows"] // BATCH_SIZE)})
    plan.save(os.path.join(home, "plan.json"))
    return os.path.join(home, "plan.json"), reference


def folder(packages, name):
    return {"PYTHONPATH": packages[name]} if name in packages else {}


def tokens(plan, home, texts):
    """The tokenizer, Millstream's shards, and a file of ids for everybody else."""
    names = ("tokenizer.json", "shards", "ids.bin")
    tokenizer, shards, ids = (os.path.join(home, name) for name in names)
    source = f'kind = "jsonl"\nfield = "text"\npaths = ["{texts}/*.jsonl"]'
    learn = os.path.join(home, "learn.toml")
    config(learn, source, f'train = {{ vocab_size = {VOCABULARY}, sample = "16MiB" }}')
    config(plan.online, source, f'path = "{tokenizer}"')
    config(plan.shards, f'kind = "shards"\npaths = ["{shards}"]', f'path = "{tokenizer}"')
    for command in (
        ["tokenizer", "train", learn, "-o", tokenizer],
        ["prepare", plan.online, "-o", shards],
        ["export", shards, "--to", "nanogpt", "--eos", EOS, "-o", ids],
    ):
        subprocess.run([plan.millstream, *command], check=True, stdout=sys.stderr)


def config(path, source, tokenizer):
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            CONFIG.format(
                seed=SEED,
                source=source,
                tokenizer=tokenizer,
                eos=EOS,
                lanes=LANES,
                # Each lane has a window of its own: together they hold as many documents as the others' one.
                window=WINDOW // LANES,
                seq_len=SEQ_LEN,
                batch_size=BATCH_SIZE,
                workers=WORKERS,
            )
        )


def describe(plan, home, texts):
    """The work, for its file; the file of ids is filled up with eos to whole rows."""
    with open(os.path.join(home, "tokenizer.json"), encoding="utf-8") as file:
        eos = json.load(file)["model"]["vocab"][EOS]
    ids = os.path.join(home, "ids.bin")
    count = os.path.getsize(ids) // 2
    lacking = -(count - 1) % SEQ_LEN
    filling = array.array("H", [eos] * lacking)
    if sys.byteorder == "big":
        filling.byteswap()
    with open(ids, "ab") as file:
        filling.tofile(file)
    return {
        "files": sorted(glob.glob(os.path.join(texts, "*.jsonl"))),
        "tokenizer": os.path.join(home, "tokenizer.json"),
        "eos": eos,
        "ids": ids,
        "rows": (count + lacking - 1) // SEQ_LEN,
        "mds": os.path.join(home, "mds"),
        "litdata": os.path.join(home, "litdata"),
        "parquet": os.path.join(home, "parquet"),
        "millstream": plan.millstream,
        "online": plan.online,
        "shards": plan.shards,
        "window": WINDOW,
        "seq_len": SEQ_LEN,
        "batch_size": BATCH_SIZE,
        "workers": WORKERS,
        "seed": SEED,
    }
