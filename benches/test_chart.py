"""That the charts show what was measured, and say what was not:

    python3 benches/test_chart.py
"""

import re
import unittest
import xml.etree.ElementTree as ET

import chart
import soak

PAGE = """2 cores; `a command`

From text:

| loader | tokenizer | M tokens/s | first batch | peak memory | waits at 20 ms a batch |
|---|---|---|---|---|---|
| **Millstream** | its own | 40 (1x) | 500 ms (1x) | 100 MiB (1x) | 0.00% |
| other | tokenizers | 10 (0.25x) | 1 s (2x) | 2 GiB (20x) | |
| other | tiktoken | 20 (0.5x) | 250 ms (0.5x) | 50 MiB (0.5x) | 5% |
| third | tokenizers | failed | 100 ms (0.2x) | 50 MiB (0.5x) | 5% |
"""
NAMES = {"svg": "http://www.w3.org/2000/svg"}


class Chart(unittest.TestCase):
    def test_figures_are_read_with_their_units(self):
        read = {"44 (1x)": 44, "33 ms (2.1x)": 33, "14.5 s (36x), exact": 14500, "2 GiB": 2048, "0.00%": 0}
        for cell, value in read.items():
            self.assertEqual(chart.figure(cell)[0], value, cell)
        for cell in ["", None, "failed", "—"]:
            self.assertIsNone(chart.figure(cell), cell)

    def test_bars_are_as_long_as_their_figures(self):
        drawn = ET.fromstring(chart.draw(PAGE))
        widths = [float(bar.get("width")) for bar in drawn.findall("svg:rect", NAMES)]
        # Four bars a panel: Millstream, the other with two tokenizers, the third.
        self.assertEqual(len(widths), 16)
        speed, first, memory, wait = (widths[at : at + 4] for at in range(0, 16, 4))
        longest = max(speed)
        self.assertEqual([round(width / longest, 3) for width in speed], [1, 0.25, 0.5, 0])
        self.assertEqual([round(width / longest, 3) for width in first], [0.5, 1, 0.25, 0.1])
        self.assertEqual([round(width / longest, 2) for width in memory], [0.05, 1, 0.02, 0.02])
        self.assertEqual([round(width / longest, 2) for width in wait], [0, 0, 1, 1])

    def test_what_was_not_measured_is_said(self):
        texts = [text.text for text in ET.fromstring(chart.draw(PAGE)).findall("svg:text", NAMES)]
        self.assertEqual(texts.count(chart.MISSING), 2)
        self.assertIn("2 cores; a command", texts)

    def test_the_picture_is_of_the_results(self):
        page = (chart.RESULTS / "peers.md").read_text()
        picture = (chart.RESULTS / "peers.svg").read_text()
        self.assertEqual(chart.draw(page), picture, "run python3 benches/chart.py")
        shown = set(re.findall(r">([\d.]+ (?:MiB|ms|s))<", picture))
        self.assertTrue(shown)
        for text in shown:
            self.assertIn(f" {text} ", page)


class Soak(unittest.TestCase):
    def test_lines_are_as_high_as_their_figures(self):
        keys = ["own_kib", "mapped_kib", "threads", "files"]
        rows = [
            {"what": "csv", "second": second, **dict(zip(keys, figures))}
            for second, figures in [(0, (1024, 0, 5, 7)), (10, (5120, 1024, 10, 7)), (20, (2560, 0, 5, 7))]
        ]
        drawn = ET.fromstring(soak.draw([("Loading", [("csv", rows)])]))
        lines = [path.get("d") for path in drawn.findall("svg:path", NAMES) if path.get("class") == "line"]
        memory, threads, files = ([tuple(map(float, point.split())) for point in line[1:].split("L")] for line in lines)
        bottom = soak.TOP + soak.HEIGHT
        heights = [round((bottom - y) / soak.HEIGHT, 2) for _, y in memory]
        self.assertEqual(heights, [0.2, 1, 0.5])
        across = [(x - soak.LEFT) / (soak.WIDTH - soak.LEFT) for x, _ in memory]
        self.assertEqual([round(x, 2) for x in across], [0, 0.33, 0.67])
        self.assertEqual(threads[0][1], threads[2][1])
        self.assertEqual(len({y for _, y in files}), 1)

    def test_the_picture_is_of_the_results(self):
        files = [(title, soak.read(soak.RESULTS / name)) for name, title in soak.FILES]
        picture = (soak.RESULTS / "memory.svg").read_text()
        self.assertEqual(soak.draw(files), picture, "run python3 benches/soak.py")


if __name__ == "__main__":
    unittest.main()
