"""Which parts the library `datasets` deals the files of a directory to, layout by layout.

    pip install datasets==5.2.0
    python make_layouts.py

Writes `layouts.jsonl`, one layout a line: its `files`, its `readme` and `subset` if it has them, and the texts of its
`parts`. The text of each file is its own path.
"""

import gzip
import json
import pathlib
import tempfile

import datasets

HERE = pathlib.Path(__file__).parent

# Each layout: its files, and what else it has.
PLAIN = [
    # Directories decide before names do.
    ["train/val.jsonl", "test/train.jsonl"],
    ["train/a.jsonl", "valid/a.jsonl", "testing/a.jsonl"],
    ["training/a.jsonl", "dev/a.jsonl", "evaluation/a.jsonl"],
    ["a/train/b/c.jsonl", "a/test/b/c.jsonl"],
    ["train/x.jsonl", "val.jsonl"],
    ["train/x.jsonl", "other/y.jsonl"],
    ["en/train/x.jsonl", "de/train/x.jsonl", "de/eval/x.jsonl"],
    ["my-train/x.jsonl", "my_test/x.jsonl"],
    ["train-2020/x.jsonl", "test.small/x.jsonl"],
    ["train 1/x.jsonl", "2test/x.jsonl"],
    ["en_train_1/x.jsonl", "en.dev.2/x.jsonl"],
    ["trained/x.jsonl", "contest/x.jsonl"],
    ["Train/x.jsonl", "test/x.jsonl"],
    ["train/test/x.jsonl", "train/x.jsonl"],
    ["train_test/x.jsonl", "dev/x.jsonl"],
    ["validation/x.jsonl"],
    ["test/x.jsonl", "test/deep/er/y.jsonl"],
    # Names of files.
    ["train.jsonl", "valid.jsonl", "test.jsonl"],
    ["train.jsonl", "validation.jsonl", "eval.jsonl"],
    ["training_1.jsonl", "val-2.jsonl", "testing.3.jsonl"],
    ["my_train.jsonl", "my-dev.jsonl", "other.jsonl"],
    ["a.train.b.jsonl", "a.test.b.jsonl"],
    ["v1.0-train.jsonl", "v1.0-test.jsonl"],
    ["train1.jsonl", "train2.jsonl", "0test0.jsonl"],
    ["pretrain.jsonl", "latest.jsonl"],
    ["x.train.jsonl", "y.jsonl"],
    ["TRAIN.jsonl", "Test.jsonl"],
    ["TRAIN.jsonl", "test.jsonl"],
    ["train_val.jsonl", "x.jsonl"],
    ["test_train_dev.jsonl"],
    ["en/train.jsonl", "en/test.jsonl", "de/train.jsonl"],
    ["some/where/train.jsonl", "else/train.jsonl", "else/data.jsonl"],
    ["train", "train.jsonl"],
    ["train stories.jsonl", "test stories.jsonl"],
    ["validation_matched.jsonl", "validation_mismatched.jsonl", "train.jsonl"],
    # Shards in `data`.
    ["data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl", "data/test-00000-of-00001.jsonl"],
    ["data/train_sft-00000-of-00001-a1b2.jsonl", "data/train_gen-00000-of-00001-c3.jsonl",
     "data/test_sft-00000-of-00001-d4.jsonl"],
    ["data/anything-00000-of-00001.jsonl"],
    ["data/v1.0-00000-of-00001.jsonl", "data/v1.1-00000-of-00001.jsonl"],
    ["data/train-00000-of-00001.jsonl", "data/extra.jsonl", "test/x.jsonl"],
    ["data/train-00000-of-00001.jsonl", "other/test-00000-of-00001.jsonl"],
    ["en/data/train_a-00000-of-00001.jsonl", "en/data/test_a-00000-of-00001.jsonl"],
    ["train_a-00000-of-00001.jsonl", "train_b-00000-of-00001.jsonl"],
    ["data/train-0-of-1.jsonl", "data/test-0-of-1.jsonl"],
    ["data/train-000000-of-000001.jsonl", "data/test-00000-of-00001.jsonl"],
    ["data/a-00000-of-00001.jsonl.gz", "data/b-00000-of-00001.jsonl.gz"],
    ["data/deep/train_a-00000-of-00001.jsonl"],
    # Nothing says anything.
    ["a.jsonl", "b.jsonl"],
    ["x/a.jsonl", "y/b.jsonl"],
    ["data/a.jsonl", "data/b.jsonl"],
    # What is passed over.
    ["train.jsonl", ".hidden.jsonl", ".git/train.jsonl"],
    ["_train.jsonl", "x.jsonl"],
    ["_a.jsonl", "__b.jsonl"],
    ["a.jsonl", "__pycache__/b.jsonl", "_kept/c.jsonl"],
    ["a.json", "config.json", "dataset_info.json", "sub/dataset_infos.json"],
    ["a.txt", "LICENSE.txt", "requirements.txt"],
    ["train/a.jsonl", "train/state.json"],
    # Formats and endings.
    ["stories.v1.jsonl", "stories.v2.jsonl"],
    ["train.v1.0.jsonl", "test.v1.0.jsonl"],
    ["a.jsonl", "b.jsonl", "c.txt"],
    ["a.jsonl", "b.txt"],
    ["a.txt", "b.csv"],
    ["a.json", "b.jsonl", "c.ndjson"],
    ["a.jsonl.gz", "b.jsonl.gz", "c.txt"],
    ["a.JSONL", "b.jsonl"],
    ["a.jsonl.old", "b.jsonl"],
    ["train/a.csv", "test/a.csv", "test/notes.txt"],
    ["train.tsv", "dev.tsv"],
    ["train.txt", "notes.txt"],
    ["a.gz.jsonl", "b.jsonl"],
]

CARDS = [
    (["en/train.jsonl", "de/x.jsonl", "de/test/y.jsonl"],
     [("en", "data_dir: en"), ("de", "data_dir: de")], ["en", "de"]),
    (["train/val.jsonl", "held.jsonl"],
     [("default", "data_files:\n  - split: train\n    path: held.jsonl\n  - split: odd\n    path: train/*.jsonl")],
     [None]),
    (["a/data/x-00000-of-00001.jsonl", "a/data/y-00000-of-00001.jsonl"], [("a", "data_dir: a")], ["a"]),
    (["a/train.jsonl", "b/train.jsonl", "b/dev.jsonl"],
     [("one", "data_files: a/*"), ("two", "default: true\n  data_dir: b")], ["one", None]),
]


def written(root, path):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    suffixes = path.rsplit("/", 1)[-1].split(".")[1:]
    if "csv" in suffixes or "tsv" in suffixes:
        text = f"text\n{path}\n"
    elif {"json", "jsonl", "ndjson"} & {suffix.lower() for suffix in suffixes}:
        text = json.dumps({"text": path}) + "\n"
    else:
        text = path + "\n"
    file.write_bytes(gzip.compress(text.encode(), mtime=0) if path.endswith(".gz") else text.encode())


def readme(cards):
    lines = [f"- config_name: {name}\n  {settings}\n" for name, settings in cards]
    return "---\nconfigs:\n" + "".join(lines) + "---\n"


def layout(files, card=None, subset=None):
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory) / "set"
        for path in files:
            written(root, path)
        if card:
            (root / "README.md").write_text(card)
        dealt = datasets.load_dataset(str(root), subset, streaming=True)
        parts = {part: sorted(row["text"] for row in rows) for part, rows in dealt.items()}
    made = {"files": files, "parts": parts}
    if card:
        made["readme"] = card
    if subset:
        made["subset"] = subset
    return made


def main():
    datasets.disable_progress_bars()
    layouts = [layout(files) for files in PLAIN]
    layouts += [layout(files, readme(cards), subset) for files, cards, subsets in CARDS for subset in subsets]
    with open(HERE / "layouts.jsonl", "w", encoding="utf-8") as out:
        for made in layouts:
            out.write(json.dumps(made) + "\n")
    print(f"{len(layouts)} layouts by datasets {datasets.__version__}")


if __name__ == "__main__":
    main()
