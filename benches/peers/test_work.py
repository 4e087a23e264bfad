"""That equal work is told, and other work too:

    target/peers/venv/bin/python benches/peers/test_work.py
"""

import random
import unittest
from types import SimpleNamespace

import numpy as np

from harness.work import Tally, packed

EOS = 9


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


if __name__ == "__main__":
    unittest.main()
