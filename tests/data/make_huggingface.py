"""Makes tests/data/huggingface: directories as the Hugging Face libraries leave them.

    pip install datasets && python tests/data/make_huggingface.py
"""

import gzip
import json
import shutil
from pathlib import Path

from datasets import Dataset, DatasetDict

HERE = Path(__file__).parent / "huggingface"


def rows(part, n):
    return [{"text": f"{part} text {i}, “quoted”\nand a second line", "score": i} for i in range(n)]


def jsonl(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(line) + "\n" for line in lines)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(data.encode(), mtime=0))
    else:
        path.write_text(data)


shutil.rmtree(HERE, ignore_errors=True)

# What save_to_disk writes: one dataset, and a dictionary of them.
dataset = Dataset.from_list(rows("saved", 25))
dataset.save_to_disk(HERE / "saved", num_shards=2)
parts = DatasetDict({part: Dataset.from_list(rows(part, n)) for part, n in [("train", 12), ("test", 5)]})
parts.save_to_disk(HERE / "saved_parts")

# A snapshot as a cache of the hub has it: links into blobs, whose names say nothing.
blobs = HERE / "cache" / "blobs"
blobs.mkdir(parents=True)
snapshot = HERE / "cache" / "snapshots" / "0a1b"
(snapshot / "data").mkdir(parents=True)
for number, (name, part) in enumerate([("train-00000-of-00002", "train a"), ("train-00001-of-00002", "train b"), ("test-00000-of-00001", "test")]):
    Dataset.from_list(rows(part, 6)).to_parquet(blobs / f"blob{number}")
    (snapshot / "data" / f"{name}.parquet").symlink_to(f"../../../blobs/blob{number}")
(snapshot / "README.md").write_text("---\nlicense: mit\n---\n\n# A dataset\n")

# A repository whose README lists its files.
listed = HERE / "listed"
jsonl(listed / "en" / "a.jsonl", rows("en a", 3))
jsonl(listed / "en" / "b.jsonl.gz", rows("en b", 3))
jsonl(listed / "en" / "held.jsonl", rows("en held", 2))
jsonl(listed / "de" / "all.jsonl", rows("de", 4))
(listed / "README.md").write_text("""---
configs:
- config_name: en
  default: true
  data_files:
  - split: train
    path:
    - "en/[ab].jsonl*"
  - split: validation
    path: en/held.jsonl
- config_name: de
  data_files: de/*.jsonl
---
# Languages
""")

# One without a README: names say which part is which.
plain = HERE / "plain"
jsonl(plain / "train.jsonl", rows("train", 3))
jsonl(plain / "dev.jsonl", rows("dev", 2))
# Shards of parts that are none of the usual ones.
for name in ["train a", "train b"]:
    jsonl(HERE / "shards" / "data" / f"{name.replace(' ', '_')}-00000-of-00001.jsonl", rows(name, 2))
csv = "score,text\n" + "".join(f'{row["score"]},"{row["text"]}"\n' for row in rows("csv", 4))
(HERE / "tables").mkdir()
(HERE / "tables" / "rows.csv").write_text(csv)
