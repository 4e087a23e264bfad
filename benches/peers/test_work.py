"""That equal work is told, and other work too:

    target/peers/venv/bin/python benches/peers/test_work.py
"""

import dataclasses
import json
import os
import random
import tempfile
import unittest
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet

from harness import report
from harness.names import COMPLETE, ENGINES, LABELS, ONLINE, OWN, OWN_TURNS, PREPARED, SHARDS
from harness.work import Tally, Work, packed
from loaders import gigatoken, nanochat, plain

EOS = 9
HERE = os.path.dirname(os.path.abspath(__file__))


def documents():
    draw = random.Random(1)
    return [[draw.randrange(9) for _ in range(draw.randrange(1, 40))] for _ in range(300)]


def told(documents, group=7):
    """What a tally says of documents that are packed and batched."""
    runs = [np.array([*ids, EOS], dtype=np.int32) for ids in documents]
    groups = (np.concatenate(runs[at : at + group]) for at in range(0, len(runs), group))
    tally = Tally(EOS)
    for batch in packed(groups, SimpleNamespace(batch_size=4, seq_len=16, eos=EOS)):
        tally.add(batch)
    return tally.result()


class EqualWork(unittest.TestCase):
    def test_counts(self):
        result = told(documents())
        self.assertEqual(result["documents"], 300)
        self.assertEqual(result["tokens"], sum(map(len, documents())))

    def test_neither_order_nor_groups_matter(self):
        shuffled = documents()
        random.Random(2).shuffle(shuffled)
        self.assertEqual(told(documents()), told(shuffled, group=50))

    def test_what_is_lost_repeated_changed_or_moved_is_seen(self):
        lost, repeated, changed, moved, joined = (documents() for _ in range(5))
        del lost[17]
        repeated.append(repeated[17])
        changed[17][0] = (changed[17][0] + 1) % 9
        whole = next(ids for ids in moved if len(ids) > 2 and ids != ids[::-1])
        whole.reverse()
        joined[17] += joined.pop(18)
        for other in (lost, repeated, changed, moved, joined):
            self.assertNotEqual(told(documents()), told(other))


class Spelled:
    """An engine whose texts are their ids, with spaces."""

    def encode(self, texts):
        return np.array([int(word) for text in texts for word in [*text.split(), EOS]], dtype=np.int32)

    def encode_on(self, threads, texts):
        return self.encode(texts)


class Online(unittest.TestCase):
    """Loaders of text, with documents and an engine that need nothing of what is measured."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        fields = dict.fromkeys((field.name for field in dataclasses.fields(Work)), "")
        files = [os.path.join(directory.name, f"{number}.jsonl") for number in range(3)]
        sizes = {"window": 100, "seq_len": 16, "batch_size": 4, "workers": 2, "seed": 1}
        parquet = os.path.join(directory.name, "parquet")
        self.work = Work(**{**fields, **sizes, "eos": EOS, "files": files, "parquet": parquet})
        for number, path in enumerate(files):
            with open(path, "w", encoding="utf-8") as file:
                for ids in documents()[number::3]:
                    file.write(json.dumps({"text": " ".join(map(str, ids))}) + "\n")

    def tally(self, loader):
        tally = Tally(EOS)
        for batch in loader:
            self.assertEqual((batch.shape[1], batch.dtype), (17, np.int32))
            self.assertLessEqual(len(batch), 4)
            tally.add(batch)
        return tally.result()

    def test_loaders_do_the_same_work(self):
        nanochat.prepare(self.work)
        for loader in (plain, gigatoken, nanochat):
            self.assertEqual(self.tally(loader.online(self.work, Spelled())), told(documents()), loader.__name__)

    def test_gigatoken_s_loop_does_it_with_any_window(self):
        for window in (1, 7, 64, 299, 300, 1000):
            work = dataclasses.replace(self.work, window=window)
            self.assertEqual(self.tally(gigatoken.online(work, Spelled())), told(documents()), window)

    def test_gigatoken_s_groups_hold_each_line_once_in_another_order(self):
        drawn = [line for group in gigatoken.drawn(range(1000), 100, seed=1) for line in group]
        self.assertEqual(sorted(drawn), list(range(1000)))
        self.assertNotEqual(drawn, list(range(1000)))
        # Nothing leaves before it has come into the window.
        self.assertTrue(all(line < place + 100 + gigatoken.GROUP for place, line in enumerate(drawn)))

    def test_gigatoken_s_rows_are_those_of_the_others(self):
        draw = random.Random(3)
        for sizes in ([], [1], [2], [17], [65], [64, 1], [1, 63, 1], [draw.randrange(200) for _ in range(30)]):
            runs = [np.array(draw.choices(range(9), k=size), dtype=np.int32) for size in sizes]
            theirs, ours = packed(iter(runs), self.work), gigatoken.batches(iter(runs), self.work)
            joined = [np.concatenate([*rows, np.empty((0, 17))]).tolist() for rows in (list(theirs), list(ours))]
            self.assertEqual(*joined, sizes)

    def test_nanochat_resumes_with_the_row_group_behind_the_last_one(self):
        held, nanochat.ROW_GROUP = nanochat.ROW_GROUP, 40
        self.addCleanup(setattr, nanochat, "ROW_GROUP", held)
        nanochat.prepare(self.work)
        names = sorted(os.listdir(self.work.parquet))
        groups = []
        for name in names:
            file = pyarrow.parquet.ParquetFile(os.path.join(self.work.parquet, name))
            groups += [file.read_row_group(group)["text"].to_pylist() for group in range(file.num_row_groups)]
        self.assertEqual([len(group) for group in groups], [40, 40, 20] * 3)
        loader = nanochat.online(self.work, Spelled())
        states = [loader.state() for _ in loader]
        self.assertEqual(states[-1], (2, 2))
        for state in sorted(set(states)):
            left = [ids for group in groups[state[0] * 3 + state[1] + 1 :] for ids in map(str.split, group)]
            resumed = self.tally(nanochat.online(self.work, Spelled(), state))
            self.assertEqual(resumed, told([list(map(int, ids)) for ids in left]), state)


class Table(unittest.TestCase):
    def row(self, kind, loader, engine, rate, rates=None):
        known = {"busy_before": 0, "same_work": True, "exact": True, "replayed": False}
        numbers = dict.fromkeys(report.NUMBERS, 1)
        rates = {"rates": rates} if rates else {}
        return {"kind": kind, "loader": loader, "engine": engine, **known, **numbers, "tokens_per_second": rate, **rates}

    def test_each_loader_has_a_file_and_a_name(self):
        loaders = {loader for _, loader, _ in (*OWN_TURNS, *COMPLETE)} | {*ONLINE, *SHARDS, *PREPARED}
        self.assertEqual(loaders, set(LABELS))
        for loader in loaders:
            self.assertTrue(os.path.exists(os.path.join(HERE, "loaders", f"{loader}.py")), loader)
        self.assertEqual({engine for _, _, engine in (*OWN_TURNS, *COMPLETE)} - {None}, set(OWN))

    def test_complete_loaders_stand_behind_millstream(self):
        turns = [*[("online", loader, engine) for engine in ENGINES for loader in ONLINE], *COMPLETE, *OWN_TURNS]
        table = report.table([self.row(*turn, 2e6) for turn in turns], "online")
        lines = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines()[2:]]
        whole = [[LABELS[name], "its own"] for name in ("millstream", "millstream_python", "gigatoken")]
        self.assertEqual(lines[:3], whole)
        self.assertEqual(lines[3:], [[LABELS[name], ENGINES[engine]] for engine in ENGINES for name in ONLINE])

    def test_the_wheel_s_share_is_that_of_the_turns(self):
        rows = [
            self.row("online", "millstream", "own", 100, [100, 50, 10]),
            self.row("online", "millstream_python", "own", 45, [91, 45, 9.5]),
            self.row("shards", "millstream", None, 100, [100, 100, 100]),
            self.row("shards", "millstream_python", None, 50, [101, 99, None]),
        ]
        said = "From Python the wheel keeps, of the Rust program's rate: 91% from text, 100% from shards."
        self.assertEqual(report.from_python(rows), said)
        failed = {**rows[3], "rates": [None, None, None]}
        alone = "From Python the wheel keeps, of the Rust program's rate: 91% from text."
        self.assertEqual(report.from_python([*rows[:3], failed]), alone)
        self.assertIsNone(report.from_python(rows[:1]))
        run = {"machine": "2 cores", "corpus": "text", "command": "a command", "minutes": 1}
        page = report.markdown({"run": run, "results": rows})
        self.assertIn(f"\n\n{said}\n", page)

    def test_what_failed_is_named_by_its_tokenizer(self):
        rows = [{**self.row(*turn, 1), "failed": ["speed: why"]} for turn in (*COMPLETE, *OWN_TURNS[-1:])]
        run = {"machine": "2 cores", "corpus": "text", "command": "a command", "minutes": 1}
        page = report.markdown({"run": run, "results": rows})
        self.assertIn("- gigatoken in a loop, its own: speed: why", page)
        self.assertIn(f"- {LABELS['millstream_python']}, shards: speed: why", page)


if __name__ == "__main__":
    unittest.main()
