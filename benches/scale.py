"""What a corpus of many tokens costs on many machines: constants that are measured here, and what they come to.

    cargo build --release
    python3 benches/scale.py --tokens 15e12 --ranks 1024

Nothing of that size is read. The program prepares and opens corpora of two sizes on this machine, and what the larger one
takes beyond the smaller one, for each file, split or lane, is the constant. The text for the rate of tokenizing is the
Rust that cargo has unpacked. It takes about three minutes on two cores.

| option | what it says | default |
|---|---|---|
| `--tokens N` | the tokens of an epoch | 15e12 |
| `--ranks N` | how many processes train | 1024 |
| `--machines N` | how many machines prepare, each like this one | 100 |
| `--file SIZE` | the length of a file of text, in bytes | 1e9 |
| `--vocab N` | the size of the vocabulary: up to 65,536 an id takes two bytes | 128000 |
| `--step N` | the tokens of a training step of all ranks together | 4194304 |
| `--bin PATH` | the program | target/release/millstream |
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import script

# How many files the two corpora have. Each file is one split.
FEW, MANY = 4_000, 40_000

# How many lanes the two cursors have.
NARROW, WIDE = 64, 1024

# How many splits a source is cut into and at most, and how long they are at most: in a source of few files, and in one of
# at least as many as splits are wanted, which are cut where they are so many times as long as others
# (`src/source/split_size.rs`).
SPLITS, MOST_SPLITS = 1 << 10, 1 << 18
LONGEST, LONGEST_OF_MANY, LONG_OF_MANY = 256 << 10, 64 << 20, 4

# The bytes of a document's entry in the index, and those of the checksum of as many bytes (`src/segment/format.rs`).
ENTRY, SUM, SUMMED = 48, 8, 16 << 10

# How much one request asks for by default (`store.block`).
BLOCK = 4 << 20

BYTES = '[tokenizer]\nkind = "bytes"\n'

RUST = "~/.cargo/registry/src/**/*.rs"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=float, default=15e12)
    parser.add_argument("--ranks", type=script.positive, default=1024)
    parser.add_argument("--machines", type=script.positive, default=100)
    parser.add_argument("--file", type=float, default=1e9)
    parser.add_argument("--vocab", type=script.positive, default=128_000)
    parser.add_argument("--step", type=script.positive, default=4 << 20)
    parser.add_argument("--bin", default="target/release/millstream")
    arguments = parser.parse_args()
    arguments.bin = os.path.abspath(arguments.bin)
    with tempfile.TemporaryDirectory() as directory:
        constants = measure(arguments.bin, directory)
    show(constants, arguments)


def measure(program, directory):
    """The constants, by name."""
    few, many = (corpus(program, directory, files) for files in (FEW, MANY))

    def slope(name):
        return (many[name] - few[name]) / (MANY - FEW)

    narrow, wide = (cursor(program, few["shards"], directory, lanes) for lanes in (NARROW, WIDE))
    return {
        "manifest": slope("manifest"),
        "list": slope("list"),
        "memory": slope("memory"),
        "open": slope("open"),
        "lane": (wide - narrow) / (WIDE - NARROW),
        **rates(program, directory),
    }


def corpus(program, directory, files):
    """Prepares so many files, and opens the shards."""
    script.say(f"preparing and opening {files} files")
    texts = os.path.join(directory, f"texts-{files}")
    os.mkdir(texts)
    for number in range(files):
        with open(os.path.join(texts, f"part-{number:06}.txt"), "w", encoding="utf-8") as file:
            file.write(f"A short text of file {number}, which stands for a long one.\n")
    config = written(directory, f'[[source]]\npaths = ["{texts}/*.txt"]\n{BYTES}')
    shards = os.path.join(directory, f"shards-{files}")
    script.output_of([program, "prepare", config, "-o", shards])
    size = {name: os.path.getsize(os.path.join(shards, name)) for name in ("manifest.json", "segments.json")}
    began = time.monotonic()
    memory = peak([program, "digest", of_shards(directory, shards, BYTES), "-n", "1"])
    return {
        "shards": shards,
        "manifest": size["manifest.json"],
        "list": size["segments.json"],
        "memory": memory,
        "open": time.monotonic() - began,
    }


def cursor(program, shards, directory, lanes):
    """The length of a cursor of so many lanes, in bytes."""
    config, file = of_shards(directory, shards, BYTES), os.path.join(directory, "cursor.json")
    settings = [f"pipeline.lanes={lanes}", f"pipeline.batch_size={lanes}", "pipeline.seq_len=64"]
    settings = [part for setting in settings for part in ("--set", setting)]
    script.output_of([program, "digest", config, "-n", "2", "--cursor-at", "2", file, *settings])
    return os.path.getsize(file)


def rates(program, directory):
    """How fast text becomes tokens and tokens become batches here, and how many bytes either takes."""
    script.say("preparing the Rust that cargo has unpacked, and reading it")
    text = f'[[source]]\npaths = ["{RUST}"]\ndocument = "file"\n[tokenizer]\n'
    tokenizer = os.path.join(directory, "tokenizer.json")
    learn = written(directory, f"{text}train = {{ vocab_size = 32_000 }}\n")
    script.output_of([program, "tokenizer", "train", learn, "-o", tokenizer])
    config, shards = written(directory, f'{text}path = "{tokenizer}"\n'), os.path.join(directory, "shards")
    made = json.loads(script.output_of([program, "prepare", config, "-o", shards, "--json"]))
    bench = [program, "bench", "loader", of_shards(directory, shards), "-n", "8000", "--json"]
    read = json.loads(script.output_of(bench).splitlines()[-1])
    return {
        "text": made["text_bytes"] / made["tokens"],
        "document": made["tokens"] / made["documents"],
        "prepare": made["tokens"] / made["seconds"],
        "read": read["tokens_per_second"],
    }


def of_shards(directory, shards, tokenizer=""):
    """A config that reads shards."""
    return written(directory, f'[[source]]\nkind = "shards"\npaths = ["{shards}"]\n{tokenizer}')


def written(directory, text):
    """A config with this text."""
    path = os.path.join(directory, "config.toml")
    script.save(path, text)
    return path


def peak(command):
    """The peak resident memory of a process, in bytes."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)} failed")
    return usage.ru_maxrss * 1024


def show(constants, arguments):
    tokens, ranks = arguments.tokens, arguments.ranks
    text = tokens * constants["text"]
    files = math.ceil(text / arguments.file)
    splits = cut(text, files)
    width = 2 if arguments.vocab <= 1 << 16 else 4
    documents = tokens / constants["document"]
    index = documents * ENTRY
    stored = tokens * width + index
    stored += stored / SUMMED * SUM
    begin = files * constants["manifest"] + splits * constants["list"]
    print("measured here, with the command above:\n")
    table(
        [
            ("bytes of text a token", f"{constants['text']:.2f}"),
            ("tokens a document", f"{constants['document']:,.0f}"),
            ("tokens a second, from text to shards", f"{constants['prepare'] / 1e6:,.1f} M"),
            ("tokens a second, from shards to batches", f"{constants['read'] / 1e6:,.0f} M"),
            ("bytes of manifest.json a file", f"{constants['manifest']:,.0f}"),
            ("bytes of segments.json a split", f"{constants['list']:,.0f}"),
            ("memory a file and split, once opened", f"{constants['memory']:,.0f} bytes"),
            ("time to open, a file and split", f"{constants['open'] * 1e6:,.1f} us"),
            ("bytes of a cursor a lane", f"{constants['lane']:,.0f}"),
        ]
    )
    print(f"\n{tokens:,.0f} tokens on {ranks:,} ranks, with {ranks:,} lanes:\n")
    table(
        [
            ("text", f"{size(text)} in {files:,} files"),
            ("token shards", f"{size(stored)}: ids of {width} bytes, and {size(index)} of index"),
            ("splits", f"{splits:,} of about {size(stored / splits)}; {splits / ranks:,.0f} a lane"),
            (
                f"preparing on {arguments.machines:,} such machines",
                f"{tokens / constants['prepare'] / arguments.machines / 3600:,.1f} hours",
            ),
            ("requests of an epoch", f"{stored / BLOCK / 1e6:,.1f} M of {size(BLOCK)}"),
            ("of each rank", f"{stored / ranks / BLOCK:,.0f} requests, {size(stored / ranks)}"),
            ("read at the beginning, by each rank", size(begin)),
            ("memory of each rank for that", size(splits * constants["memory"])),
            ("time of each rank for that", f"{splits * constants['open']:,.1f} s"),
            ("the cursor of all ranks", size(ranks * constants["lane"])),
            ("steps of an epoch", f"{tokens / arguments.step:,.0f} of {arguments.step:,} tokens"),
            (
                "a rank's tokens of a step",
                f"{arguments.step / ranks:,.0f}, made in {arguments.step / ranks / constants['read'] * 1e6:,.0f} us",
            ),
        ]
    )


def cut(text, files):
    """How many splits a source of so many bytes is cut into, whose files are equally long."""
    finest = min(LONG_OF_MANY * text / files, LONGEST_OF_MANY) if files >= SPLITS else min(text / SPLITS, LONGEST)
    return files * max(1, math.floor(text / files / max(finest, text / MOST_SPLITS)))


def table(rows):
    print("| what | how much |\n|---|---|")
    for row in rows:
        print(f"| {row[0]} | {row[1]} |")


def size(count):
    """A number of bytes, as people read it."""
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if count < 1000:
            break
        count /= 1000
    return f"{count:,.3g} {unit}"


if __name__ == "__main__":
    main()
