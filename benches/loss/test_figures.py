"""That figures are taken from what the program prints as they stand there:

    python3 benches/loss/test_figures.py
"""

import json
import unittest

import figures


def lines(*values):
    return "".join(json.dumps(value) + "\n" for value in values)


class Figures(unittest.TestCase):
    def test_only_lines_that_set_a_key_go(self):
        config = "[pipeline]\nlanes = 16   # rows\nwindow = 64\nseq_len = 8\npack_window = 9\n[train]\nout = 'x'\n"
        self.assertEqual(
            figures.without(config, "lanes", "window", "train"),
            "[pipeline]\nseq_len = 8\npack_window = 9\n[train]\nout = 'x'\n",
        )

    def test_a_document_counts_once_a_batch(self):
        one, other, later = ({"path": path, "byte": byte} for path, byte in (("a", 0), ("b", 0), ("a", 9)))
        shown = lines({"pieces": [one, one, other]}, {"pieces": [one, other, later, later]})
        self.assertEqual(figures.documents(shown), 2.5)

    def test_a_run_is_judged_by_its_last_steps(self):
        steps = [{"step": 1, "loss": 1000.0}] + [{"step": 2 + n, "loss": 4.0 + n % 2} for n in range(figures.LAST)]
        run = figures.of_run(lines(*steps, {"end": "finished", "validation_loss": 4.2, "bits_per_byte": 2.0}))
        self.assertEqual((run["loss"], run["validation_loss"], run["bits_per_byte"]), (4.5, 4.2, 2.0))
        self.assertAlmostEqual(run["deviation"], 0.5, places=2)

    def test_ways_of_the_same_batches_share_their_runs(self):
        def run(loss):
            return {"loss": loss, "deviation": 0.1, "validation_loss": loss, "bits_per_byte": 2.0}

        looks = [
            {"way": way, "seed": seed, "documents": 2.0, "run": name + str(seed)}
            for way, name in (("defaults", "x"), ("16 lanes", "y"), ("1 lane", "x"))
            for seed in (1, 2)
        ]
        ways = figures.summary(looks, {"x1": run(3.0), "x2": run(5.0), "y1": run(2.0), "y2": run(2.0)})
        self.assertEqual([row["same_batches_as"] for row in ways], ["defaults", "16 lanes", "defaults"])
        self.assertEqual([row["loss"]["mean"] for row in ways], [4.0, 2.0, 4.0])
        self.assertAlmostEqual(ways[0]["loss"]["spread"], 2**0.5)
        one = figures.summary(looks[::2], {"x1": run(3.0), "y1": run(2.0)})
        self.assertIsNone(one[0]["loss"]["spread"])


if __name__ == "__main__":
    unittest.main()
