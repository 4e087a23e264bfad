"""Asks a Hub as `huggingface_hub` and `datasets` do, and prints what they say as one line of JSON.

    python3 hub_peer.py download REPO REVISION FILE...   the paths of the files in the cache
    python3 hub_peer.py offline  REPO REVISION FILE...   the same, from what the cache has alone
    python3 hub_peer.py hold     REPO REVISION FILE...   the same, asked for 20 times
    python3 hub_peer.py snapshot REPO REVISION           the directory of the whole commit
    python3 hub_peer.py rows     REPO SUBSET PART REVISION   the rows of a split
    python3 hub_peer.py files    REPO SUBSET PART REVISION...   the data files of splits

REPO is datasets/OWNER/NAME, spaces/OWNER/NAME or OWNER/NAME; `rows` and `files` take datasets alone. A dash stands for
the default, which is "train" for PART. What the libraries raise is printed as {"class": ..., "error": ...}. The Hub,
the cache and the token come from HF_ENDPOINT, HF_HOME or HF_HUB_CACHE, and HF_TOKEN.
"""

import json
import os
import sys

# Nothing but the endpoint is asked.
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["HF_UPDATE_DOWNLOAD_COUNTS"] = "0"

from huggingface_hub import hf_hub_download, snapshot_download


def repository(repo):
    kind, _, name = repo.partition("/")
    kinds = {"datasets": "dataset", "spaces": "space"}
    return {"repo_id": name, "repo_type": kinds[kind]} if kind in kinds else {"repo_id": repo}


def default(argument, value=None):
    return value if argument == "-" else argument


def download(repo, revision, *files, **options):
    options = {**repository(repo), "revision": default(revision), **options}
    return [hf_hub_download(filename=file, **options) for file in files]


def offline(*arguments):
    return download(*arguments, local_files_only=True)


def hold(*arguments):
    return [download(*arguments) for _ in range(20)][-1]


def snapshot(repo, revision):
    return snapshot_download(**repository(repo), revision=default(revision))


def load(how, repo, subset, revision, **options):
    import datasets

    # The viewer of datasets is another host.
    datasets.config.USE_PARQUET_EXPORT = False
    datasets.disable_progress_bars()
    name = repository(repo)["repo_id"]
    return getattr(datasets, how)(name, default(subset), revision=default(revision), **options)


def rows(repo, subset, part, revision):
    return list(load("load_dataset", repo, subset, revision, split=default(part, "train")))


def files(*asked):
    chosen = [load("load_dataset_builder", *asked[at : at + 2], asked[at + 3]) for at in range(0, len(asked), 4)]
    parts = [default(part, "train") for part in asked[2::4]]
    # hf://datasets/OWNER/NAME@COMMIT/PATH
    path = lambda file: file.split("@", 1)[1].split("/", 1)[1]
    return [sorted(map(path, of.config.data_files[part])) for of, part in zip(chosen, parts)]


COMMANDS = [download, offline, hold, snapshot, rows, files]
command = {command.__name__: command for command in COMMANDS}[sys.argv[1]]
try:
    answer = command(*sys.argv[2:])
except Exception as error:
    answer = {"class": type(error).__name__, "error": str(error)}
print(json.dumps(answer, default=str))
