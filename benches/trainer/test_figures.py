"""Run it with: python3 -m unittest discover benches/trainer"""

import unittest

import figures
from shapes import OURS, SHAPES, flops, parameters


def run(seconds, loss, memory=1 << 30):
    return {"steps": [{"seconds": 9.0, "loss": 9.0}] * 3 + [{"seconds": seconds, "loss": loss}] * 5, "peak_memory": memory}


class Figures(unittest.TestCase):
    def test_the_first_steps_are_not_counted(self):
        shape = {**SHAPES["1.4M"], "steps": 8}
        self.assertEqual(figures.rate(run(0.5, 1.0), shape), 2 * 16 * 128)
        self.assertEqual(figures.loss(run(0.5, 1.0)), 1.0)

    def test_what_two_terms_count_is_predicted_once(self):
        self.assertEqual(figures.predicted({"parameters": 8.0, "gradients": 4.0, "overlap": 3.0, "allocator": 0.5}), 9.5)

    def test_several_rounds_have_the_least_and_the_most_of_their_ratios(self):
        shape = {**SHAPES["1.4M"], "steps": 8}
        runs = {OURS: [run(0.1, 2.0), run(0.2, 2.0)], "PyTorch f32": [run(0.2, 2.0), run(0.1, 2.0)]}
        self.assertEqual(figures.between(*runs.values(), shape), "0.50 to 2.00")
        document = {
            "run": {"command": "it", "versions": {}, "machine": "2 cores", "rounds": 2},
            "shapes": {"1.4M": shape},
            "runs": {"1.4M": runs},
        }
        said = figures.markdown(document)
        self.assertIn("| Millstream's rate to it | in single rounds | peak memory", said)
        self.assertIn(" | 1.00 | 0.50 to 2.00 | 1.00 | 2.000 |", said)

    def test_shapes_have_the_parameters_that_their_names_say(self):
        self.assertEqual([round(parameters(shape) / 1e6, 1) for shape in SHAPES.values()], [1.4, 27.2, 123.6])
        self.assertEqual(flops(SHAPES["1.4M"]), 6 * (4 * (4 * 128**2 + 3 * 128 * 384) + 4096 * 128) + 12 * 4 * 128 * 128)

    def test_the_table_compares_and_tells_of_losses_that_differ(self):
        runs = {OURS: [run(0.1, 2.0)], "PyTorch f32": [run(0.2, 2.05)], "PyTorch bf16 pure": [run(0.1, 3.0)]}
        document = {
            "run": {"command": "it", "versions": {"PyTorch": "2"}, "machine": "2 cores", "rounds": 1},
            "shapes": {"1.4M": {**SHAPES["1.4M"], "steps": 8}},
            "runs": {"1.4M": runs},
        }
        said = figures.markdown(document)
        self.assertIn("| PyTorch f32 | 10,240 |", said)
        self.assertIn(" | 2.00 | 1.00 | 2.050 |", said)
        self.assertIn("The loss of PyTorch bf16 pure is more than 5%", said)


if __name__ == "__main__":
    unittest.main()
